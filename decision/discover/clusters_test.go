// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/discover"
)

// clusters are files as kubectl writes them, each with the labels of another way to hand out GPUs, and the fleet that
// follows from them by hand. Where each label is documented:
//
//   - nvidia.com/gpu.product (with -SHARED and -MIG-), gpu.count, gpu.memory,
//     gpu.replicas, gpu.sharing-strategy, mig.strategy, mig-PROFILE.count,
//     mps.capable, cuda.driver-version.full: NVIDIA/k8s-device-plugin,
//     docs/gpu-feature-discovery/README.md, "Generated Labels" and "MIG".
//   - Replicas of nvidia.com/gpu and the MPS memory limit of an equal share:
//     NVIDIA/k8s-device-plugin, README.md, "Shared Access to GPUs".
//   - nvidia.com/gpu.deploy.*: NVIDIA/gpu-operator, controllers/state_manager.go.
//   - nvidia.com/mig.config and its state: NVIDIA/mig-parted, deployments.
//   - hami.io/node-nvidia-register, nvidia.com/gpumem, gpumem-percentage,
//     gpucores: Project-HAMi/HAMi, docs/config.md and pkg/device/nvidia.
//   - ResourceSlice and ResourceClaim: kubernetes/api, resource/v1 and v1beta1;
//     the devices' attributes: NVIDIA/k8s-dra-driver-gpu, cmd/gpu-kubelet-plugin.
//   - gpu-fraction, gpu-memory, runai-gpu-group, kai.scheduler/queue and the
//     namespace of reservations: NVIDIA/KAI-Scheduler, docs/gpu-sharing/README.md.
//   - eks.amazonaws.com/nodegroup, node.kubernetes.io/instance-type: the clouds'
//     and Kubernetes' well-known labels; machine types: AWS EC2's instance types.
//   - training.kubeflow.org/job-name: kubeflow/training-operator, pkg/apis.
//   - notebook-name: kubeflow/kubeflow, components/notebook-controller.
var clusters = []struct {
	file      string
	pools     []string // name gpu count delivery
	today     []string // pool mechanism gpus tenants
	workloads []string // name kind replicas gpus memory mechanism
	findings  []string
}{
	{"time-slicing",
		[]string{"tesla-t4 Tesla T4 8 device-plugin"},
		[]string{"tesla-t4 time-slicing 8 7"},
		[]string{"data/jupyter-ada notebook 1 1 - time-slicing 4", "data/jupyter-bob notebook 1 1 - time-slicing 4", "data/jupyter-eve notebook 1 1 - time-slicing 4",
			"data/nightly batch 1 1 - time-slicing 4", "web/ranker online-inference 3 1 - time-slicing 4"},
		[]string{"gpus-not-held", "trap-replicas-share-memory", "trap-time-slicing-takes-turns"}},
	{"mps",
		[]string{"a100-sxm4-80gb A100-SXM4-80GB 8 device-plugin"},
		[]string{"a100-sxm4-80gb mps 8 9"},
		[]string{"chat/embed online-inference 3 1 20GiB mps 4", "chat/vllm-small online-inference 6 1 20GiB mps 4"},
		[]string{"trap-mps-fault-spreads", "trap-mps-client-killed", "trap-mps-fault-state-lasts"}},
	{"mig-single",
		[]string{"a100-sxm4-40gb A100-SXM4-40GB 16 gpu-operator"},
		[]string{"a100-sxm4-40gb mig 16 20"},
		[]string{"vision/detector online-inference 20 1 4.75GiB mig 1g.5gb"}, nil},
	{"mig-mixed",
		[]string{"a100-sxm4-80gb A100-SXM4-80GB 8 device-plugin"},
		[]string{"a100-sxm4-80gb exclusive 2 1", "a100-sxm4-80gb mig 6 16"},
		[]string{"llm/mid online-inference 4 1 39.25GiB mig 3g.40gb", "llm/small online-inference 12 1 9.5GiB mig 1g.10gb", "train/fit training 1 2 -"},
		[]string{"trap-mig-gone-after-reboot"}},
	{"gpu-operator",
		[]string{"serving L4 4 gpu-operator", "training H100 80GB HBM3 16 gpu-operator"},
		[]string{"serving exclusive 4 2", "training exclusive 16 2"},
		[]string{"api/asr online-inference 2 1 -", "ml/pretrain distributed-training 2 8 -"}, []string{"gpus-not-held"}},
	{"hami",
		[]string{"l40s L40S 2 hami"},
		[]string{"l40s hami 2 4"},
		[]string{"rag/reranker online-inference 3 1 10GiB hami", "rag/tools online-inference 1 1 11.25GiB hami"}, nil},
	{"dra-mig",
		[]string{"h100-80gb-hbm3 H100 80GB HBM3 3 dra"},
		[]string{"h100-80gb-hbm3 exclusive 1 1", "h100-80gb-hbm3 time-slicing 1 2", "h100-80gb-hbm3 mig 1 3"},
		[]string{"edge/batch batch 1 1 -", "edge/nb-a notebook 1 1 - time-slicing", "edge/nb-b notebook 1 1 - time-slicing", "edge/tiny online-inference 3 1 9.75GiB mig 1g.10gb"},
		[]string{"trap-replicas-share-memory"}},
	{"kai",
		[]string{"a100-sxm4-40gb A100-SXM4-40GB 4 gpu-operator"},
		[]string{"a100-sxm4-40gb exclusive 2 1", "a100-sxm4-40gb time-slicing 2 5"},
		[]string{"research/exp-00 batch 1 1 20GiB time-slicing", "research/exp-01 batch 1 1 20GiB time-slicing", "research/exp-10 batch 1 1 10GiB time-slicing",
			"research/exp-11 batch 1 1 10GiB time-slicing", "research/mem batch 1 1 4GiB time-slicing", "research/whole batch 1 1 -"},
		[]string{"trap-replicas-share-memory", "gpus-not-held", "kai-memory"}},
	// Clusters that others wrote down; testdata/others/README.md has the sources.
	{"../others/gpu-operator-time-slicing",
		[]string{"tesla-t4 Tesla T4 4 device-plugin"},
		[]string{"tesla-t4 time-slicing 4 5"},
		[]string{"default/time-slicing-verification online-inference 5 1 - time-slicing 4"},
		[]string{"trap-replicas-share-memory", "trap-time-slicing-takes-turns"}},
	{"../others/prem-operator-39",
		[]string{"a100-sxm4-40gb A100-SXM4-40GB 4 device-plugin"},
		[]string{"a100-sxm4-40gb mig 4 0"},
		[]string{"premai/hermes online-inference 1 1 -"}, []string{"gpus-not-held"}},
	{"../others/dra-driver-719",
		[]string{"gpupool A100 80GB PCIe 1 dra", "migpool A100 80GB PCIe 1 dra"},
		[]string{"gpupool exclusive 1 0", "migpool mig 1 0"}, nil, nil},
	{"bare",
		[]string{"a100-sxm4-40gb A100-SXM4-40GB 8 device-plugin"},
		[]string{"a100-sxm4-40gb exclusive 8 2"},
		[]string{"a/svc online-inference 2 2 -", "b/mystery online-inference 1 1 -"}, []string{"gpus-not-held"}},
}

