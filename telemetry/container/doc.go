// SPDX-License-Identifier: Apache-2.0

// Package container finds the container and pod of a process, and the GPUs that each pod was given.
//
// The driver identifies the processes on a GPU by their ids. A Resolver finds the container by the process's control
// group, in all forms that containerd, CRI-O, Docker and Podman write with either driver, under cgroup v1, v2 and
// inside a private cgroup namespace, and the pod by the names of the kubelet's log links. It calls no API and needs
// only read access. The kubelet's pod-resources API lists the GPUs given to each container, used or not, as
// Allocations; ParseDevice reads the ids of device plugins in it.
//
// An unknown pod is an Identity with a Reason, never a guess. The ids are those of the caller's PID namespace: a
// program in a pod needs hostPID to see others' processes.
// It is experimental: its API may change between minor versions.
package container
