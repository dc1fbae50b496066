package decision

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Alternative is another place for the replicas of a workload.
type Alternative struct {
	// If says what would have to turn out for it to be chosen.
	If        string            `json:"if,omitempty"`
	Pool      string            `json:"pool,omitempty"` // absent with mechanism none
	Mechanism sharing.Mechanism `json:"mechanism"`
	Profile   string            `json:"profile,omitempty"`
	GPUs      int               `json:"gpus"`
	// Odds that the objectives are kept, 0 to 1; of a gamble.
	Odds float64 `json:"odds,omitempty"`
	// Unplaced are replicas that the answer places and that find no room here.
	Unplaced int `json:"unplaced,omitempty"`
	// Monthly is the price of those GPUs, an exact decimal; absent where the pool has no price.
	Monthly  string `json:"monthly,omitempty"`
	Currency string `json:"currency,omitempty"`
}

// String is the alternative in words: what, on how many GPUs, for how much.
func (a *Alternative) String() string {
	if a.Mechanism == sharing.MechanismNone {
		return "nothing in these pools does"
	}
	text := fmt.Sprintf("%s on %s, %s", choice(a.Mechanism, a.Profile), a.Pool, plaintext.Count(a.GPUs, "GPU"))
	if a.Monthly != "" {
		text += fmt.Sprintf(", %s %s a month", cents(a.Monthly), a.Currency)
	}
	if a.Odds > 0 {
		text += fmt.Sprintf(", which keeps its objectives at odds of %.0f%%", 100*a.Odds)
	}
	if a.Unplaced > 0 {
		text += fmt.Sprintf(", with %s unplaced", plaintext.Count(a.Unplaced, "replica"))
	}
	return text
}

// provisional fills in what belongs to a provisional answer: the safe alternative, what would be chosen otherwise,
// and the measurement that settles it.
func (pl *answers) provisional(w int, d *Decision, share workloadShare) error {
	c := pl.Chosen[w]
	var err error
	if d.Status != StatusProvisional {
		d.Gamble, err = pl.gamble(w, share)
		return err
	}
	if pl.imaginary {
		return nil
	}
	if d.Safe, err = pl.safe(w); err != nil {
		return err
	}
	// Of what nobody knows the memory, nothing can be said of other places.
	if !pl.Workloads[w].Demand().Memory.Unknown {
		if d.Otherwise, err = pl.otherwise(w); err != nil {
			return err
		}
	}
	d.Settle = pl.measurement(w, d)
	against := cmp.Or(d.Safe, d.Otherwise)
	cp := pl.Pools[c.Pool]
	if !cp.Priced || against == nil || against.Monthly == "" || against.Unplaced > 0 {
		return nil
	}
	var s sums
	month := s.monthly(share.micros, cp.Price.Currency())
	stake := s.of(s.of(cost.ParseMoney(against.Monthly + " " + against.Currency)).Sub(month))
	if stake.Sign() < 0 {
		stake = s.of(cost.Money{}.Sub(stake))
	}
	d.Settle.MonthlyAtStake = stake.Decimal()
	return s.err
}

// safe is the alternative without assumptions about neighbours: whole GPUs of its own, the cheapest that keep its
// objectives surely, or else any; nil for a workload that has them.
func (pl *answers) safe(w int) (*Alternative, error) {
	if pl.Chosen[w].Mechanism == sharing.MechanismExclusive {
		return nil, nil
	}
	var best *plan.Choice
	for i := range pl.Choices[w] {
		c := &pl.Choices[w][i]
		gpus := pl.Placed[w] * pl.Workloads[w].Workload().GPUCount()
		if c.Mechanism != sharing.MechanismExclusive || gpus > pl.Pools[c.Pool].Pool.Count {
			continue
		}
		// They are in the order of their price.
		if best == nil || c.Answer == sharing.AnswerYes && best.Answer != sharing.AnswerYes {
			best = c
		}
	}
	if best == nil {
		return nil, nil
	}
	a, _, err := pl.restricted(*pl.Workloads[w].Workload(), pl.Placed[w], best, false)
	return a, err
}

