// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// scenario holds the arguments of Build, and the nodes of the result's layout.
type scenario struct {
	fleet  *decision.Fleet
	result *decision.Result
	nodes  []layout.Node
}

func (s *scenario) build() (*Folder, error) {
	s.result.Layout, _ = layout.Observe(s.nodes)
	return Build(s.fleet, s.result)
}

// deliver has all nodes that a delivery can set up as they are set up by it.
func (s *scenario) deliver(d sharing.Delivery) {
	for i := range s.nodes {
		n := s.nodes[i]
		n.Delivery, n.Devices = d, slices.Clone(n.Devices)
		carries := true
		for k := range n.Devices {
			m := n.Devices[k].Mode
			carries = carries && sharing.Delivers(d, m).Answer == sharing.AnswerYes
			if shared(m) {
				layout.RulesOf(d).Configure(&n.Devices[k], m, int32(n.Devices[k].Slots))
			}
		}
		if _, problems := layout.Observe([]layout.Node{n}); carries && len(problems) == 0 {
			s.nodes[i] = n
		}
	}
}

func (s *scenario) workload(name string) *decision.Workload {
	for i := range s.fleet.Workloads {
		if w := &s.fleet.Workloads[i]; w.Name == name {
			return w
		}
	}
	return nil
}

func (s *scenario) decision(name string) *decision.Decision { return s.result.Decision(name) }

// node is the n-th node of a pool.
func (s *scenario) node(pool string, n int) *layout.Node {
	for i := range s.nodes {
		if s.nodes[i].Pool == pool {
			if n--; n < 0 {
				return &s.nodes[i]
			}
		}
	}
	return nil
}

// gpus are devices that are alike: the workloads on each, one for each of their replicas, or its instances with theirs.
type gpus struct {
	n         int
	mode      sharing.Mechanism
	slots     int32
	tenants   []string
	instances []instance
}

type instance struct {
	profile string
	tenants []string
}

// add gives a pool a node. A replica of a workload with several GPUs has those that are alike.
func (s *scenario) add(pool string, d sharing.Delivery, all ...gpus) {
	n := layout.Node{Name: fmt.Sprintf("%s-%d", pool, len(s.nodes)), Pool: pool, Delivery: d}
	gpu, rules := layout.GPUOf(s.fleet.Pools[slices.IndexFunc(s.fleet.Pools, func(p decision.Pool) bool { return p.Name == pool })].GPU), layout.RulesOf(d)
	hold := func(w string, replica, device int, p *mig.Profile, start int8) {
		n.Assignments = append(n.Assignments, layout.Assignment{Key: fmt.Sprintf("%s-%s-%d", w, n.Name, replica), Workload: s.fleet.Tenants()[w], Device: int16(device), Profile: p, Start: start})
	}
	replica := 0
	for _, like := range all {
		for range like.n {
			device := layout.Device{GPU: gpu}
			rules.Configure(&device, like.mode, like.slots)
			for _, w := range like.tenants {
				if d := s.decision(w); d == nil || d.GPUs == 1 {
					replica++
				}
				hold(w, replica, len(n.Devices), nil, 0)
			}
			var counts []mig.Count
			for _, in := range like.instances {
				counts = append(counts, mig.Count{Profile: in.profile, N: 1})
			}
			if len(counts) > 0 {
				made, _ := gpu.MIG.Place(counts, mig.Layout{Model: gpu.MIG})
				left := slices.Clone(made.Instances)
				for _, in := range made.Instances {
					device.Instances = append(device.Instances, layout.Instance{Profile: in.Profile, Start: int8(in.Start)})
				}
				for _, in := range like.instances {
					k := slices.IndexFunc(left, func(m mig.Instance) bool { return m.Profile.Name == in.profile })
					for _, w := range in.tenants {
						replica++
						hold(w, replica, len(n.Devices), left[k].Profile, int8(left[k].Start))
					}
					left = slices.Delete(left, k, k+1)
				}
			}
			n.Devices = append(n.Devices, device)
		}
	}
	s.nodes = append(s.nodes, n)
}

