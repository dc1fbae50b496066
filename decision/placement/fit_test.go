// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

func TestFilter(t *testing.T) {
	gpu := func(m sharing.Mechanism) layout.Node { return on("n", device(withMem, m)) }
	mps, bare := gpu(sharing.MechanismMPS), on("n", device(kindA, sharing.MechanismMPS))
	cut := on("n", device(withMIG, sharing.MechanismMIG))
	reject := func(c filter.Code, operands ...int64) filter.Reason {
		r := filter.Reason{Verdict: filter.VerdictReject, Code: c}
		if len(operands) > 1 {
			r.Need, r.Have = operands[0], operands[1]
		}
		if len(operands) > 2 {
			r.Low, r.High = operands[2], operands[3]
		}
		return r
	}
	as := func(v filter.Verdict, r filter.Reason) filter.Reason { r.Verdict = v; return r }
	pass, fixable, unknown := filter.Pass(), filter.VerdictFixable, filter.VerdictUnknown
	share := Request{Name: "r", GPUs: 1, Milli: 300, Mechanisms: onMPS}
	slice := func(profile string) Request { return Request{Name: "r", GPUs: 1, Profile: profile} }
	of := func(w *layout.Workload) Request { r := share; r.Workload = w; return r }
	slow := func(name string, limit float64) *layout.Workload {
		return &layout.Workload{Name: name, Tenant: "t", Objective: layout.Objective{Slowdown: limit}}
	}
	edit := func(n layout.Node, f func(*layout.Device)) layout.Node {
		n.Devices = append([]layout.Device{}, n.Devices...)
		f(&n.Devices[0])
		return n
	}
	slots := func(k int16, n layout.Node) layout.Node { return edit(n, func(d *layout.Device) { d.Slots = k }) }
	virtual := gpu(sharing.MechanismNone)
	virtual.Delivery = sharing.DeliveryVGPUManager
	closed := mps
	closed.Closed = "cordoned"
	first, _ := withMIG.MIG.Profile("1g.10gb")
	static := edit(cut, func(d *layout.Device) { d.Dynamic, d.Instances = false, []layout.Instance{{Profile: first, Start: 2}} })
	small := &layout.GPU{Name: "T4", Memory: 16 * sharing.GiB, Reserved: sharing.GiB / 2, Context: sharing.GiB / 2}
	for name, c := range map[string]struct {
		node layout.Node
		r    Request
		p    Forecaster
		want filter.Reason
	}{
		"fits":                {mps, share, nil, pass},
		"cpu":                 {mps, Request{CPUMilli: 9_000}, nil, reject(codes.CPU, 9_000, 8_000)},
		"memory":              {mps, Request{Memory: 17 * sharing.GiB}, nil, reject(codes.Memory, 17<<30, 16<<30)},
		"closed":              {closed, share, nil, reject(codes.NodeClosed)},
		"model":               {mps, Request{GPUs: 1, Milli: 1, Models: []string{"H100"}, Mechanisms: onMPS}, nil, reject(codes.Model)},
		"count":               {mps, Request{GPUs: 2, Milli: 1, Mechanisms: onMPS}, nil, reject(codes.GPUCount, 2, 1)},
		"in mig mode":         {cut, share, nil, as(fixable, reject(codes.MIGMode))},
		"not in mig mode":     {mps, slice("1g.10gb"), nil, as(fixable, reject(codes.NotMIG))},
		"no such profile":     {cut, slice("1g.18gb"), nil, reject(codes.Profile)},
		"slices":              {with(cut, slice("7g.80gb"), 0), slice("1g.10gb"), nil, reject(codes.Slices)},
		"the one instance":    {static, slice("1g.10gb"), nil, pass},
		"no such instance":    {static, slice("2g.20gb"), nil, reject(codes.Slices)},
		"slice memory":        {cut, Request{GPUs: 1, Profile: "1g.10gb", GPUMemory: 16 * sharing.GiB}, nil, reject(codes.GPUMemory, 16<<30, int64(first.Memory.Value))},
		"no mechanism":        {gpu(sharing.MechanismNone), Request{GPUs: 1, Milli: 300}, nil, as(fixable, reject(codes.NoMechanism))},
		"not put on shared":   {mps, Request{GPUs: 1, Milli: 300}, nil, as(fixable, reject(codes.NoMechanism))},
		"whole, not shared":   {mps, Request{GPUs: 1, Milli: 1000}, nil, as(fixable, reject(codes.NoMechanism))},
		"whole, idle":         {gpu(sharing.MechanismNone), Request{GPUs: 1, Milli: 1000}, nil, pass},
		"first of its own":    {gpu(sharing.MechanismNone), share, nil, pass},
		"not delivered":       {virtual, share, nil, filter.Reason{Verdict: fixable, Code: codes.NotDelivered, Mechanism: sharing.MechanismMPS}},
		"other mechanism":     {gpu(sharing.MechanismTimeSlicing), share, nil, reject(codes.Mechanism)},
		"never mixed":         {with(gpu(sharing.MechanismNone), share, 0), Request{GPUs: 1, Milli: 300, Mechanisms: onTurns}, nil, reject(codes.Mechanism)},
		"exclusive":           {gpu(sharing.MechanismExclusive), share, nil, reject(codes.Mechanism)},
		"whole on exclusive":  {gpu(sharing.MechanismExclusive), Request{GPUs: 1, Milli: 1000}, nil, pass},
		"whole, not accepted": {mps, Request{GPUs: 1, Milli: 1000, Mechanisms: []sharing.Mechanism{sharing.MechanismHAMi}}, nil, reject(codes.Mechanism)},
		"whole, shared":       {with(mps, share, 0), Request{GPUs: 1, Milli: 1000, Mechanisms: onMPS}, nil, reject(codes.GPUShare, 1000, 700)},
		"tenants":             {with(slots(1, mps), share, 0), share, nil, reject(codes.Tenants)},
		"unhealthy":           {edit(mps, func(d *layout.Device) { d.Health = "unhealthy" }), share, nil, reject(codes.DeviceFault)},
		"over-full":           {with(with(slots(1, mps), share, 0), share, 0), share, nil, reject(codes.DeviceFault)},
		"not known":           {edit(mps, func(d *layout.Device) { d.GPU = nil }), share, nil, reject(codes.DeviceFault)},
		"trust":               {with(mps, of(tenant("a")), 0), of(tenant("b", "a")), nil, reject(codes.Trust)},
		"trust both ways":     {with(mps, of(tenant("a", "b")), 0), of(tenant("b", "a")), nil, pass},
		"strangers":           {with(mps, of(&layout.Workload{Name: "a"}), 0), of(&layout.Workload{Name: "b"}), nil, reject(codes.Trust)},
		"one workload":        {with(mps, of(&layout.Workload{Name: "a"}), 0), of(&layout.Workload{Name: "a"}), nil, pass},
		"mig needs no trust":  {with(cut, Request{GPUs: 1, Profile: "1g.10gb", Workload: tenant("a")}, 0), Request{GPUs: 1, Profile: "1g.10gb", Workload: tenant("b")}, nil, pass},
		"gpu memory":          {mps, Request{GPUs: 1, Milli: 1, GPUMemory: 81 * sharing.GiB, Mechanisms: onMPS}, nil, reject(codes.GPUMemory, 81<<30, 80<<30)},
		"memory apart":        {with(mps, Request{GPUs: 1, GPUMemory: 40 * sharing.GiB}, 0), Request{GPUs: 1, Milli: 1000, GPUMemory: 40 * sharing.GiB, Mechanisms: onMPS}, nil, pass},
		"context":             {on("n", device(small, sharing.MechanismMPS)), Request{GPUs: 1, GPUMemory: 31 * sharing.GiB / 2, Mechanisms: onMPS}, nil, reject(codes.GPUMemory, 16<<30, 31<<29)},
		"limit": {slots(4, edit(mps, func(d *layout.Device) { d.Limit = 20 * sharing.GiB })), Request{GPUs: 1, GPUMemory: 21 * sharing.GiB, Mechanisms: onMPS}, nil,
			reject(codes.SlotLimit, 21<<30, 20<<30)},
		"memory unknown":     {bare, Request{GPUs: 1, GPUMemory: sharing.GiB, Mechanisms: onMPS}, nil, as(unknown, reject(codes.GPUMemoryUnknown, 1<<30, 0))},
		"no predictor":       {with(mps, of(tenant("t")), 0), of(slow("", 2)), nil, as(unknown, reject(codes.SlowdownUnknown))},
		"alone":              {mps, of(slow("", 2)), nil, pass},
		"slowdown":           {with(mps, of(slow("bert", 0)), 0), of(slow("", 1.2)), pairs{"bert": 1.5}, reject(codes.Slowdown, 1200, 1500, 1350, 1650)},
		"neighbour's":        {with(mps, of(slow("bert", 1.2)), 0), of(slow("hog", 0)), pairs{"bert": 1.1, "hog": 3}, reject(codes.Slowdown, 1200, 3000, 2700, 3300)},
		"not profiled":       {with(mps, of(slow("new", 0)), 0), of(slow("", 9)), pairs{}, as(unknown, reject(codes.SlowdownUnknown))},
		"within":             {with(mps, of(slow("bert", 0)), 0), of(slow("me", 1.7)), pairs{"bert": 1.5, "me": 1}, pass},
		"open":               {with(mps, of(slow("bert", 0)), 0), of(slow("me", 1.5)), pairs{"bert": 1.5, "me": 1}, as(unknown, reject(codes.Slowdown, 1500, 1500, 1350, 1650))},
		"limit, no latency":  {with(mps, of(slow("bert", 0)), 0), of(&layout.Workload{Name: "me", Tenant: "t", Objective: layout.Objective{TPOTP99: 10 * time.Millisecond}}), pairs{"bert": 1.5, "me": 1}, as(unknown, reject(codes.SlowdownUnknown))},
		"linked":             {on("n", device(kindA, 1), device(kindA, 1)), Request{GPUs: 2, Milli: 1000, Linked: true}, nil, reject(codes.Link, 2, 0)},
		"two kinds, second":  {on("n", device(kindA, 1), device(kindB, 1)), Request{GPUs: 1, Milli: 1000, Models: []string{"B"}}, nil, pass},
		"two kinds, neither": {on("n", device(kindA, 1), device(kindB, 1)), Request{GPUs: 1, Milli: 1000, Models: []string{"C"}}, nil, reject(codes.Model)},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := layout.Observe([]layout.Node{c.node})
			n, scorer := l.At(0), NewScorer(BestFit, c.p)
			c.r.Name = "new"
			got := scorer.Filter(n, &c.r)
			if got != c.want {
				t.Errorf("%+v (%v), want %+v", got, got, c.want)
			}
			if got.String() == "" || strings.Contains(got.String(), "%!") {
				t.Errorf("text %q", got)
			}
			o, f := scorer.Score(n, &c.r)
			if f != got {
				t.Errorf("the score says %v, the filter %v", f, got)
			}
			if f.Verdict == filter.VerdictPass {
				if _, _, err := scorer.Assign(l, &c.r, o); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestBadInput(t *testing.T) {
	bad := Request{CPUMilli: -1, Memory: -1, GPUs: 2, Profile: "1g10", Milli: 5, Mechanisms: []sharing.Mechanism{sharing.MechanismResearch},
		Workload: &layout.Workload{Objective: layout.Objective{Slowdown: 0.5, E2EP99: -1}}}
	err := bad.Validate()
	for _, want := range []string{"CPUMilli", "Memory", "GPUs", "Milli", "Profile", "Mechanisms[0]", "Workload.Objective.Slowdown", "Workload.Objective: -1ns"} {
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if _, err := NewCotenant(nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("empty mix: %v", err)
	}
	if _, err := NewCotenant([]Typical{{Request: bad, Weight: math.NaN()}, {Request: Request{GPUs: 1}, Weight: -1}}); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "Typical[0].Weight") || !strings.Contains(err.Error(), "Typical[1].Request.Milli") {
		t.Errorf("%v", err)
	}
	c := cluster(t, on("a", device(kindA, sharing.MechanismMPS)))
	p := NewPlacer(NewScorer(BestFit, nil))
	if _, _, err := p.Place(c, &bad); !errors.Is(err, ErrInvalid) {
		t.Errorf("%v", err)
	}
	twice := []*Request{nil, &bad, {Name: "x"}, {Name: "x"}}
	if _, _, err := p.Group(c, twice); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "Requests[0]") ||
		!strings.Contains(err.Error(), "Requests[1].GPUs") || !strings.Contains(err.Error(), `"x" is the name of Requests[2]`) {
		t.Errorf("%v", err)
	}
	if _, _, err := p.scorer.Assign(c, &Request{GPUs: 1, Milli: 1}, Offer{Node: "a"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// open predicts a slowdown of 1.5 to 2.5, and counts simulations.
type open struct{ simulations int }

func (o *open) Predict(out []*predict.Prediction, _ string, _ sharing.Mechanism, group []string, method predict.Method) []*predict.Prediction {
	if method == predict.MethodSimulated {
		o.simulations++
		return append(out, make([]*predict.Prediction, len(group))...)
	}
	for range group {
		out = append(out, &predict.Prediction{Slowdown: profile.Interval{Value: 2, Low: 1.5, High: 2.5}})
	}
	return out
}

// TestSimulateLast: a limit that the closed form leaves open costs no simulation where another's refuses the request,
// and a simulation that knows nothing leaves it open for the reason that it had.
func TestSimulateLast(t *testing.T) {
	limited := func(name string, x float64) *Request {
		return &Request{Name: name, GPUs: 1, Milli: 300, Mechanisms: onMPS, Workload: &layout.Workload{Tenant: "t", Objective: layout.Objective{Slowdown: x}}}
	}
	for limit, want := range map[float64]filter.Verdict{1.2: filter.VerdictReject, 3: filter.VerdictUnknown} {
		c := cluster(t, with(on("n", device(kindA, sharing.MechanismMPS)), *limited("a", 2), 0))
		var o open
		f := NewScorer(BestFit, &o).Filter(c.At(0), limited("b", limit))
		if f.Verdict != want || f.Code != codes.Slowdown || (o.simulations > 0) != (want == filter.VerdictUnknown) {
			t.Errorf("limit %v: %v, %d simulations", limit, f, o.simulations)
		}
	}
}
