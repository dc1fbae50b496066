// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// scenario is a random cluster, with the GPUs of each node that some pod holds.
type scenario struct {
	heldCase
	r    *rand.Rand
	gpus map[string]int
	held map[string]map[int]bool
}

// pod adds a pod that holds a GPU of a node.
func (s *scenario) pod(n *heldNode, gpu int, p heldPod) {
	s.held[n.Name][gpu] = true
	p.Name, p.Node = fmt.Sprintf("p%d", len(s.Pods)), n.Name
	s.Pods = append(s.Pods, p)
}

// holders are the ways in which the pods of a node get its GPUs: each makes the node and one pod for each given GPU.
var holders = map[string]func(s *scenario, n *heldNode, gpus int, of []int){
	"the device plugin, perhaps by an init container": func(s *scenario, n *heldNode, gpus int, of []int) {
		n.Labels["nvidia.com/gpu.product"], n.Labels["nvidia.com/gpu.count"] = "NVIDIA-L40S", strconv.Itoa(gpus)
		n.Offers["nvidia.com/gpu"] = strconv.Itoa(gpus)
		for _, g := range of {
			one := map[string]string{"nvidia.com/gpu": "1"}
			if s.r.IntN(2) == 0 {
				s.pod(n, g, heldPod{Init: []map[string]string{one}, Containers: []map[string]string{{}}})
			} else {
				s.pod(n, g, heldPod{Limits: one})
			}
		}
	},
	"HAMi, under any name, with or without what was given": func(s *scenario, n *heldNode, gpus int, of []int) {
		count := []string{"nvidia.com/gpu", "nvidia.com/vgpu", "company.io/card"}[s.r.IntN(3)]
		register := ""
		for g := range gpus {
			register += fmt.Sprintf("%s-%d,10,24576,100,NVIDIA-NVIDIA A30,0,true:", n.Name, g)
		}
		n.Annotations["hami.io/node-nvidia-register"], n.Offers[count] = register, strconv.Itoa(10*gpus)
		for _, g := range of {
			p := heldPod{Limits: map[string]string{count: "1", "nvidia.com/gpumem": "4000"}}
			if s.r.IntN(2) == 0 {
				p.Annotations = map[string]string{"hami.io/vgpu-devices-allocated": fmt.Sprintf("%s-%d,NVIDIA,4000,0:;", n.Name, g)}
			}
			s.pod(n, g, p)
		}
	},
	"Volcano, with or without its register": func(s *scenario, n *heldNode, gpus int, of []int) {
		if s.r.IntN(2) == 0 {
			n.Labels["nvidia.com/gpu.product"], n.Labels["nvidia.com/gpu.count"], n.Labels["nvidia.com/gpu.present"] = "NVIDIA-A30", strconv.Itoa(gpus), "true"
		} else {
			for g := range gpus {
				n.Annotations["volcano.sh/node-vgpu-register"] += fmt.Sprintf("%s-%d,10,24576,NVIDIA-NVIDIA A30,true,hami-core:", n.Name, g)
			}
		}
		n.Offers["volcano.sh/vgpu-number"] = strconv.Itoa(10 * gpus)
		for _, g := range of {
			s.pod(n, g, heldPod{Limits: map[string]string{"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-cores": "20"}})
		}
	},
	"KAI": func(s *scenario, n *heldNode, gpus int, of []int) {
		n.Labels["nvidia.com/gpu.product"], n.Labels["nvidia.com/gpu.count"] = "NVIDIA-L40S", strconv.Itoa(gpus)
		n.Offers["nvidia.com/gpu"] = strconv.Itoa(gpus)
		for _, g := range of {
			p := heldPod{Annotations: map[string]string{"gpu-fraction": "0.4"}}
			if s.r.IntN(2) == 0 {
				p.Labels = map[string]string{"runai-gpu-group": fmt.Sprint("g", g)}
			}
			s.pod(n, g, p)
		}
	},
	"GKE's sharing": func(s *scenario, n *heldNode, gpus int, of []int) {
		n.Labels = map[string]string{"cloud.google.com/gke-accelerator": "nvidia-l4", "cloud.google.com/gke-max-shared-clients-per-gpu": "3", "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"}
		n.Offers["nvidia.com/gpu"] = strconv.Itoa(3 * gpus)
		for _, g := range of {
			s.pod(n, g, heldPod{Limits: map[string]string{"nvidia.com/gpu": "1"}})
		}
	},
	"claims, of the pods' own or behind extended resources, known or not": func(s *scenario, n *heldNode, gpus int, of []int) {
		for g := range gpus {
			n.Devices = append(n.Devices, heldDevice{Name: fmt.Sprint("gpu-", g), Type: "gpu", UUID: fmt.Sprintf("%s-%d", n.Name, g), Product: "NVIDIA H100 80GB HBM3"})
			if s.r.IntN(2) == 0 {
				n.Devices = append(n.Devices, heldDevice{Name: fmt.Sprint("gpu-vfio-", g), Type: "vfio", UUID: fmt.Sprint("v", g), Product: "GH100 [H100 SXM5 80GB]"})
			}
		}
		for _, g := range of {
			name := fmt.Sprintf("%s-c%d", n.Name, len(s.Pods))
			if s.r.IntN(4) > 0 {
				s.claim(n, name, []string{"gpu.nvidia.com", "mine", "vfio.gpu.nvidia.com"}[s.r.IntN(3)], fmt.Sprint("gpu-", g))
			}
			switch resource := []string{"example.com/ts-gpu", "nvidia.com/gpu", "deviceclass.resource.kubernetes.io/mine"}[s.r.IntN(3)]; s.r.IntN(2) {
			case 0:
				s.pod(n, g, heldPod{Claims: []string{name}})
			default:
				s.pod(n, g, heldPod{Limits: map[string]string{resource: "1"}, Extended: name, Maps: []string{resource}})
			}
		}
	},
	"KubeVirt": func(s *scenario, n *heldNode, gpus int, of []int) {
		resource := "nvidia.com/TU104GL_TESLA_T4"
		n.Offers[resource] = strconv.Itoa(gpus)
		if s.r.IntN(2) == 0 {
			resource = "nvidia.com/NVIDIA_A10-12Q"
			n.Offers = map[string]string{resource: strconv.Itoa(2 * gpus)}
		}
		for _, g := range of {
			s.pod(n, g, heldPod{Limits: map[string]string{resource: "1", "devices.kubevirt.io/kvm": "1"}})
		}
	},
	"an operator that nobody knows": func(s *scenario, n *heldNode, gpus int, of []int) {
		n.Labels["nvidia.com/gpu.product"], n.Labels["nvidia.com/gpu.count"], n.Labels["nvidia.com/gpu.present"] = "NVIDIA-L40S", strconv.Itoa(gpus), "true"
		resource, each := []string{"acme.example/slot", "acme.example/gpu-memory", "nvidia.com/turbo", "tencent.com/vcuda-core"}[s.r.IntN(4)], 1+s.r.IntN(20)
		if s.r.IntN(2) == 0 {
			n.Offers[resource] = strconv.Itoa(each * gpus)
		}
		if s.r.IntN(2) == 0 { // together with the device plugin
			n.Offers["nvidia.com/gpu"] = strconv.Itoa(gpus)
		}
		for _, g := range of {
			s.pod(n, g, heldPod{Limits: map[string]string{resource: strconv.Itoa(1 + s.r.IntN(each))}})
		}
	},
	"MIG instances, made beforehand or on demand": func(s *scenario, n *heldNode, gpus int, of []int) {
		n.Labels["nvidia.com/gpu.product"], n.Labels["nvidia.com/gpu.count"], n.Labels["nvidia.com/mig.strategy"] = "NVIDIA-A100-SXM4-80GB", strconv.Itoa(gpus), "mixed"
		n.Offers["nvidia.com/mig-3g.40gb"] = strconv.Itoa(2 * gpus)
		for _, g := range of {
			resource := []string{"nvidia.com/mig-3g.40gb", "mig.das.com/3g.40gb", "instaslice.redhat.com/mig-3g.40gb"}[s.r.IntN(3)]
			s.pod(n, g, heldPod{Limits: map[string]string{resource: "1"}})
		}
	},
}