const mixedFleet = `
version: v1
trust: all
pools:
  - {name: prod, gpu: A100-SXM4-80GB, count: 6, gpus_per_node: 2, platform: eks, instance_type: p4de.24xlarge}
  - {name: serve, gpu: H100 80GB HBM3, count: 2, gpus_per_node: 2}
  - {name: nested, gpu: H100 80GB HBM3, count: 1}
  - {name: dev, gpu: Tesla T4, count: 4, gpus_per_node: 4}
  - {name: edge, gpu: L4, count: 16, gpus_per_node: 8}
  - {name: emu, gpu: L40S, count: 1, gpus_per_node: 1}
  - {name: vdi, gpu: A100-PCIE-80GB, count: 2, vgpu: true, vgpu_type: A100D-10C}
  - {name: vdi2, gpu: A100-PCIE-80GB, count: 1, vgpu: true, vgpu_type: A100D-1-10C}
  - {name: lab, gpu: L40S, count: 1}
  - {name: hub, gpu: L40S, count: 1, gpus_per_node: 1}
workloads:
  - {name: ml/chat, kind: online-inference, memory: 18GiB, framework: {name: vllm}}
  - {name: ml/search, kind: online-inference, memory: 30GiB, framework: {name: tgi, memory_fraction: 0.9}}
  - {name: train, kind: training, memory: 70GiB, framework: {name: pytorch}}
  - {name: ml/embed, kind: online-inference, memory: 19968MiB, framework: {name: vllm}}
  - {name: search/rerank, kind: online-inference, memory: 9728MiB, framework: {name: sglang, processes: 2}}
  - {name: nest, kind: online-inference, memory: 14848MiB, framework: {name: vllm}}
  - {name: notebook, kind: notebook, memory: 3GiB, framework: {name: vllm}}
  - {name: on, kind: online-inference, memory: 8GiB, framework: {name: vllm, cuda_graphs: true}}
  - {name: asr, kind: batch, memory: 7680MiB}
  - {name: emulated, kind: online-inference, memory: 19968MiB, framework: {name: vllm}}
  - {name: desk, kind: notebook, memory: 8GiB}
  - {name: desk-mig, kind: notebook, memory: 8GiB}
  - {name: novel, kind: batch, memory: 8GiB}
  - {name: adapters, kind: online-inference, memory: 8GiB}
`

