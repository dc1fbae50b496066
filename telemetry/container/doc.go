// SPDX-License-Identifier: Apache-2.0

// Package container finds the container and pod of a process, and the GPUs that each pod was given.
//
// The driver names the processes that use a GPU by their ids. A Resolver goes from there to the container by the
// process's control group, in all forms that containerd, CRI-O, Docker and Podman write with either driver, under
// cgroup v1, v2 and inside a private cgroup namespace; and to the pod by the names of the kubelet's log links. It
// asks no API and needs no rights beyond reading. Which GPU a container was given, used or not, comes from the
// kubelet's pod-resources API as Allocations; ParseDevice reads the ids that device plugins use there.
//
// An unknown pod is an Identity with a Reason, never a guess. The ids are those of the caller's PID namespace: a
// program in a pod needs hostPID to see others' processes.
// It is experimental: its API may change between minor versions.
package container