// restricted decides for a workload by itself where only one pool and mechanism are left to it, of so many
// replicas: GPUs and money are those of deciding that fleet. A daring one takes whatever may keep its objectives.
func (pl *answers) restricted(wl Workload, replicas int, c *plan.Choice, daring bool) (*Alternative, *plan.Planner,
	error) {
	pool := *pl.Pools[c.Pool].Pool
	pool.Mechanisms = []sharing.Mechanism{c.Mechanism}
	cp, err := CompilePool(&pool)
	if err != nil {
		return nil, nil, err
	}
	wl.Replicas = Replicas{Max: max(replicas, 1)}
	mini := pl.Imagined(&wl, plan.MostSimulated, cp) // closed forms do, for what is only imagined
	mini.Daring = daring
	if err := mini.Plan(TrustUnstated); err != nil {
		return nil, nil, err
	}
	r, err := (&answers{Planner: mini, imaginary: true}).result()
	if err != nil {
		return nil, nil, err
	}
	d, t := &r.Decisions[0], &r.Totals
	a := &Alternative{Pool: d.Pool, Mechanism: d.Mechanism, Profile: d.Profile, Unplaced: d.Unplaced}
	if d.Placed > 0 {
		a.GPUs, a.Monthly, a.Currency = t.GPUsAfter, t.MonthlyAfter, t.Currency
	}
	return a, mini, nil
}

// gamble is the cheapest place that costs a fifth less than the answer and where the objectives of workload w may
// be missed, with the odds that they are kept; nil where there is none.
func (pl *answers) gamble(w int, share workloadShare) (*Alternative, error) {
	if pl.imaginary || pl.Named(w) || len(pl.Workloads) > relaxedUpTo {
		return nil, nil
	}
	c, wl := pl.Chosen[w], *pl.Workloads[w].Workload()
	tried := pl.Gambles[w]
	if c != nil && c.Mechanism != sharing.MechanismExclusive {
		tried = append(slices.Clone(tried), *c) // more replicas on a GPU
	}
	if len(tried) == 0 {
		return nil, nil
	}
	least := math.Inf(1)
	if c != nil {
		sure, _, err := pl.restricted(wl, wl.ReplicaCount(), c, false)
		if err != nil {
			return nil, err
		}
		least = muchCheaper * sure.each(wl.ReplicaCount())
	}
	var best *Alternative
	for i := range tried {
		if slices.ContainsFunc(tried[:i], func(c plan.Choice) bool { return c.GroupKey == tried[i].GroupKey }) {
			continue
		}
		whole := plan.GroupKey{Pool: tried[i].Pool, Mechanism: sharing.MechanismExclusive}
		if pl.Banned[w][whole].Verdict == gate.VerdictReject { // a part of a GPU is no quicker
			continue
		}
		a, mini, err := pl.restricted(wl, wl.ReplicaCount(), &tried[i], true)
		if err != nil {
			return nil, err
		}
		o := mini.Chosen[0]
		same := c != nil && tried[i].GroupKey == c.GroupKey && a.GPUs*share.fullest >= wl.ReplicaCount() // as answered
		if o == nil || same || a.each(wl.ReplicaCount()) > least {
			continue
		}
		if p := mini.Worst(0, o); len(p.Outcomes) > 0 && p.Answer != sharing.AnswerYes {
			a.Odds = round(p.Outcomes[0].Odds(&mini.OutlookOf(0, 0, o.Mechanism).Demand, pl.Opt.Confidence), 2)
			best, least = a, a.each(wl.ReplicaCount())
		}
	}
	return best, nil
}

// each returns the cost of a replica of a workload at an alternative, in money, or in GPUs where there is no price.
func (a *Alternative) each(replicas int) float64 {
	return worth(a.Monthly, a.Currency, a.GPUs) / float64(max(1, replicas-a.Unplaced))
}

// What is tried in the place of an assumption: a busy share and latencies alone that are worse than assumed, for a
// workload that shares, or better, for one that has GPUs of its own. Where its size tells the time per token, one
// of its bounds is tried.
const (
	worseBusy, betterBusy   = 0.8, 0.1
	worseAlone, betterAlone = 0.9, 0.1
)