// mixed has a group of every mechanism that can be configured.
func mixed(t testing.TB) *scenario {
	t.Helper()
	f, err := decision.ParseFleet([]byte(mixedFleet))
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario{fleet: f, result: &decision.Result{}}
	runs := func(pool, workload string, m sharing.Mechanism, replicas int, profile string) {
		s.result.Decisions = append(s.result.Decisions, decision.Decision{Workload: workload, Pool: pool, Mechanism: m, Replicas: replicas, Placed: replicas, GPUs: 1, Profile: profile,
			Candidates: []decision.Candidate{{Chosen: true, Tenants: 2}}})
	}
	runs("prod", "ml/chat", sharing.MechanismMIG, 13, "1g.20gb")
	runs("prod", "ml/search", sharing.MechanismMIG, 1, "3g.40gb")
	runs("prod", "train", sharing.MechanismExclusive, 1, "")
	s.result.Decisions[2].GPUs = 2
	runs("serve", "ml/embed", sharing.MechanismMPS, 4, "")
	runs("serve", "search/rerank", sharing.MechanismMPS, 2, "")
	runs("nested", "nest", sharing.MechanismMIGWithMPS, 4, "3g.40gb")
	runs("dev", "notebook", sharing.MechanismTimeSlicing, 16, "")
	runs("edge", "on", sharing.MechanismHAMi, 4, "")
	runs("edge", "asr", sharing.MechanismHAMiWithMPS, 2, "")
	runs("emu", "emulated", sharing.MechanismMIGLikeEmulation, 2, "")
	runs("vdi", "desk", sharing.MechanismVGPU, 1, "")
	runs("vdi2", "desk-mig", sharing.MechanismMIGBackedVGPU, 1, "")
	runs("lab", "novel", sharing.MechanismResearch, 1, "")
	runs("hub", "adapters", sharing.MechanismInServer, 1, "")

	times := func(n int, w string) (out []string) {
		for range n {
			out = append(out, w)
		}
		return out
	}
	chat := instance{"1g.20gb", []string{"ml/chat"}}
	nest := instance{"3g.40gb", times(2, "nest")}
	quarters := gpus{n: 1, mode: sharing.MechanismMIG, instances: []instance{chat, chat, chat, chat}}
	plugin := sharing.DeliveryDevicePlugin
	s.add("prod", plugin, quarters, quarters)
	s.add("prod", plugin, quarters, gpus{n: 1, mode: sharing.MechanismMIG, instances: []instance{{"3g.40gb", []string{"ml/search"}}, chat}})
	s.add("prod", plugin, gpus{n: 2, mode: sharing.MechanismExclusive, tenants: []string{"train"}})
	s.add("serve", plugin, gpus{n: 2, mode: sharing.MechanismMPS, slots: 3, tenants: []string{"ml/embed", "ml/embed", "search/rerank"}})
	s.add("nested", sharing.DeliveryDRA, gpus{n: 1, mode: sharing.MechanismMIGWithMPS, slots: 2, instances: []instance{nest, nest}})
	s.add("dev", plugin, gpus{n: 4, mode: sharing.MechanismTimeSlicing, slots: 4, tenants: times(4, "notebook")})
	s.add("edge", sharing.DeliveryHAMi, gpus{n: 4, mode: sharing.MechanismHAMi, slots: 10, tenants: []string{"on"}}, gpus{n: 4, mode: sharing.MechanismHAMi, slots: 10})
	s.add("edge", sharing.DeliveryHAMi, gpus{n: 2, mode: sharing.MechanismHAMiWithMPS, slots: 10, tenants: []string{"asr"}}, gpus{n: 6, mode: sharing.MechanismHAMiWithMPS, slots: 10})
	s.add("emu", plugin, gpus{n: 1, mode: sharing.MechanismMIGLikeEmulation, slots: 2, tenants: times(2, "emulated")})
	s.add("vdi", sharing.DeliveryVGPUManager, gpus{n: 2, mode: sharing.MechanismVGPU, tenants: []string{"desk"}})
	s.add("vdi2", sharing.DeliveryVGPUManager, gpus{n: 1, mode: sharing.MechanismMIGBackedVGPU, instances: []instance{{"1g.10gb", []string{"desk-mig"}}}})
	s.add("lab", sharing.DeliveryBare, gpus{n: 1, mode: sharing.MechanismResearch, tenants: []string{"novel"}})
	s.add("hub", plugin, gpus{n: 1, mode: sharing.MechanismInServer, tenants: []string{"adapters"}})
	return s
}

