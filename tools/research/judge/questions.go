// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// questionLimits are the limits of a latency, in multiples of what it is alone.
var questionLimits = []float64{1.1, 1.3, 1.6, 2, 3, 4}

// fewestForTail requests, or more, make a run whose P99 is held against a limit.
const fewestForTail = 1000

// Tally counts yes-or-no answers. The mixes kept in truth are KeptTrue + Lost + Unknown of those.
type Tally struct {
	KeptTrue  int `json:"kept_true"`  // said to be kept, and is
	KeptFalse int `json:"kept_false"` // said to be kept, and is not
	Lost      int `json:"lost"`       // said to be missed, and is kept
	Unknown   int `json:"unknown"`    // left open, and is kept
}

func (t *Tally) add(said sharing.Answer, kept bool) {
	switch {
	case said == sharing.AnswerYes && kept:
		t.KeptTrue++
	case said == sharing.AnswerYes:
		t.KeptFalse++
	case kept && said == sharing.AnswerNo:
		t.Lost++
	case kept:
		t.Unknown++
	}
}

// FoundFraction is the part of what is kept in truth that was said to be.
func (t Tally) FoundFraction() float64 {
	return float64(t.KeptTrue) / float64(max(1, t.KeptTrue+t.Lost+t.Unknown))
}

// Doors are the answers of decision.Decide and of predict.Predictor.Predict to the same questions.
type Doors struct {
	Questions int   `json:"questions"`
	Decide    Tally `json:"decide"`
	Predict   Tally `json:"predict"`
}

// Answers counts what Ask found. A question is about one tenant of a measured mix, one metric and one limit; that about
// a mix is whether all its tenants keep the same limit of the same metric.
type Answers struct {
	Doors
	ByMechanism map[sharing.Mechanism]*Doors `json:"by_mechanism"`
	ByLimit     []LimitAnswers               `json:"by_limit"`
	Mixes       map[sharing.Mechanism]*Doors `json:"mixes"`
	Disagreeing int                          `json:"disagreeing"` // left out: repeated runs differ
	Wrong       []string                     `json:"wrong,omitempty"`
}

// LimitAnswers are the answers at one limit, in multiples of the latency alone.
type LimitAnswers struct {
	Limit float64 `json:"limit"`
	Doors
}

// ask is a mix with one metric and one limit for all its tenants.
type ask struct {
	mix    *predict.Mix
	metric profile.Metric
	times  float64
	limits []profile.Duration
	kept   []bool // by tenant
	id     []string
}

