// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// trapCase is an input that walks into one trap.
type trapCase struct {
	pool Pool
	w    Workload
	with *Workload
}

func asks(m sharing.Mechanism, f func(*Workload)) Workload {
	w := Workload{Name: "w", Kind: KindBatch, Replicas: Replicas{Max: 4}, Memory: sharing.Some(4 * sharing.GiB), GPUBusy: sharing.Some(0.1), Request: &fleet.Asked{Mechanism: m}}
	if f != nil {
		f(&w)
	}
	return w
}

var trapCases = map[string]trapCase{
	"time-slicing-takes-turns": {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.Kind = KindOnlineInference })},
	"mps-is-not-isolation":     {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Isolation = hard })},
	"mig-needs-idle-instances": {pool: Pool{GPU: "A100-SXM4-80GB", Count: 4, Layouts: []string{"3g.40gb@4!busy"}}, w: asks(sharing.MechanismMIG, nil)},
	"hami-can-be-bypassed":     {w: asks(sharing.MechanismHAMi, func(w *Workload) { w.Framework = &fleet.Framework{Name: "pytorch", Privileged: true} })},
	"emulation-is-not-mig":     {w: asks(sharing.MechanismMIGLikeEmulation, nil)},
	"figures-of-others":        {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Evidence = "vendor" })},
	"memory-fractions-add-up": {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) {
		w.Framework = &fleet.Framework{Name: "tgi", MemoryFraction: sharing.Some(0.8)}
		w.Request.Replicas = 2
	})},
	"prefill-memory":            {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.Framework = &fleet.Framework{Name: "tgi", MaxPrefill: 8192} })},
	"node-group-without-driver": {pool: Pool{GPU: "L40S", Count: 4, Platform: "eks-managed", InstanceType: "g6e.2xlarge"}, w: asks(sharing.MechanismTimeSlicing, nil)},
	"turns-against-p99":         {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.Kind, w.SLO.TPOTP99 = KindOnlineInference, sharing.Some(profile.Duration(50e6)) })},
	"mps-needs-idle-sms":        {w: asks(sharing.MechanismMPS, func(w *Workload) { w.GPUBusy = sharing.Some(0.95) })},
	"mps-chains-starve": {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Kind = KindOnlineInference }),
		with: &Workload{Name: "fft", Kind: KindHPC, Memory: sharing.Some(4 * sharing.GiB), GPUBusy: sharing.Some(0.95)}},
	"training-fills-the-gpu": {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.Kind, w.GPUBusy = KindTraining, sharing.Some(0.9) })},
	"replicas-share-memory":  {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.Request.Replicas = 4 })},
	"mps-fault-spreads":      {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Request.Replicas = 4 })},
	"synthetic-figures":      {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Evidence = "synthetic" })},
	"model-exceeds-slice": {pool: Pool{GPU: "A100-SXM4-80GB", Count: 4}, w: asks(sharing.MechanismMIG, func(w *Workload) {
		w.Memory, w.Model = sharing.Optional[sharing.Bytes]{}, &fleet.LanguageModel{Parameters: 7e9, Weights: "fp16"}
		w.Request.Profile = "1g.10gb"
	})},
	"unequal-slowdowns": {pool: Pool{GPU: "T4", Count: 4, Mechanisms: []sharing.Mechanism{sharing.MechanismTimeSlicing}}, w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.Replicas.Max = 1; w.Kind = KindNotebook }),
		with: &Workload{Name: "other", Kind: "ci", Memory: sharing.Some(4 * sharing.GiB), GPUBusy: sharing.Some(0.05)}},
	"unlike-cost-sides":         {pool: Pool{GPU: "L40S", Count: 4, CPUNodes: &fleet.CPUNodes{Shared: 2}}, w: asks(sharing.MechanismTimeSlicing, nil)},
	"utilisation-is-not-load":   {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Evidence = "nvml-utilization" })},
	"shared-gpu-metrics":        {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.Evidence = "nvml-utilization" })},
	"mig-gone-after-reboot":     {pool: Pool{GPU: "A100-SXM4-80GB", Count: 4, Delivery: sharing.DeliveryDevicePlugin}, w: asks(sharing.MechanismMIG, nil)},
	"double-memory-slice":       {pool: Pool{GPU: "H100 SXM5 80GB", Count: 4, Delivery: sharing.DeliveryDRA}, w: asks(sharing.MechanismMIG, func(w *Workload) { w.Request.Profile = "1g.20gb" })},
	"first-fit-blocks-4g":       {pool: Pool{GPU: "A100-SXM4-80GB", Count: 4, Layouts: []string{"3g.40gb@0"}}, w: asks(sharing.MechanismMIG, nil)},
	"replicas-are-not-capacity": {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.GPUBusy = sharing.Some(0.5); w.Request.Replicas = 4 })},
	"two-shares-one-gpu":        {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.Request.SharedGPUs = 2 })},
	"mps-limit-per-process":     {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Framework = &fleet.Framework{Name: "pytorch", Processes: 2} })},
	"mps-pipe-directory":        {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Env = map[string]string{"CUDA_MPS_PIPE_DIRECTORY": "nvidia-mps"} })},
	"mps-memory-fraction": {w: asks(sharing.MechanismMPS, func(w *Workload) {
		w.Framework = &fleet.Framework{Name: "vllm", MemoryFraction: sharing.Some(0.9)}
		w.Request.Replicas = 2
	})},
	"mps-device-ordinals": {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Env = map[string]string{"CUDA_VISIBLE_DEVICES": "0"} })},
	"mps-limit-dropped":   {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Env = map[string]string{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=2G,1=4G"} })},
	"mps-one-user-per-server": {pool: Pool{GPU: "L40S", Count: 4}, w: asks(sharing.MechanismMPS, func(w *Workload) { w.Kind, w.UID, w.Tenant = KindHPC, sharing.Some(1000), "t" }),
		with: &Workload{Name: "other", Kind: KindHPC, Tenant: "t", Memory: sharing.Some(4 * sharing.GiB), GPUBusy: sharing.Some(0.1), UID: sharing.Some(1001)}},
	"mps-client-killed":         {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Request.Replicas = 2 })},
	"mps-fault-state-lasts":     {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Request.Replicas = 2 })},
	"hami-graphs-unlimited":     {w: asks(sharing.MechanismHAMi, func(w *Workload) { w.Framework = &fleet.Framework{Name: "vllm", CUDAGraphs: sharing.Some(true)} })},
	"parallelism-across-slices": {w: asks(sharing.MechanismMIG, func(w *Workload) { w.GPUs = 2 })},
	"mps-on-mig-delivery":       {pool: Pool{GPU: "A100-SXM4-80GB", Count: 4, Delivery: sharing.DeliveryDevicePlugin}, w: asks(sharing.MechanismMIGWithMPS, nil)},
	"mps-namespace-limits":      {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Request.MPSNamespace = "team" })},
	"mps-q-flag":                {pool: Pool{GPU: "L40S", Count: 4, MPSProtocol: 3}, w: asks(sharing.MechanismMPS, nil)},
	"timeslice-setting":         {pool: Pool{GPU: "V100-32GB", Count: 4, Timeslice: 3}, w: asks(sharing.MechanismTimeSlicing, nil)},
	"equal-load-per-model":      {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Evidence = "equal-concurrency" })},
}

