// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// errDeadline is returned for a plan with a deadline shorter than any test needs.
var errDeadline = errors.New("canary: the deadline is shorter than any test can take")

// Canary tests one newcomer. It is not safe for concurrent use.
type Canary struct {
	plan    Plan
	tenants []tenantState
	noise   correlation
	at      time.Duration // of the last snapshot
	bins    int           // closed
	moved   time.Duration // of the promotion
	verdict Verdict
	reason  string
	done    bool
	gone    bool // the clock of the snapshots went back
}

// tenantState holds one tenant's streams between snapshots.
type tenantState struct {
	streams []stream
	open    []bin    // of the bin that is not over
	seen    bool     // in it
	unseen  int      // bins
	away    string   // the last reason for that
	before  []Sample // of each objective
	loads   []float64
	limits  []float64 // the last ones
}

// LoadPlan reads an Endpoint's plan from a YAML file. The error names every problem with its path in it.
func LoadPlan(path string) (Plan, error) {
	p, err := strictyaml.Load(path, func(data []byte) (p Plan, err error) {
		if err := strictyaml.Decode(data, &p, strictyaml.Options{MaxBytes: 1 << 20}); err != nil {
			return p, err
		}
		var l problem.List
		_, err = New(p)
		l.AddErr("", err)
		p.checkSources(&l)
		return p, l.Err()
	})
	if err != nil {
		err = fmt.Errorf("canary: %w", err)
	}
	return p, err
}

// New returns a canary without observations. The error names every problem of the plan, such as a deadline that is too
// short for any test.
func New(p Plan) (*Canary, error) {
	p, err := p.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("canary: plan: %w", err)
	}
	c := &Canary{plan: p, noise: newCorrelation(), at: math.MinInt64, verdict: KeepObserving}
	for _, t := range p.Tenants {
		s := tenantState{
			open: make([]bin, len(t.Objectives)), before: make([]Sample, len(t.Objectives)),
			limits: make([]float64, len(t.Objectives)),
		}
		for _, o := range t.Objectives {
			st := stream{share: 1 - o.Quantile}
			// So many blocks without any observation beyond the limit are evidence enough.
			m, stake := st.keptBet()
			least := time.Duration(math.Ceil(math.Log(1/p.WrongPromotion)/math.Log1p(stake*m))) * minBlock
			if !o.AfterPromotion && least > p.Deadline {
				return nil, fmt.Errorf("%w: %s %s needs %v at the least of quantile %v with %v wrong promotions, "+
					"the deadline is %v (make it longer, allow more, or set after_promotion)",
					errDeadline, t.Name, o.Metric, least, o.Quantile, p.WrongPromotion, p.Deadline)
			}
			s.streams = append(s.streams, st)
		}
		c.tenants = append(c.tenants, s)
	}
	return c, nil
}

// Observe adds the observations since the last snapshot, once a second or so, and returns the verdict. Observations
// that are missing, contradictory or made under a load unlike that of the limit are ignored, and so is a snapshot that
// is not later than the last one or not of the plan's tenants.
func (c *Canary) Observe(l Snapshot) Verdict {
	c.gone = l.At <= c.at
	if c.done || c.gone || len(l.Tenants) != len(c.tenants) {
		return c.verdict
	}
	if c.at = l.At; l.At < 0 {
		c.before(&l)
		return c.verdict
	}
	c.close(int(l.At / binLength))
	for i := range c.tenants {
		c.tenants[i].take(&c.plan.Tenants[i], &l.Tenants[i])
	}
	return c.verdict
}

// before keeps the tenants' figures from before the newcomer.
func (c *Canary) before(l *Snapshot) {
	for i := range c.tenants {
		t, seen := &c.tenants[i], &l.Tenants[i]
		if i == 0 || seen.wrong(&c.plan.Tenants[i]) != "" {
			continue
		}
		if load, ok := seen.Load.Get(); ok {
			t.loads = append(t.loads, load)
		}
		for k := range t.before {
			t.before[k].merge(&seen.Metrics[k])
		}
	}
}

// take adds a snapshot to the open bin.
func (t *tenantState) take(p *Tenant, s *Seen) {
	if why := s.wrong(p); why != "" {
		t.away = why
		return
	}
	bins := slices.Clone(t.open)
	for k := range p.Objectives {
		strict, lax, why := t.limit(k, &p.Objectives[k], s.Load)
		if why != "" {
			t.away = why
			return
		}
		t.limits[k] = strict
		b := p.Objectives[k].count(&s.Metrics[k], strict, lax)
		bins[k].add(&b)
	}
	t.open, t.seen = bins, true
}