func TestBuildRefuses(t *testing.T) {
	if _, err := mixed(t).build(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*scenario)
		want   []string
	}{
		"fleet": {func(s *scenario) { s.fleet.Pools[0].Count = 0 }, []string{"pools[0].count"}},
		"another fleet": {func(s *scenario) { s.fleet.Pools[1].Name, s.fleet.Workloads[0].Name = "x", "y" },
			[]string{`result.layout.nodes[3].pool: the fleet has no pool "serve"`, `result.decisions[0].workload: the fleet has no workload "ml/chat"`, `result.decisions[3].pool: the fleet has no pool "serve"`}},
		"namespace": {func(s *scenario) { s.rename("ml/chat", "Ml/chat") },
			[]string{`result.decisions[0].workload: "Ml" is not a Kubernetes name`}},
		"long workload": {func(s *scenario) { s.rename("notebook", strings.Repeat("a", 60)) },
			[]string{"result.decisions[6].workload: ", "with the number of a shared device"}},
		"long pool": {func(s *scenario) {
			long := strings.Repeat("a", 60)
			s.fleet.Pools[3].Name, s.node("dev", 0).Pool, s.result.Decisions[6].Pool = long, long, long
		}, []string{"result.layout.nodes[5]: pool \"aaaa", "makes a label of 73 characters"}},
		"not in the layout": {func(s *scenario) { s.nodes = slices.Delete(s.nodes, 3, 4) }, []string{`result.decisions[3]: no replica of "ml/embed" is in its layout`}},
		"broken rules":      {func(s *scenario) { s.node("dev", 0).Devices[0].Slots = 3 }, []string{"the device plugin shares all full GPUs of a node by one mode"}},
		"two shared":        {func(s *scenario) { s.result.Decisions[6].GPUs = 2 }, []string{"result.decisions[6].gpus: 2 shared GPUs are no more than one"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mixed(t)
			c.change(s)
			folder, err := s.build()
			if folder != nil || !errors.Is(err, errInvalid) {
				t.Fatalf("got %v, %v", folder, err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error lacks %q:\n%v", w, err)
				}
			}
		})
	}
}

// rename gives a workload another name everywhere.
func (s *scenario) rename(from, to string) {
	s.workload(from).Name, s.decision(from).Workload = to, to
	for i := range s.nodes {
		for k := range s.nodes[i].Assignments {
			if a := &s.nodes[i].Assignments[k]; a.Workload.Name == from {
				a.Workload.Name = to
			}
		}
	}
}

// nodesOf are those of a result.
func nodesIn(r *decision.Result) (out []layout.Node) {
	for n := range r.Layout.Nodes() {
		out = append(out, *n)
	}
	return out
}

// decided is the decision of a fleet with names that Kubernetes would refuse.
func decided(t *testing.T) *scenario {
	t.Helper()
	f, err := decision.ParseFleet([]byte(`
version: v1
pools:
  - {name: GPU_Pool, gpu: A100-SXM4-80GB, count: 2}
workloads:
  - {name: Chat_7B, kind: online-inference, replicas: 2, memory: 18GiB, gpu_busy: 0.2, isolation: {memory: hardware}, framework: {name: vllm, memory_fraction: 0.9}}
  - {name: chat-7b, kind: online-inference, replicas: 2, memory: 8GiB, gpu_busy: 0.1, isolation: {memory: hardware}}
  - {name: huge, kind: training, memory: 200GiB, gpu_busy: 0.5}
`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := decision.Decide(t.Context(), f, decision.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &scenario{fleet: f, result: r, nodes: nodesIn(r)}
}

// Names are folded apart, workloads that fit nowhere are noted, and a fraction is raised where a slice needs it.
func TestBuildOfDecision(t *testing.T) {
	folder, err := decided(t).build()
	if err != nil {
		t.Fatal(err)
	}
	plan := find(t, folder, "plan.md")
	for _, want := range []string{`The pool "GPU_Pool" is called gpu-pool`, "huge fits nowhere", `"Chat_7B" is called chat-7b-2`} {
		if !strings.Contains(plan, want) {
			t.Errorf("plan.md lacks %q:\n%s", want, plan)
		}
	}
	// 18 GiB of a slice of 19.5 GiB is a fraction of 0.93.
	if doc := find(t, folder, "pods/chat-7b-2.yaml"); !strings.Contains(doc, `"0.93"`) {
		t.Errorf("got\n%s", doc)
	}
	find(t, folder, "pods/chat-7b.yaml")
}

func TestBuildOfNothing(t *testing.T) {
	s := decided(t)
	s.fleet.Workloads = s.fleet.Workloads[2:]
	r, err := decision.Decide(t.Context(), s.fleet, decision.Options{})
	if err != nil {
		t.Fatal(err)
	}
	folder, err := Build(s.fleet, r)
	if err != nil || len(folder.Files) != 1 || !strings.Contains(find(t, folder, "plan.md"), "Nothing can be rolled out") {
		t.Errorf("%v, %v", folder, err)
	}
}