func trapsOf(t *testing.T, c trapCase) []string {
	t.Helper()
	p := c.pool
	if p.GPU == "" {
		p.GPU, p.Count = "L40S", 8
	}
	p.Name = "p"
	f := &Fleet{Version: "v1", Pools: []Pool{p}, Workloads: []Workload{c.w}}
	if p.CPUNodes != nil {
		p.CPUNodes.PricePerHour = price(t, "0.08 USD")
	}
	if c.with != nil {
		f.Workloads = append(f.Workloads, *c.with)
	}
	r := decide(t, f)
	var ids []string
	for i, h := range r.Decision("w").Traps {
		ids = append(ids, h.ID)
		if i > 0 && h.Severity > r.Decision("w").Traps[i-1].Severity {
			t.Errorf("traps are not by severity: %+v", r.Decision("w").Traps)
		}
	}
	return ids
}

// TestEveryTrapIsDetected: each trap is found in an input, and not in a clean one.
func TestEveryTrapIsDetected(t *testing.T) {
	clean := trapCase{pool: Pool{GPU: "A100-SXM4-80GB", Count: 8, Delivery: sharing.DeliveryDRA}, w: with(online, func(w *Workload) { w.Isolation = hard })}
	if ids := trapsOf(t, clean); len(ids) > 0 {
		t.Errorf("a clean input walks into %v", ids)
	}
	for _, trap := range sharing.Traps() {
		c, ok := trapCases[trap.ID]
		if !ok {
			t.Errorf("%s has no test", trap.ID)
			continue
		}
		if ids := trapsOf(t, c); !slices.Contains(ids, trap.ID) {
			t.Errorf("%s is not found, but %v", trap.ID, ids)
		}
	}
	for id := range trapCases {
		if _, ok := sharing.TrapByID(id); !ok {
			t.Errorf("%s is found and no trap", id)
		}
	}
}