// Ask turns measured mixes into yes-or-no questions and answers each by Predict and by Decide, which gets a fleet
// of one GPU on which nothing but the mix's mechanism is allowed. The truth is what was measured. Questions on
// which repeated runs disagree are left out. When ctx ends it returns its error.
func Ask(ctx context.Context, mixes []predict.Mix) (*Answers, error) {
	out := &Answers{ByMechanism: map[sharing.Mechanism]*Doors{}, Mixes: map[sharing.Mechanism]*Doors{}}
	for _, times := range questionLimits {
		out.ByLimit = append(out.ByLimit, LimitAnswers{Limit: times})
	}
	asks, disputed := questions(mixes)
	profiles := map[*predict.Mix]*profile.Profiles{}
	for i := range asks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		a := &asks[i]
		if profiles[a.mix] == nil {
			var err error
			if profiles[a.mix], err = soloProfiles(a.mix); err != nil {
				return nil, err
			}
		}
		if err := a.answer(ctx, profiles[a.mix], disputed, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// questions makes every question that mixes answer, and names those on which repeated runs disagree.
func questions(mixes []predict.Mix) (asks []ask, disputed map[string]bool) {
	truths := map[string]bool{}
	disputed = map[string]bool{}
	for i := range mixes {
		for _, m := range []profile.Metric{profile.MetricTPOTP50, profile.MetricTPOTP99, profile.MetricTTFTP99} {
			for _, times := range questionLimits {
				a, ok := question(&mixes[i], m, times)
				if !ok {
					continue
				}
				asks = append(asks, a)
				for k, id := range a.id {
					if before, again := truths[id]; again && before != a.kept[k] {
						disputed[id] = true
					}
					truths[id] = a.kept[k]
				}
			}
		}
	}
	return asks, disputed
}

// question makes the question about a mix, one metric and one limit; not ok where its rows do not tell.
func question(m *predict.Mix, metric profile.Metric, times float64) (ask, bool) {
	a := ask{mix: m, metric: metric, times: times}
	var names []string
	for i := range m.Rows {
		names = append(names, fmt.Sprint(m.Rows[i].Server, m.Rows[i].Load))
	}
	for i := range m.Rows {
		row := &m.Rows[i]
		got, ok := row.Metric(metric)
		if !ok || m.Err != nil {
			return a, false
		}
		solo := m.Group[i].Uncontended()
		if metric != profile.MetricTPOTP50 && min(row.Requests.Or(0), solo.Requests.Or(0)) < fewestForTail {
			return a, false
		}
		alone, ok := solo.Metric(metric)
		if !ok {
			return a, false
		}
		others := slices.Delete(slices.Clone(names), i, i+1)
		slices.Sort(others)
		a.limits = append(a.limits, profile.Duration(times*alone*float64(time.Millisecond)))
		a.kept = append(a.kept, got <= times*alone)
		a.id = append(a.id, fmt.Sprint(m.GPU, row.Mechanism, metric, times, names[i], others))
	}
	return a, true
}

// answer asks both doors, about each tenant and about all together.
func (a *ask) answer(ctx context.Context, profiles *profile.Profiles, disputed map[string]bool, out *Answers) error {
	mechanism := a.mix.Rows[0].Mechanism
	preds, _ := predict.EvaluatorOf(profiles, a.mix.Predictor).Predict(mechanism, a.mix.Group) // none: it is open
	at := slices.Index(questionLimits, a.times)
	for _, by := range []map[sharing.Mechanism]*Doors{out.ByMechanism, out.Mixes} {
		if by[mechanism] == nil {
			by[mechanism] = &Doors{}
		}
	}
	all, agreed, kept := sharing.AnswerYes, true, true
	for i := range a.mix.Rows {
		said := sharing.AnswerUnknown
		if preds != nil {
			if v, ok := preds[i].Get(a.metric); ok {
				said = v.Below(a.limits[i].Seconds() * 1e3)
			}
		}
		if said == sharing.AnswerNo || all == sharing.AnswerYes {
			all = said
		}
		kept = kept && a.kept[i]
		if disputed[a.id[i]] {
			agreed = false
			out.Disagreeing++
			continue
		}
		decided, err := a.decide(ctx, profiles, i)
		if err != nil {
			return err
		}
		for _, d := range []*Doors{&out.Doors, out.ByMechanism[mechanism], &out.ByLimit[at].Doors} {
			d.add(decided, said, a.kept[i])
		}
	}
	if !agreed {
		return nil
	}
	decided, err := a.decide(ctx, profiles, -1)
	if err != nil {
		return err
	}
	out.Mixes[mechanism].add(decided, all, kept)
	if decided == sharing.AnswerYes && !kept {
		out.Wrong = append(out.Wrong, fmt.Sprintf("%s %q under %s: %s at %g times alone", a.mix.Series, a.mix.Rows[0].Case,
			mechanism, a.metric, a.times))
	}
	return nil
}

func (d *Doors) add(decided, said sharing.Answer, kept bool) {
	d.Questions++
	d.Decide.add(decided, kept)
	d.Predict.add(said, kept)
}

// slack is the limit, in multiples of that asked about, of the tenants of a mix that a
// question is not about: none that binds.
const slack = 1000

// decide asks Decide about one tenant, or about all where it is negative.
func (a *ask) decide(ctx context.Context, profiles *profile.Profiles, tenant int) (sharing.Answer, error) {
	slo := make([]profile.SLO, len(a.limits))
	for i, limit := range a.limits {
		if tenant >= 0 && i != tenant {
			limit *= slack
		}
		*slo[i].At(a.metric) = sharing.Some(limit)
	}
	f, err := fleetOf(a.mix, slo, 1, a.mix.Rows[0].Mechanism)
	if err != nil {
		return sharing.AnswerUnknown, err
	}
	r, err := decision.Decide(ctx, f, decision.Options{Profiles: profiles, Predictor: a.mix.Predictor})
	if err != nil {
		return sharing.AnswerUnknown, fmt.Errorf("judge: %s, case %q: %w", a.mix.Series, a.mix.Rows[0].Case, err)
	}
	answer := sharing.AnswerYes
	for i := range r.Decisions {
		switch d := &r.Decisions[i]; {
		case d.Unplaced > 0:
			return sharing.AnswerNo, nil
		case d.Status != decision.StatusDecided:
			answer = sharing.AnswerUnknown
		}
	}
	return answer, nil
}

// tenantName names the tenants of a mix, from 1.
const tenantName = "tenant-%d"

// fleetOf is a mix as a fleet: one workload a tenant, with its profile, that all
// trust one another, and so many GPUs under these mechanisms.
func fleetOf(m *predict.Mix, slo []profile.SLO, gpus int, mechanisms ...sharing.Mechanism) (*decision.Fleet, error) {
	gpu, err := sharing.LookupGPU(m.GPU)
	if err != nil {
		return nil, err
	}
	f := &decision.Fleet{Version: "v1", Trust: "all",
		Pools: []decision.Pool{{Name: "gpu", GPU: m.GPU, Count: gpus, Mechanisms: mechanisms}}}
	for i := range m.Group {
		solo := &m.Group[i]
		memory := gpu.Memory.Value / sharing.Bytes(len(m.Group)+1) // measured, they all had room
		for _, p := range []*profile.SoloProfile{solo.MPS, solo.TimeSlicing} {
			if p != nil {
				memory = min(memory, p.MemoryUsed.Or(memory))
			}
		}
		f.Workloads = append(f.Workloads, decision.Workload{
			Name:    fmt.Sprintf(tenantName, i+1),
			Kind:    decision.KindOnlineInference,
			Memory:  sharing.Some(memory),
			SLO:     slo[i],
			UID:     sharing.Some(1000),
			Profile: &profile.ProfileRef{Server: solo.Server, Load: solo.Load},
		})
	}
	return f, nil
}

// soloProfiles are the profiles that a mix's tenants were predicted from.
func soloProfiles(m *predict.Mix) (*profile.Profiles, error) {
	out := &profile.Profiles{}
	for i := range m.Group {
		solo := &m.Group[i]
		for _, p := range append([]*profile.SoloProfile{solo.TimeSlicing, solo.MPS}, solo.Siblings...) {
			if p == nil {
				continue
			}
			if err := out.Add(*p); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// WriteText writes the answers as a table.
func (a *Answers) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join([]string{"", "asked", "Decide yes", "wrong", "lost", "open", "found",
		"predict yes", "wrong", "lost", "open", "found"}, "\t"))
	line := func(name string, d *Doors) {
		fmt.Fprintf(tw, "%s\t%d", name, d.Questions)
		for _, t := range []Tally{d.Decide, d.Predict} {
			fmt.Fprintf(tw, "\t%d\t%d\t%d\t%d\t%.0f%%", t.KeptTrue, t.KeptFalse, t.Lost, t.Unknown, 100*t.FoundFraction())
		}
		fmt.Fprintln(tw)
	}
	for _, m := range slices.SortedFunc(maps.Keys(a.ByMechanism), cmp.Compare) {
		line(fmt.Sprintf("tenants, %s", m), a.ByMechanism[m])
		line(fmt.Sprintf("mixes, %s", m), a.Mixes[m])
	}
	for i := range a.ByLimit {
		line(fmt.Sprintf("%g times alone", a.ByLimit[i].Limit), &a.ByLimit[i].Doors)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, s := range a.Wrong {
		if _, err := fmt.Fprintln(w, "wrong:", s); err != nil {
			return err
		}
	}
	return nil
}
