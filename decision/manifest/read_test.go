package manifest

import (
	"errors"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/sharing"
)

// scene is what Build takes.
type scene struct {
	fleet  *decision.Fleet
	result *decision.Result
	opts   Options
}

func (s *scene) build() (*Folder, error) { return Build(s.fleet, s.result, s.opts) }

func (s *scene) workload(name string) *decision.Workload {
	for i := range s.fleet.Workloads {
		if w := &s.fleet.Workloads[i]; w.Name == name {
			return w
		}
	}
	return nil
}

func (s *scene) group(pool string, m sharing.Mechanism) *decision.GroupResult {
	for i := range s.result.Pools {
		for j := range s.result.Pools[i].Groups {
			if g := &s.result.Pools[i].Groups[j]; s.result.Pools[i].Pool == pool && g.Mechanism == m {
				return g
			}
		}
	}
	return nil
}

const mixedFleet = `
version: v1
pools:
  - {name: prod, gpu: A100-SXM4-80GB, count: 6, gpus_per_node: 2}
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
  - {name: train, kind: training, memory: 70GiB}
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
func mixed(t testing.TB) *scene {
	t.Helper()
	f, err := decision.ParseFleet([]byte(mixedFleet))
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{fleet: f, result: &decision.Result{}}
	runs := func(pool, workload string, m sharing.Mechanism, replicas int, profile string) {
		s.result.Decisions = append(s.result.Decisions, decision.Decision{Workload: workload, Pool: pool, Mechanism: m, Replicas: replicas, GPUs: 1, Profile: profile,
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

	pool := func(name string, groups ...decision.GroupResult) {
		s.result.Pools = append(s.result.Pools, decision.PoolResult{Pool: name, Groups: groups})
	}
	tenants := func(m sharing.Mechanism, gpus int, ts ...decision.TenantResult) decision.GroupResult {
		return decision.GroupResult{Mechanism: m, GPUs: gpus, Layouts: []decision.LayoutResult{{GPUs: gpus, Tenants: ts}}}
	}
	instance := func(profile, workload string, replicas int) decision.InstanceResult {
		return decision.InstanceResult{Profile: profile, Workload: workload, Replicas: replicas}
	}
	chat := instance("1g.20gb", "ml/chat", 1)
	nest := instance("3g.40gb", "nest", 2)
	pool("prod",
		decision.GroupResult{Mechanism: sharing.MechanismMIG, GPUs: 4, Layouts: []decision.LayoutResult{
			{GPUs: 3, Instances: []decision.InstanceResult{chat, chat, chat, chat}},
			{GPUs: 1, Instances: []decision.InstanceResult{instance("3g.40gb", "ml/search", 1), chat}}}},
		tenants(sharing.MechanismExclusive, 2, decision.TenantResult{Workload: "train", Replicas: 1}))
	pool("serve", tenants(sharing.MechanismMPS, 2, decision.TenantResult{Workload: "ml/embed", Replicas: 2}, decision.TenantResult{Workload: "search/rerank", Replicas: 1}))
	pool("nested", decision.GroupResult{Mechanism: sharing.MechanismMIGWithMPS, GPUs: 1, Layouts: []decision.LayoutResult{{GPUs: 1, Instances: []decision.InstanceResult{nest, nest}}}})
	pool("dev", tenants(sharing.MechanismTimeSlicing, 4, decision.TenantResult{Workload: "notebook", Replicas: 4}))
	pool("edge", tenants(sharing.MechanismHAMi, 8, decision.TenantResult{Workload: "on", Replicas: 1}),
		tenants(sharing.MechanismHAMiWithMPS, 8, decision.TenantResult{Workload: "asr", Replicas: 1}))
	pool("emu", tenants(sharing.MechanismMIGLikeEmulation, 1, decision.TenantResult{Workload: "emulated", Replicas: 2}))
	pool("vdi", tenants(sharing.MechanismVGPU, 2, decision.TenantResult{Workload: "desk", Replicas: 1}))
	pool("vdi2", tenants(sharing.MechanismMIGBackedVGPU, 1, decision.TenantResult{Workload: "desk-mig", Replicas: 1}))
	pool("lab", tenants(sharing.MechanismResearch, 1, decision.TenantResult{Workload: "novel", Replicas: 1}))
	pool("hub", tenants(sharing.MechanismInServer, 1, decision.TenantResult{Workload: "adapters", Replicas: 1}))
	return s
}

func TestBuildRefuses(t *testing.T) {
	if _, err := mixed(t).build(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*scene)
		want   []string
	}{
		"fleet": {func(s *scene) { s.fleet.Pools[0].Count = 0 }, []string{"pools[0].count"}},
		"another fleet": {func(s *scene) { s.fleet.Pools[1].Name, s.fleet.Workloads[0].Name = "x", "y" },
			[]string{`result.pools[1].pool: the fleet has no pool "serve"`, `result.decisions[0].workload: the fleet has no workload "ml/chat"`}},
		"namespace": {func(s *scene) { s.fleet.Workloads[0].Name, s.result.Decisions[0].Workload = "Ml/chat", "Ml/chat" },
			[]string{`result.decisions[0].workload: "Ml" is not a Kubernetes name`}},
		"long workload": {func(s *scene) {
			long := strings.Repeat("a", 60)
			s.workload("notebook").Name, s.result.Decisions[6].Workload = long, long
		}, []string{"result.decisions[6].workload: ", "with the number of a shared device"}},
		"long pool": {func(s *scene) {
			long := strings.Repeat("a", 60)
			s.fleet.Pools[3].Name, s.result.Pools[3].Pool, s.result.Decisions[6].Pool = long, long, long
		}, []string{"result.pools[3].groups[0]: pool \"aaaa", "makes a label of 73 characters"}},
		"repeated":    {func(s *scene) { s.result.Pools[0].Groups[1] = s.result.Pools[0].Groups[0] }, []string{"result.pools[0].groups[1]: repeats an earlier group", `result.decisions[2].pool: no group of pool "prod" shares by exclusive`}},
		"no GPUs":     {func(s *scene) { s.group("prod", sharing.MechanismExclusive).GPUs = 0 }, []string{"result.pools[0].groups[1].gpus: must be 1 or more"}},
		"alone":       {func(s *scene) { s.group("serve", sharing.MechanismMPS).Layouts = nil }, []string{"result.pools[1].groups[0].layouts: mps needs tenants that share"}},
		"layout":      {func(s *scene) { s.group("prod", sharing.MechanismMIG).Layouts[1].Instances[1].Profile = "7g.80gb" }, []string{"result.pools[0].groups[0].layouts[1].instances"}},
		"layout size": {func(s *scene) { s.group("prod", sharing.MechanismMIG).GPUs = 5 }, []string{"result.pools[0].groups[0].layouts: describe 4 GPUs of 5"}},
		"not MIG":     {func(s *scene) { s.fleet.Pools[0].GPU = "L40S" }, []string{"result.pools[0].groups[0]: "}},
		"profile":     {func(s *scene) { s.result.Decisions[0].Profile = "1g.10gb" }, []string{`result.decisions[0].profile: no GPU of prod-mig has an instance "1g.10gb"`}},
		"two shared":  {func(s *scene) { s.result.Decisions[6].GPUs = 2 }, []string{"result.decisions[6].gpus: 2 shared GPUs are no more than one"}},
		"options": {func(s *scene) {
			s.opts.OperatorNamespace, s.opts.Deliveries = "Nope", []sharing.Delivery{sharing.DeliveryBare, 99}
		}, []string{`operator_namespace: "Nope"`, "deliveries[0]: bare has no documents", "deliveries[1]"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mixed(t)
			c.change(s)
			folder, err := s.build()
			if folder != nil || !errors.Is(err, ErrInvalid) {
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

// decided is a fleet whose names Kubernetes would refuse, decided.
func decided(t *testing.T) *scene {
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
	return &scene{fleet: f, result: r, opts: Options{Notes: []string{"Saves a GPU."}}}
}

// Names are folded apart, what fits nowhere is said, and a fraction is raised
// where a slice needs it.
func TestBuildOfDecision(t *testing.T) {
	folder, err := decided(t).build()
	if err != nil {
		t.Fatal(err)
	}
	plan := find(t, folder, "plan.md")
	for _, want := range []string{`The pool "GPU_Pool" is called gpu-pool`, "huge fits nowhere", `"Chat_7B" is called chat-7b-2`, "- Saves a GPU."} {
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
	folder, err := Build(s.fleet, r, Options{})
	if err != nil || len(folder.Files) != 1 || !strings.Contains(find(t, folder, "plan.md"), "Nothing can be rolled out") {
		t.Errorf("%v, %v", folder, err)
	}
}

// A pool of virtual GPUs without a type is left out, and said to be.
func TestVGPUTypeMissing(t *testing.T) {
	s := mixed(t)
	s.fleet.Pools[6].VGPUType = ""
	folder, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	if plan := find(t, folder, "plan.md"); !strings.Contains(plan, "Pool vdi shares by vgpu, and its vgpu_type is not given") || strings.Contains(plan, "Group vdi-vgpu") {
		t.Errorf("got\n%s", plan)
	}
}