// stated has for each trap of high or critical severity the condition on the input: a requested share, or a setting of
// the workload. Nothing else may be a hit: consequences of the chosen mechanism are accepted or counted.
var stated = map[string]func(*Workload) bool{
	"mps-is-not-isolation":      asksForShare,
	"mig-needs-idle-instances":  asksForShare,
	"hami-can-be-bypassed":      asksForShare,
	"emulation-is-not-mig":      asksForShare,
	"memory-fractions-add-up":   asksForShare,
	"turns-against-p99":         asksForShare,
	"mps-chains-starve":         asksForShare,
	"replicas-share-memory":     asksForShare,
	"mps-fault-spreads":         asksForShare,
	"model-exceeds-slice":       asksForShare,
	"mps-limit-per-process":     asksForShare,
	"mps-memory-fraction":       asksForShare,
	"mps-one-user-per-server":   asksForShare,
	"mps-client-killed":         asksForShare,
	"mps-fault-state-lasts":     asksForShare,
	"hami-graphs-unlimited":     asksForShare,
	"parallelism-across-slices": asksForShare,
	"mps-on-mig-delivery":       asksForShare,
	"mps-namespace-limits":      asksForShare,
	"prefill-memory":            func(w *Workload) bool { return w.Framework != nil && w.Framework.MaxPrefill > 4096 },
	"mps-pipe-directory":        setsEnv("CUDA_MPS_PIPE_DIRECTORY"),
	"mps-device-ordinals":       setsEnv("CUDA_VISIBLE_DEVICES"),
	"mps-limit-dropped":         setsEnv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"),
}

func asksForShare(w *Workload) bool {
	return w.Request != nil && w.Request.Mechanism > sharing.MechanismExclusive
}

func setsEnv(name string) func(*Workload) bool {
	return func(w *Workload) bool { _, set := w.Env[name]; return set }
}

// TestNoLayoutWalksIntoATrap: of every fleet that is kept here and random ones, no hit of a high severity
// comes from the arrangement; and each trap that a mechanism brings with it has an answer.
func TestNoLayoutWalksIntoATrap(t *testing.T) {
	t.Parallel()
	race.Long(t)
	fleets := map[string]*Fleet{}
	for _, pattern := range []string{"../examples/quickstart/*.yaml", "../examples/quickstart/testdata/*.yaml", "testdata/*.yaml", "testdata/*/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if f, err := LoadFleet(file); err == nil { // others' tests read those that are no fleets
				fleets[file] = f
			}
		}
	}
	if len(fleets) < 12 {
		t.Fatalf("%d fleets", len(fleets))
	}
	all := map[string]decidedFleet{}
	for file, f := range fleets {
		all[file] = decidedFleet{f, decide(t, f)}
	}
	for i, d := range decidedFleets(t) {
		all[fmt.Sprint("random ", i)] = d
	}
	accepted := 0
	for name, one := range all {
		f, r := one.fleet, one.result
		for k := range f.Workloads {
			w := &f.Workloads[k]
			d := r.Decision(w.Name)
			accepted += len(d.Accepts)
			for _, h := range d.Traps {
				if h.Severity >= sharing.SeverityHigh && !stated[h.ID](w) {
					t.Errorf("%s: %s by %s walks into %s: %s", name, d.Workload, d.Mechanism, h.ID, h.Message)
				}
			}
		}
	}
	if accepted == 0 {
		t.Error("no layout accepts anything: the test sees nothing")
	}
	for _, trap := range sharing.Traps() {
		if trapTexts[trap.ID].Found == "" {
			t.Errorf("%s has no text", trap.ID)
		}
		if trap.Severity >= sharing.SeverityHigh && stated[trap.ID] == nil {
			t.Errorf("%s: say what of an input walks into it", trap.ID)
		}
	}
}

// TestUsersHaveServersOfTheirOwn: workloads of different user ids are no clients
// of one MPS server, though they trust one another; of one user id they are.
func TestUsersHaveServersOfTheirOwn(t *testing.T) {
	for _, other := range []int{1000, 1001} {
		f := &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: "L40S", Count: 4, Mechanisms: []sharing.Mechanism{sharing.MechanismMPS, sharing.MechanismExclusive}}}}
		for i, uid := range []int{1000, other} {
			w := batch
			w.Name, w.Tenant, w.UID, w.GPUBusy = fmt.Sprintf("w%d", i), "t", sharing.Some(uid), sharing.Some(0.05)
			w.Replicas.Max = 2
			f.Workloads = append(f.Workloads, w)
		}
		together := false
		for _, g := range decide(t, f).Pools[0].Groups {
			for _, l := range g.Layouts {
				together = together || len(l.Tenants) > 1
			}
		}
		if together != (other == 1000) {
			t.Errorf("user ids 1000 and %d: together %v", other, together)
		}
	}
}