// limit returns the limit of an objective: the end that promotion needs, and the one that taking back needs.
func (t *tenantState) limit(k int, o *Objective, load sharing.Optional[float64]) (strict, lax float64, why string) {
	at := load.Or(0)
	switch before := &t.before[k]; {
	case o.Limit > 0:
		return o.Limit, o.Limit, ""
	case before.size() < minRequests:
		return 0, 0, "nothing is known of its " + o.Metric + " before the newcomer came"
	case len(t.loads) > 0 && !(at >= median(t.loads)/loadSlack && at <= median(t.loads)*loadSlack):
		return 0, 0, fmt.Sprintf("its load was %.3g before and is %v: they cannot be compared", median(t.loads), load)
	case before.Histogram != nil:
		in, _ := before.Histogram.Quantile(o.Quantile)
		return in.Low * allowance, in.High * allowance, ""
	default:
		slices.Sort(before.Values)
		if o.AtLeast {
			slices.Reverse(before.Values)
		}
		v := stats.NearestRank(before.Values, o.Quantile)
		return o.scale(v, allowance), o.scale(v, allowance), ""
	}
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// close ends the bins before one; those without a snapshot were not seen.
func (c *Canary) close(now int) {
	for c.bins < now {
		share, n := 0.0, 0
		for i := range c.tenants {
			t := &c.tenants[i]
			for k := range t.streams {
				b := t.open[k]
				b.Away = !t.seen
				t.streams[k].Bins = append(t.streams[k].Bins, b)
			}
			// The first objective that promotion needs shows the noise.
			first := slices.IndexFunc(c.plan.Tenants[i].Objectives, func(o Objective) bool { return !o.AfterPromotion })
			if b := &t.open[first]; t.seen && b.N > 0 {
				share, n = share+float64(b.Most)/float64(b.N), n+1
			}
			if !t.seen {
				t.unseen++
			}
			clear(t.open)
			t.seen = false
		}
		if n > 0 {
			c.noise.add(share / float64(n))
		}
		if c.bins++; c.bins == now {
			c.evaluate()
		}
	}
}

// blockBins returns the length of the blocks in bins.
func (c *Canary) blockBins() int {
	length, least := correlationFactor*c.noise.time(correlationQuantile).Seconds(), minBlock.Seconds()
	for least < length && least < maxBlock.Seconds() {
		least *= lengthStep
	}
	return int(math.Ceil(least / binLength.Seconds()))
}

// bars are the logarithms of the capitals that decide.
func (c *Canary) bars() (kept, broken, slow float64) {
	streams := 0
	for i := range c.tenants {
		streams += len(c.tenants[i].streams)
	}
	// A detector's expectation grows by one with each block, all of which may be wrong.
	total := (c.plan.Deadline + c.plan.Watch).Seconds()
	alpha := c.plan.WrongTakeBack / float64(streams)
	return math.Log(1 / c.plan.WrongPromotion), math.Log(total / minBlock.Seconds() / (alpha * (1 - slowPart))),
		math.Log(total / binLength.Seconds() / (alpha * slowPart))
}

// slowPart is the part of the bound on wrong take-backs that is spent on noticing the very slow.
const slowPart = 0.8

// evaluate compares the evidence with the bar of each verdict.
func (c *Canary) evaluate() {
	length, at := c.blockBins(), time.Duration(c.bins)*binLength
	needKept, needBroken, needSlow := c.bars()
	promotes, watched := true, true
	for i := range c.tenants {
		t := &c.tenants[i]
		for k := range t.streams {
			s, o := &t.streams[k], &c.plan.Tenants[i].Objectives[k]
			b := s.in(length)
			if b.broken >= needBroken || s.verySlow() >= needSlow {
				lately := s.sum(len(s.Bins) - int(time.Minute/binLength))
				least, _ := lately.beyond()
				c.end(TakeBack, fmt.Sprintf("%s: %.0f%% of the last minute's %s lie beyond %.4g, where %.3g%% may",
					c.plan.Tenants[i].Name, 100*least, o.Metric, t.limits[k], 100*s.share))
				return
			}
			enough := b.kept >= needKept && c.blind(t, s, length) == ""
			if enough && s.sufficed == 0 {
				s.sufficed = at
			}
			promotes = promotes && (enough || o.AfterPromotion)
			watched = watched && s.sufficed > 0
		}
	}
	if c.verdict == KeepObserving && promotes {
		c.verdict, c.reason, c.moved = Promote, "every objective of every tenant is kept", at
	}
	switch {
	case c.verdict == Promote:
		c.done = watched || at >= c.moved+c.plan.Watch
	case at >= c.plan.Deadline:
		c.end(CannotTell, strings.Join(c.Result().Needs, "; "))
	}
}

func (c *Canary) end(v Verdict, reason string) { c.verdict, c.reason, c.done = v, reason, true }
