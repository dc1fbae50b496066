// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/sharing"
)

// onEKS reports whether eksctl can make the nodes of the group: their machine is known, and their number.
func (g *group) onEKS() bool {
	return strings.HasPrefix(g.pool.Platform, "eks") && g.pool.InstanceType != "" && g.count() > 0
}

// eksGroups writes eksctl's configuration (eksctl.io/v1alpha5 of its schema.json) with a managed node group for each
// group on EKS. Under AmazonLinux2023 eksctl chooses the image with NVIDIA's driver and container toolkit for a type of
// machine with GPUs (docs.aws.amazon.com/eks/latest/eksctl/gpu-support.html).
func (b *builder) eksGroups() {
	var nodeGroups []*yaml.Node
	for _, g := range b.groups {
		if g.onEKS() {
			nodeGroups = append(nodeGroups, yamlnode.Map("name", g.key, "amiFamily", "AmazonLinux2023",
				"instanceType", g.pool.InstanceType, "desiredCapacity", g.count(), "labels", b.nodeLabels(g),
				"taints", yamlnode.List(yamlnode.Map("key", gpuResource, "value", "present", "effect", "NoSchedule"))))
		}
	}
	if len(nodeGroups) == 0 {
		return
	}
	b.encode("eks/cluster.yaml", "node groups for eksctl, where the nodes are not there yet", []string{
		"Set CLUSTER and REGION. The GPU Operator installs the device plugin, and the image has the driver:",
		"  eksctl create nodegroup -f eks/cluster.yaml --install-nvidia-plugin=false",
		"  helm install gpu-operator nvidia/gpu-operator -n " + operatorNamespace + " --create-namespace \\",
		"    --set driver.enabled=false --set toolkit.enabled=false -f gpu-operator/values.yaml",
		"The taint keeps pods without GPUs away; the Operator's pods and those of pods/ tolerate it."},
		yamlnode.Map("apiVersion", "eksctl.io/v1alpha5", "kind", "ClusterConfig", "metadata",
			yamlnode.Map("name", "CLUSTER", "region", "REGION"), "managedNodeGroups", yamlnode.List(nodeGroups...)))
}

// surroundings are the settings that pods need from their node and framework. Pods that run today keep their own.
type surroundings struct{ env, mounts, volumes, tolerations []*yaml.Node }

// surroundings returns nothing for pods that run today, as their own settings are not known.
//   - /dev/shm in memory for frameworks with processes that share it: data loaders and NCCL of PyTorch (its README,
//     "Using pre-built images"), tensor parallelism of vLLM (its guide "Using Kubernetes") and SGLang. Containers have
//     64 MiB.
//   - Expandable segments, which fragment less memory (PyTorch, "Optimizing memory usage with
//     PYTORCH_CUDA_ALLOC_CONF"), for training only: under vLLM they break custom all-reduce and transfers of KV caches
//     (vllm issue 42609, pull request 54351). Not under MPS and HAMi, where memory limits are of other allocations.
func (m *member) surroundings() (s surroundings) {
	if m.workload.Today != nil {
		return s
	}
	name := strings.ToLower(m.framework().Name)
	if slices.Contains([]string{"pytorch", "vllm", "sglang"}, name) {
		s.mounts = []*yaml.Node{yamlnode.Map("name", "shm", "mountPath", "/dev/shm")}
		s.volumes = []*yaml.Node{yamlnode.Map("name", "shm", "emptyDir", yamlnode.Map("medium", "Memory"))}
	}
	trains := slices.Contains([]decision.Kind{decision.KindTraining, decision.KindDistributedTraining}, m.workload.Kind)
	if name == "pytorch" && trains && slices.Contains([]sharing.Mechanism{sharing.MechanismExclusive,
		sharing.MechanismTimeSlicing, sharing.MechanismMIG}, m.Mechanism) {
		s.env = []*yaml.Node{yamlnode.Map("name", "PYTORCH_CUDA_ALLOC_CONF", "value", "expandable_segments:True")}
	}
	if slices.ContainsFunc(m.groups, (*group).onEKS) {
		s.tolerations = []*yaml.Node{yamlnode.Map("key", gpuResource, "operator", "Exists", "effect", "NoSchedule")}
	}
	return s
}