// otherwise is the answer for the workload alone in these pools if an assumption turned out worse, or better where
// it has GPUs of its own; nil where that changes nothing.
func (pl *answers) otherwise(w int) (*Alternative, error) {
	c, wl := pl.Chosen[w], *pl.Workloads[w].Workload()
	busy, alone, tokens := worseBusy, worseAlone, pl.OutlookOf(w, c.Pool, c.Mechanism).Tokens.High
	if c.Mechanism == sharing.MechanismExclusive {
		busy, alone, tokens = betterBusy, betterAlone, pl.OutlookOf(w, c.Pool, c.Mechanism).Tokens.Low
	}
	var conditions []string
	if pl.guessesBusy(w, c) {
		wl.GPUBusy, wl.PeakBusy = Some(busy), Optional[float64]{}
		conditions = append(conditions, fmt.Sprintf("it keeps a GPU %.0f%% busy", 100*busy))
	}
	ofLimit := false
	for _, m := range pl.guessesAlone(w, c) {
		limit, _ := wl.SLO.At(m).Get()
		if m == profile.MetricTPOTP99 && tokens > 0 {
			*wl.Solo.At(m) = profile.Some(profile.Duration(1e9 * tokens))
			conditions = append(conditions, fmt.Sprintf("its TPOT P99 alone is %s ms", plan.About(1e3*tokens)))
			continue
		}
		*wl.Solo.At(m) = profile.Some(profile.Duration(alone * float64(limit)))
		ofLimit = true
	}
	if ofLimit {
		conditions = append(conditions, fmt.Sprintf("its P99 alone is %.0f%% of the limit", 100*alone))
	}
	if len(conditions) == 0 {
		// Only what keeps the objectives for sure is left.
		at := slices.IndexFunc(pl.Choices[w], func(o plan.Choice) bool { return o.Answer == sharing.AnswerYes })
		if at < 0 {
			return &Alternative{If: "it misses an objective"}, nil
		}
		a, _, err := pl.restricted(wl, pl.Placed[w], &pl.Choices[w][at], false)
		if a != nil {
			a.If = "it misses an objective here"
		}
		return a, err
	}
	condition := strings.Join(conditions, " and ")
	mini := pl.Imagined(&wl, plan.MostSimulated, pl.Pools...)
	if err := mini.Plan(TrustUnstated); err != nil {
		return nil, err
	}
	o := mini.Chosen[0]
	if o == nil {
		return &Alternative{If: condition}, nil
	}
	if o.Pool == c.Pool && o.Mechanism == c.Mechanism && o.Slice == c.Slice && mini.Placed[0] == pl.Placed[w] {
		return nil, nil
	}
	found, _, err := pl.restricted(wl, mini.Placed[0], o, false)
	if found != nil {
		found.If, found.Unplaced = condition, max(0, pl.Placed[w]-mini.Placed[0])
	}
	return found, err
}

// guessesBusy says whether how busy workload w keeps a GPU of its choice is assumed.
func (pl *answers) guessesBusy(w int, c *plan.Choice) bool {
	cw := pl.Workloads[w]
	return cw.Workload().GPUBusy.IsZero() && cw.Archetype.BusyPrior.IsZero() && !pl.Measured(w, c.Pool, c.Mechanism) &&
		pl.OutlookOf(w, c.Pool, c.Mechanism).Demand.Serving == nil
}

// guessesAlone lists the metrics with a limit whose value alone is assumed.
func (pl *answers) guessesAlone(w int, c *plan.Choice) []profile.Metric {
	var out []profile.Metric
	wl := pl.Workloads[w].Workload()
	if pl.OutlookOf(w, c.Pool, c.Mechanism).Demand.Serving != nil || pl.Measured(w, c.Pool, c.Mechanism) {
		return nil
	}
	for m := range wl.SLO.Limits() {
		if wl.Solo.At(m).IsZero() {
			out = append(out, m)
		}
	}
	return out
}

// measurement names the figures of one replica alone that settle a provisional answer, and where to state them.
func (pl *answers) measurement(w int, d *Decision) *Settle {
	cw, c := pl.Workloads[w], pl.Chosen[w]
	wl := cw.Workload()
	var what, keys []string
	for _, m := range pl.guessesAlone(w, c) {
		what = append(what, m.String())
	}
	if len(what) > 0 {
		keys = []string{"solo"}
	}
	if pl.guessesBusy(w, c) {
		what, keys = append(what, "SM activity"), append(keys, "gpu_busy")
	}
	if cw.Demand().Memory.Unknown {
		what, keys = append(what, "peak memory"), append(keys, "memory")
	}
	if len(what) == 0 { // computed, and too near to a limit to tell
		for m := range wl.SLO.Limits() {
			what = append(what, m.String())
		}
		keys = []string{"solo, and gpu_busy in the place of load" + orLengths(wl)}
	}
	file := cmp.Or(pl.Opt.Input, "the fleet file")
	s := settling(wl, what)
	s.Measurement = fmt.Sprintf("%s of a replica of %s alone on %s at its load; state it in %s as its %s",
		strings.Join(what, ", "), d.Workload, problem.A(pl.Pools[c.Pool].Ground().GPU().Name), file,
		strings.Join(keys, " and "))
	return &s
}
