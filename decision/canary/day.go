package canary

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cotenant/cotenant/telemetry"
)

// The simulated tenants' requests a second, and the standard deviations of the logarithms of a request's latency and
// of the noise that all requests share. They are made up.
const (
	simulatedRate   = 2.0
	simulatedSpread = 0.3
	simulatedShared = 0.15
)

// Simulated is the Source of made-up tenants of a plan, in virtual time. Its looks are a second apart.
type Simulated struct {
	plan   Plan
	harm   []float64 // of each tenant: its true quantile divided by what it is allowed
	slow   time.Duration
	by     float64
	memory time.Duration // of the noise
	noise  float64
	at     time.Duration
	r      *rand.Rand
}

// NewSimulated returns tenants that stand at harm, each its true quantile divided by what it is allowed, under
// noise that lasts for memory. From slow on, if that is not 0, everybody is slower by a factor.
func NewSimulated(p Plan, harm []float64, memory, slow time.Duration, by float64, seed uint64) *Simulated {
	r := rand.New(rand.NewPCG(seed, 0xca))
	return &Simulated{plan: p, harm: harm, slow: slow, by: by, memory: memory, noise: r.NormFloat64(), r: r}
}

// Next plays a second.
func (s *Simulated) Next(ctx context.Context) (Look, error) {
	s.at += time.Second
	keep := math.Exp(-1 / s.memory.Seconds())
	s.noise = keep*s.noise + math.Sqrt(1-keep*keep)*s.r.NormFloat64()
	l := Look{At: s.at}
	for i := range s.plan.Tenants {
		t := &s.plan.Tenants[i]
		seen := Seen{Load: telemetry.Some(simulatedRate), Busy: telemetry.Some(0.6)}
		for k := range t.Objectives {
			o := &t.Objectives[k]
			limit := o.Limit
			if len(o.Predicted) > 0 {
				limit, seen.Load = o.scale(o.Predicted[0].Value, allowance), telemetry.Some(o.Predicted[0].Load)
			}
			harm := s.harm[i]
			if s.slow > 0 && s.at >= s.slow {
				harm *= s.by
			}
			// The quantile of the logarithm's normal distribution lies at the limit times harm.
			up := math.Sqrt2 * math.Erfinv(2*cmp.Or(o.Quantile, 0.5)-1) * math.Hypot(simulatedSpread, simulatedShared)
			var sample Sample
			for at := s.r.ExpFloat64(); at < simulatedRate; at += s.r.ExpFloat64() {
				noise := simulatedSpread*s.r.NormFloat64() + simulatedShared*s.noise - up
				sample.Values = append(sample.Values, o.scale(cmp.Or(limit, 1), harm*math.Exp(noise)))
			}
			seen.Metrics = append(seen.Metrics, sample)
		}
		l.Tenants = append(l.Tenants, seen)
	}
	return l, ctx.Err()
}

// DayReport holds a simulated day of canaries.
type DayReport struct {
	Simulated bool          `json:"simulated"` // always
	Seed      uint64        `json:"seed"`
	Canaries  []SimulatedAs `json:"canaries"`
}

// SimulatedAs is one simulated canary: what was true, and what was said.
type SimulatedAs struct {
	Truth  string        `json:"truth"`
	Harm   float64       `json:"harm"` // of the worst tenant
	Noise  time.Duration `json:"noise_ns"`
	Result Result        `json:"result"`
}

// PlayDay plays a day of canaries of a plan with made-up tenants, harmless and harmful ones in turn. Nothing of it is
// measured.
func PlayDay(ctx context.Context, p Plan, seed uint64) (*DayReport, error) {
	rep := &DayReport{Simulated: true, Seed: seed}
	r := rand.New(rand.NewPCG(seed, 0xcb))
	full, err := p.withDefaults()
	for k := 0; k < full.PerDay && err == nil; k++ {
		harm := make([]float64, len(full.Tenants))
		for i := range harm {
			harm[i] = 0.4 + 0.37*r.Float64()
		}
		who, slow := r.IntN(len(harm)), time.Duration(0)
		s := SimulatedAs{Truth: "harmless", Noise: []time.Duration{10 * time.Second, time.Minute}[k/4%2]}
		switch name := full.Tenants[who].Name; k % 4 {
		case 1:
			s.Truth, harm[who] = name+" stands at its limit", 1
		case 2:
			s.Truth, harm[who] = name+" is twice as slow as it may be", 2
		case 3:
			s.Truth, slow = "all become six times as slow after a minute", full.Before+time.Minute
		}
		for _, h := range harm {
			s.Harm = max(s.Harm, h)
		}
		var c *Canary
		if c, err = New(p); err != nil {
			return nil, err
		}
		src := NewSimulated(p, harm, s.Noise, slow, 6, r.Uint64())
		for c.verdict == KeepLooking && err == nil {
			var l Look
			l, err = src.Next(ctx)
			l.At -= full.Before
			c.Look(l)
		}
		s.Result = c.Result()
		rep.Canaries = append(rep.Canaries, s)
	}
	return rep, err
}

// String describes the day as a table.
func (rep *DayReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Simulated: %d canaries (seed %d). Nothing here is measured.\n\n%-12s %8s  %-6s %s\n",
		len(rep.Canaries), rep.Seed, "verdict", "after", "noise", "truth")
	for _, s := range rep.Canaries {
		fmt.Fprintf(&b, "%-12s %8v  %-6v %s\n", s.Result.Verdict, s.Result.At, s.Noise, s.Truth)
	}
	if len(rep.Canaries) > 0 {
		r := &rep.Canaries[0].Result
		fmt.Fprintf(&b, "\nWrong promotions: at most %v of canaries. Wrong take-backs: in at most %v of days of %d.\n",
			r.WrongPromotion, r.WrongTakeBackDay, r.PerDay)
	}
	return b.String()
}