func TestClusters(t *testing.T) {
	for _, c := range clusters {
		t.Run(c.file, func(t *testing.T) {
			d := joined(t, discover.Options{}, c.file, file(t, "clusters/"+c.file+".json"))
			var pools, today, workloads, findings []string
			for _, p := range d.Fleet.Pools {
				pools = append(pools, fmt.Sprintf("%s %s %d %v", p.Name, p.GPU, p.Count, p.Delivery))
			}
			for _, s := range d.Today {
				today = append(today, fmt.Sprintf("%s %v %d %d", s.Pool, s.Mechanism, s.GPUs, s.Tenants))
			}
			for _, w := range d.Fleet.Workloads {
				replicas := fmt.Sprint(w.Replicas.Max)
				if w.Replicas.Min > 0 {
					replicas = fmt.Sprintf("%d-%d", w.Replicas.Min, w.Replicas.Max)
				}
				text := fmt.Sprintf("%s %v %s %d %v", w.Name, w.Kind, replicas, w.GPUs, w.Memory)
				if r := w.Request; r != nil {
					text += " " + r.Mechanism.String()
					if r.Profile != "" {
						text += " " + r.Profile
					}
					if r.Replicas > 0 {
						text += fmt.Sprint(" ", r.Replicas)
					}
				}
				workloads = append(workloads, text)
			}
			for _, f := range d.Findings {
				findings = append(findings, f.Code)
			}
			for _, diff := range []string{cmp.Diff(c.pools, pools), cmp.Diff(c.today, today), cmp.Diff(c.workloads, workloads), cmp.Diff(c.findings, findings)} {
				if diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}
