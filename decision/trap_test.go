package decision

import (
	"slices"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// trapCase is an input that walks into one trap.
type trapCase struct {
	pool Pool
	w    Workload
	with *Workload
}

func asks(m sharing.Mechanism, f func(*Workload)) Workload {
	w := Workload{Name: "w", Kind: KindBatch, Replicas: Replicas{Max: 4}, Memory: ptr(4 * sharing.GiB), GPUBusy: ptr(0.1), Request: &Request{Mechanism: m}}
	if f != nil {
		f(&w)
	}
	return w
}

var trapCases = map[string]trapCase{
	"T1": {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.Kind = KindOnlineInference })},
	"T2": {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Isolation = hard })},
	"T3": {pool: Pool{GPU: "A100-SXM4-80GB", Count: 4, Layouts: []string{"3g.40gb@4!busy"}}, w: asks(sharing.MechanismMIG, nil)},
	"T4": {w: asks(sharing.MechanismHAMi, func(w *Workload) { w.Framework = &Framework{Name: "pytorch", Privileged: true} })},
	"T5": {w: asks(sharing.MechanismMIGLikeEmulation, nil)},
	"T6": {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Evidence = EvidenceVendor })},
	"T7": {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) {
		w.Framework = &Framework{Name: "tgi", MemoryFraction: ptr(0.8)}
		w.Request.Replicas = 2
	})},
	"T8":  {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.Framework = &Framework{Name: "tgi", MaxPrefill: 8192} })},
	"T9":  {pool: Pool{GPU: "L40S", Count: 4, Platform: "eks-managed", InstanceType: "g6e.2xlarge"}, w: asks(sharing.MechanismTimeSlicing, nil)},
	"T10": {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.SLO.TPOTP99 = ptr(predict.Duration(50e6)) })},
	"T11": {w: asks(sharing.MechanismMPS, func(w *Workload) { w.GPUBusy = ptr(0.95) })},
	"T12": {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.Kind, w.GPUBusy = KindTraining, ptr(0.9) })},
	"T13": {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.Request.Replicas = 4 })},
	"T14": {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Request.Replicas = 4 })},
	"T15": {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Evidence = EvidenceSynthetic })},
	"T16": {pool: Pool{GPU: "A100-SXM4-80GB", Count: 4}, w: asks(sharing.MechanismMIG, func(w *Workload) {
		w.Memory, w.Model = nil, &Model{Parameters: 7e9, Weights: PrecisionFP16}
		w.Request.Profile = "1g.10gb"
	})},
	"T17": {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.Revenue = &Revenue{LossPercentPer100m: 1, LossUnit: "per-ms"} })},
	"T18": {pool: Pool{GPU: "T4", Count: 4, Mechanisms: []sharing.Mechanism{sharing.MechanismTimeSlicing}}, w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.Replicas.Max = 1; w.Kind = KindNotebook }),
		with: &Workload{Name: "other", Kind: KindCI, Memory: ptr(4 * sharing.GiB), GPUBusy: ptr(0.05)}},
	"T19": {pool: Pool{GPU: "L40S", Count: 4, CPUNodes: &CPUNodes{Shared: 2}}, w: asks(sharing.MechanismTimeSlicing, nil)},
	"T20": {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Evidence = EvidenceNVML })},
	"T21": {pool: Pool{GPU: "A100-SXM4-80GB", Count: 4, Layouts: []string{"3g.40gb@0"}}, w: asks(sharing.MechanismMIG, nil)},
	"M1":  {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.GPUBusy = ptr(0.5); w.Request.Replicas = 4 })},
	"M2":  {w: asks(sharing.MechanismTimeSlicing, func(w *Workload) { w.Request.SharedGPUs = 2 })},
	"M3":  {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Framework = &Framework{Name: "pytorch", Processes: 2} })},
	"M4":  {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Env = map[string]string{"CUDA_MPS_PIPE_DIRECTORY": "nvidia-mps"} })},
	"M5": {w: asks(sharing.MechanismMPS, func(w *Workload) {
		w.Framework = &Framework{Name: "vllm", MemoryFraction: ptr(0.9)}
		w.Request.Replicas = 2
	})},
	"M6": {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Env = map[string]string{"CUDA_VISIBLE_DEVICES": "0"} })},
	"M7": {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Env = map[string]string{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=2G,1=4G"} })},
	"M8": {pool: Pool{GPU: "L40S", Count: 4}, w: asks(sharing.MechanismMPS, func(w *Workload) { w.Kind, w.UID = KindHPC, ptr(1000) }),
		with: &Workload{Name: "other", Kind: KindHPC, Memory: ptr(4 * sharing.GiB), GPUBusy: ptr(0.1), UID: ptr(1001)}},
	"M9":  {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Request.Replicas = 2 })},
	"M10": {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Request.Replicas = 2 })},
	"M11": {w: asks(sharing.MechanismHAMi, func(w *Workload) { w.Framework = &Framework{Name: "vllm", CUDAGraphs: ptr(true)} })},
	"M12": {w: asks(sharing.MechanismMIG, func(w *Workload) { w.GPUs = 2 })},
	"M13": {pool: Pool{GPU: "A100-SXM4-80GB", Count: 4, Delivery: "device-plugin"}, w: asks(sharing.MechanismMIGWithMPS, nil)},
	"M14": {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Request.MPSNamespace = "team" })},
	"M15": {pool: Pool{GPU: "L40S", Count: 4, MPSProtocol: 3}, w: asks(sharing.MechanismMPS, nil)},
	"M16": {pool: Pool{GPU: "V100-32GB", Count: 4, Timeslice: "long"}, w: asks(sharing.MechanismTimeSlicing, nil)},
	"M17": {w: asks(sharing.MechanismMPS, func(w *Workload) { w.Evidence = EvidenceEqualConcurrency })},
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
		p.CPUNodes.PricePerHour = *price(t, "0.08 USD")
	}
	if f.Workloads[0].Revenue != nil {
		f.Workloads[0].Revenue.Monthly = *price(t, "1000.00 USD")
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

// TestEveryTrapIsDetected: each trap has a detector, an input that it finds
// and one that it leaves alone.
func TestEveryTrapIsDetected(t *testing.T) {
	clean := trapCase{pool: Pool{GPU: "A100-SXM4-80GB", Count: 8, Delivery: "dra"}, w: with(online, func(w *Workload) { w.Isolation = hard })}
	if ids := trapsOf(t, clean); len(ids) > 0 {
		t.Errorf("a clean input walks into %v", ids)
	}
	for _, trap := range sharing.Traps() {
		if detectors[trap.ID] == nil {
			t.Errorf("%s has no detector", trap.ID)
		}
		c, ok := trapCases[trap.ID]
		if !ok {
			t.Errorf("%s has no test", trap.ID)
			continue
		}
		if ids := trapsOf(t, c); !slices.Contains(ids, trap.ID) {
			t.Errorf("%s is not found, but %v", trap.ID, ids)
		}
	}
	for id := range detectors {
		if _, ok := sharing.TrapByID(id); !ok {
			t.Errorf("detector %s has no trap", id)
		}
	}
}
