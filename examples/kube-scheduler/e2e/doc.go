// SPDX-License-Identifier: Apache-2.0

// Package e2e runs the scheduler end to end: a real etcd, a real kube-apiserver, this example's kube-scheduler with
// the rights and the configuration that it is deployed with, and made-up nodes and pods. No kubelet runs: a pod is
// done when it is bound.
//
// run.sh builds the programs and starts the tests, which carry the build tag e2e.
package e2e
