// Package dra writes what Cotenant decides as dynamic resource allocation (resource.k8s.io/v1) for the NVIDIA DRA
// driver: the same nodes and pods in, and DeviceClasses, ResourceClaims, ResourceClaimTemplates and the pods that
// use them out.
//
// A pod that has GPUs or MIG instances to itself gets a template. Pods that the decision puts on one GPU get one
// claim with the mechanism's parameters, since a device is shared by those who name the same claim. Kubernetes
// still chooses the node; who shares with whom, and by what, is settled. Partitions stand as they are, or are made
// by a driver that offers them: a claim for a MIG profile is the same for both. No claim asks for admin access.
package dra
