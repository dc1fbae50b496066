package serving

import (
	"context"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// foreseeSample is the number of requests in the runs with moved costs.
const foreseeSample = 5000

// Foresee plays the requests as Play does and says how far the answer can be relied on: each cost that is not exact is
// moved to the bounds that hold it with a probability of 90%, in all services at once since they err alike, and what
// that does to a metric is added in squares. The errors that are expected of the simulation itself were found with
// costs from profiles: what these leave open is part of them, and counts only where it is more; good requests are
// counted again with their limits moved by it. The intervals are to hold the real figures with a probability of 90%.
//
// The moved runs are of a sample of some 5000 requests from the beginning, and apply as ratios; requests, and those of
// Clients, are ranged over again for each, some thirty times.
func (c *Cluster) Foresee(ctx context.Context, requests iter.Seq[Request]) (*Report, error) {
	p, err := c.play()
	if err != nil {
		return nil, err
	}
	for i, v := range p.services {
		v.near = v.s.Objective.nearby(p.residuals(i))
	}
	err = p.run(ctx, requests)
	report := p.report()
	if err != nil {
		return report, err
	}
	all := int64(0)
	for i := range report.Services {
		all += report.Services[i].Requests
	}
	sample := *c
	if all > foreseeSample {
		part := float64(foreseeSample) / float64(all)
		sample.Until = c.Warmup + time.Duration(part*float64(report.Simulated))
	}
	base, err := sample.Play(ctx, requests)
	if err != nil {
		return report, err
	}
	doubts := make([]doubt, len(report.Services))
	for _, name := range c.uncertain() {
		profiled := c.profiled(name)
		for _, z := range [2]float64{-profile.Z90, profile.Z90} {
			moved := sample.shifted(name, z)
			r, err := moved.Play(ctx, requests)
			if err != nil {
				return report, err
			}
			for i := range doubts {
				doubts[i].add(&base.Services[i], &r.Services[i], profiled)
			}
		}
	}
	for i := range doubts {
		doubts[i].close(&report.Services[i], p.residuals(i), c.Services[i].Clients == nil, p.services[i].near)
	}
	return report, nil
}

// aloneHalfWidths are half-widths of the 90% intervals of a server that has its GPU to itself, by metric, beyond what
// its costs leave open: as the lone rows of decision/predict/testdata are met by an engine that another load of the
// same server was measured for (40 rows of H200s and H100s; tokens/s of the 28 in a closed loop). Those of TTFT are
// priors: the rows' own, 0.39 and 0.70, are of few requests, the first of a length among them.
var aloneHalfWidths = [profile.MetricCount]float64{0.065, 0.16, 0.28, 0.50, 0.08, 0.13, 0.17, 0.11}

// leastHalfWidths are those of the time to first token on a shared GPU, which a Cluster
// tells less well than Predict: of 106 rows of H200s, 90% are met within these.
var leastHalfWidths = map[sharing.Mechanism]map[profile.Metric]float64{
	sharing.MechanismTimeSlicing: {profile.MetricTTFTP50: 0.45, profile.MetricTTFTP99: 0.55},
	sharing.MechanismMPS:         {profile.MetricTTFTP50: 0.34, profile.MetricTTFTP99: 0.46},
}

// residuals are the errors to expect of a service's predictions: the larger ones of the mechanisms under which its
// replicas share GPUs, those of a server alone where they do not.
func (p *play) residuals(service int) costs.Residuals {
	out := costs.Residuals{}
	for _, r := range p.services[service].replicas {
		for m := range profile.Metric(profile.MetricCount) {
			e, own := p.services[service].s.Engine.Errors[m]
			if !own {
				e.HalfWidth = aloneHalfWidths[m]
			}
			if len(r.GPU.Replicas) > 1 || r.GPU.Mechanism == sharing.MechanismMPS {
				e = p.calibration.Residuals(r.GPU.Mechanism)[m]
				e.HalfWidth = max(e.HalfWidth, leastHalfWidths[r.GPU.Mechanism][m])
			}
			if e.HalfWidth > out[m].HalfWidth {
				out[m] = e
			}
		}
	}
	return out
}

// uncertain lists the costs that are not exact in some service, by name.
func (c *Cluster) uncertain() []string {
	var names []string
	for i := range c.Services {
		for name, cost := range c.Services[i].Engine.Costs() {
			if cost.Sigma > 0 && cost.Value > 0 && !slices.Contains(names, name) && c.matters(i, name) {
				names = append(names, name)
			}
		}
		if e := &c.Services[i].Engine; e.OverheadSigma > 0 && e.Overhead > 0 && !slices.Contains(names, overhead) {
			names = append(names, overhead)
		}
	}
	return names
}

// profiled says whether a cost was read from profiles in all services: what it leaves open is part of the errors that
// are expected of servers in general, and not of those of the windows that a server's own fit left out.
func (c *Cluster) profiled(name string) bool {
	for i := range c.Services {
		if len(c.Services[i].Engine.Errors) > 0 {
			return false
		}
		for n, cost := range c.Services[i].Engine.Costs() {
			if n == name && cost.Sigma > 0 && cost.Basis != sharing.BasisFitted && cost.Basis != sharing.BasisMeasured {
				return false
			}
		}
	}
	return name != overhead
}

func (c *Cluster) matters(service int, name string) bool {
	e := &c.Services[service].Engine
	switch name {
	case "decode_sm", "prefill_sm", "mps_step", "prefill_busy", "host_fraction":
		return c.shared()
	case "adapter_step", "adapter_each", "adapter_prefill", "adapter_load", "adapter_fetch":
		return e.Adapters.Slots > 0
	case "copy_in", "copy_out":
		return e.Sleep.Level == costs.SleepWeights
	case "reload":
		return e.Sleep.Level == costs.SleepDiscard
	case "sleep_fixed":
		return e.Sleep.Level != costs.SleepNever
	}
	return true
}

func (c *Cluster) shared() bool {
	on := make([]int, len(c.GPUs))
	for i := range c.Services {
		for _, r := range c.Services[i].Replicas {
			if on[r.GPU]++; on[r.GPU] > 1 || c.GPUs[r.GPU].Mechanism == profile.Mechanisms[1] {
				return true
			}
		}
	}
	return false
}

// shifted is the cluster with a cost moved by z standard deviations.
func (c Cluster) shifted(name string, z float64) Cluster {
	c.Services = slices.Clone(c.Services)
	for i := range c.Services {
		if name == overhead {
			c.moveOverhead(&c.Services[i], z)
			continue
		}
		for n, cost := range c.Services[i].Engine.Costs() {
			if n == name {
				was := cost.Value
				cost.Value *= math.Exp(z * cost.Sigma)
				e := &c.Services[i].Engine
				switch name {
				case "step_sequence":
					e.Step.Value = max(0, e.Step.Value-(cost.Value-was)*e.Batch)
				case "prefill_token":
					e.Prefill.Value = max(0, e.Prefill.Value-(cost.Value-was)*e.Prompt/1e3)
				case "host_fraction", "prefill_busy", "decode_sm", "prefill_sm":
					cost.Value = min(cost.Value, 1)
				}
			}
		}
	}
	return c
}

// overhead is the name of memory that is moved like a cost.
const overhead = "overhead"

// moveOverhead moves a service's overhead by z standard deviations, but leaves a quarter of the KV cache at least.
func (c *Cluster) moveOverhead(s *Service, z float64) {
	e := &s.Engine
	cache := math.Inf(1)
	for _, r := range s.Replicas {
		cache = min(cache, float64(c.memory(r)-e.Model.Weights()-e.Adapters.Memory(e.Model)-e.Overhead))
	}
	was := float64(e.Overhead)
	e.Overhead = sharing.Bytes(min(was*math.Exp(z*e.OverheadSigma), was+0.75*cache))
}

// The figures of a service whose changes are added up: the metrics, and these.
const (
	figureGoodPerS = profile.MetricCount + iota
	figureGood     // share of the requests
	figureHit      // share of the cached tokens
	figureCount
)

func changes(base, moved *ServiceReport) (out [figureCount]float64) {
	a, b := base.Figures(), moved.Figures()
	for m := range a {
		out[m] = logOf(b[m], a[m])
	}
	out[figureGoodPerS] = logOf(moved.GoodPerS, base.GoodPerS)
	out[figureGood] = moved.GoodFraction() - base.GoodFraction()
	out[figureHit] = moved.HitFraction() - base.HitFraction()
	return out
}

// doubt adds up what moved costs do to a service.
type doubt struct{ profiled, others [figureCount]sides } // profiled: what costs from profiles do

func (d *doubt) add(base, moved *ServiceReport, profiled bool) {
	to := &d.others
	if profiled {
		to = &d.profiled
	}
	for i, v := range changes(base, moved) {
		to[i].add(v)
	}
}

// of returns the distances by which a figure may lie below and above: errors that are expected of the
// simulation itself hold what costs from profiles leave open.
func (d *doubt) of(figure int, model sides) (low, high float64) {
	return math.Sqrt(d.others[figure].low + max(d.profiled[figure].low, model.low)), math.Sqrt(d.others[figure].high +
		max(d.profiled[figure].high, model.high))
}

// sides are sums of squares of changes, by the side on which they lie.
type sides struct{ low, high float64 }

func (s *sides) add(d float64) {
	if d > 0 {
		s.high += d * d
	} else {
		s.low += d * d
	}
}

func logOf(moved, base float64) float64 {
	if moved <= 0 || base <= 0 {
		if moved == base {
			return 0
		}
		return math.Copysign(3, moved-base)
	}
	return math.Log(moved / base)
}

// nearby counts the requests that would be good if all latencies of a kind were
// shorter or longer by what is expected of the simulation's error.
type nearby struct {
	objective Objective
	tail      bool // by the error of the largest latencies
	good      int64
}

// tailGood is the share of good requests from which on the limits lie among the largest
// latencies, whose errors are those of a P99.
const tailGood = 0.9

// nearby are the objectives that stand for such latencies.
func (o Objective) nearby(own costs.Residuals) []nearby {
	var out []nearby
	for _, l := range []struct {
		middle, tail profile.Metric
		at           func(*Objective) *time.Duration
	}{
		{profile.MetricTTFTP50, profile.MetricTTFTP99, func(o *Objective) *time.Duration { return &o.TTFT }},
		{profile.MetricTPOTP50, profile.MetricTPOTP99, func(o *Objective) *time.Duration { return &o.TPOT }},
		{profile.MetricE2EP50, profile.MetricE2EP99, func(o *Objective) *time.Duration { return &o.E2E }},
	} {
		limit := *l.at(&o)
		if limit == 0 {
			continue
		}
		for _, of := range [2]profile.Metric{l.middle, l.tail} {
			for _, z := range [2]float64{-1, 1} {
				moved := o
				*l.at(&moved) = max(1, time.Duration(float64(limit)*math.Exp(z*own[of].HalfWidth)))
				out = append(out, nearby{objective: moved, tail: of == l.tail})
			}
		}
	}
	return out
}

func (d *doubt) close(r *ServiceReport, own costs.Residuals, open bool, near []nearby) {
	r.Foreseen = map[profile.Metric]profile.Interval{}
	for m, v := range profile.Known(r.Metric) {
		model := own[m].HalfWidth
		if m == profile.MetricTokensPerSecond && open {
			model = 0 // what is offered is known; a lack of capacity shows in the moved runs
		}
		low, high := d.of(int(m), sides{model * model, model * model})
		r.Foreseen[m] = profile.Interval{Value: v, Low: v * math.Exp(-low), High: v * math.Exp(high)}
	}
	var part, perS sides
	for i := range near {
		if n := r.Completed + r.Rejected; n > 0 && near[i].tail == (r.GoodFraction() >= tailGood) {
			part.add(float64(near[i].good-r.Good) / float64(n))
			perS.add(logOf(float64(near[i].good), float64(r.Good)))
		}
	}
	share := func(v float64, figure int, model sides) profile.Optional[profile.Interval] {
		low, high := d.of(figure, model)
		return profile.Some(profile.Interval{Value: v, Low: max(0, v-low), High: min(1, v+high)})
	}
	r.GoodFractionRange, r.HitFractionRange = share(r.GoodFraction(), figureGood, part), share(r.HitFraction(),
		figureHit, sides{})
	low, high := d.of(figureGoodPerS, perS)
	r.GoodPerSRange = profile.Some(profile.Interval{Value: r.GoodPerS, Low: r.GoodPerS * math.Exp(-low),
		High: r.GoodPerS * math.Exp(high)})
}