func (s *scenario) claim(n *heldNode, name, class, device string) {
	k := heldClaim{Name: name, Class: class, Device: device}
	s.Objects = append(s.Objects, k.object(n.Name))
}

func newScene(seed uint64) *scenario {
	s := &scenario{r: rand.New(rand.NewPCG(seed, 7)), gpus: map[string]int{}, held: map[string]map[int]bool{}}
	ways := slices.Sorted(maps.Keys(holders))
	for i := range 1 + s.r.IntN(3) {
		n := heldNode{Name: fmt.Sprint("node-", i), Labels: map[string]string{}, Annotations: map[string]string{}, Offers: map[string]string{}}
		gpus := 1 + s.r.IntN(4)
		s.gpus[n.Name], s.held[n.Name] = gpus, map[int]bool{}
		var of []int
		for range s.r.IntN(4) {
			of = append(of, s.r.IntN(gpus))
		}
		way := ways[s.r.IntN(len(ways))]
		s.Name += way + "; "
		if way == "the device plugin, perhaps by an init container" {
			of = s.r.Perm(gpus)[:s.r.IntN(gpus+1)] // one to a GPU
		}
		holders[way](s, &n, gpus, of)
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

var freeOn = regexp.MustCompile(`(node-\d) \((\d+)\)`)

// check compares the GPUs that a discovery reports as free with those that are.
func (s *scenario) check(t *testing.T, d *discover.Discovery) {
	t.Helper()
	free := map[string]int{}
	for _, f := range d.Findings {
		if f.Code != "gpus-not-held" {
			continue
		}
		for _, m := range freeOn.FindAllStringSubmatch(f.Message, -1) {
			k, _ := strconv.Atoi(m[2])
			free[m[1]] = k
		}
	}
	all, _ := d.Fleet.Layout()
	for n := range all.Nodes() {
		truly := s.gpus[n.Name] - len(s.held[n.Name])
		if free[n.Name] > truly {
			t.Errorf("%s: %d GPUs of %s are reported as free, and %d are\n%s", s.Name, free[n.Name], n.Name, truly, s.json(t))
		}
		if len(n.Devices) != s.gpus[n.Name] {
			t.Errorf("%s: %s has %d GPUs, not %d\n%s", s.Name, n.Name, s.gpus[n.Name], len(n.Devices), s.json(t))
		}
		// What a plan takes to be free of a node that is open to it: its whole GPUs without those of whole ones' tenants.
		if n.Closed != "" || n.Delivery > sharing.DeliveryGPUOperator {
			continue
		}
		open := 0
		for i := range n.Devices {
			if d := &n.Devices[i]; d.Mode == sharing.MechanismExclusive {
				open += int(d.Free().Slots)
			}
		}
		if open > max(0, truly) {
			t.Errorf("%s: a plan may start work on %d GPUs of %s, and %d are free\n%s", s.Name, open, n.Name, truly, s.json(t))
		}
	}
	if len(d.Fleet.Workloads) < len(s.Pods) {
		t.Errorf("%s: %d workloads of %d pods\n%s", s.Name, len(d.Fleet.Workloads), len(s.Pods), s.json(t))
	}
}

// TestNothingHeldIsFree: in random clusters, whatever the way in which each pod has its GPU, none that some pod holds
// is reported as free, and no pod is lost.
func TestNothingHeldIsFree(t *testing.T) {
	for seed := range uint64(race.Fewer(1500)) {
		s := newScene(seed)
		d, err := read(t, discover.Options{}, "objects", s.json(t))
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if s.check(t, d); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
