package predict

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/atomicfile"
	"github.com/cotenant/cotenant/sharing"
	"gonum.org/v1/gonum/stat/distuv"
)

// Learned holds what ended canaries, rows with what was predicted and what was seen, say of a predictor's errors. By
// mechanism, class and metric, the logarithm of seen over predicted is the sum of effects of the class, the tenant's
// engine, its server, each neighbour and the very mix, all shrunk to none as in ridge regression, with Huber's weights
// (Annals of Mathematical Statistics 35(1), 1964), so that a few rows that are wrong move it little. An interval is as
// wide as the errors demand that each mix has by what the others say: conformal prediction, as of the jackknife+
// (Barber and others, Annals of Statistics 49(1), 2021). The same rows in the same order give the same. It may be read
// concurrently.
type Learned struct {
	rows   int
	groups map[learnedKey]*learnedGroup
}

// learnedKey names those whose errors are alike.
type learnedKey struct {
	mechanism sharing.Mechanism
	class     profile.Class
	metric    profile.Metric
}

// learnedGroup holds the rows of a key, with the effects that were fitted to them.
type learnedGroup struct {
	items   []learnedItem
	effects map[string]float64
	scores  []float64 // of each row by the other mixes, ascending
}

// learnedItem is a tenant in a mix, however often it was seen: which effects it has, the last of them the mix's own,
// the median of its errors, and the half-width that was predicted.
type learnedItem struct {
	mix     string
	effects []string
	errors  []float64
	error   float64
	half    float64
}

const (
	shrink      = 5.0    // mixes that say none of an effect
	pseudo      = 4      // rows that the half-width that was predicted counts as many as
	hubers      = 1.5    // standard deviations from which on a row counts less
	leastSD     = 0.04   // of the logarithm: what a repeated measurement differs by
	missed      = 0.1    // of a 90% interval
	narrowest   = 0.1    // of the half-width that was predicted
	madOfNormal = 0.6745 // the median absolute deviation of a normal distribution, in standard deviations
	// Scores of more than wrongScore times the median, some three standard deviations of a normal distribution, are taken
	// for rows that are wrong, unless more than wrongShare of all are such: of 20 rows of which one in 20 is wrong, 4 or
	// fewer are in 997 of 1,000 cases.
	wrongScore, wrongShare = 5, 0.2
)

// Learn returns what the rows with predictions say, in their order. ErrNothingToFit says that there is none.
func Learn(rows profile.Rows) (*Learned, error) {
	l := &Learned{rows: len(rows), groups: map[learnedKey]*learnedGroup{}}
	for _, c := range rows.Cases() {
		l.add(c.Rows)
	}
	if len(l.groups) == 0 {
		return nil, ErrNothingToFit
	}
	for _, g := range l.groups {
		g.settle()
	}
	return l, nil
}

// LoadLearned reads a file of rows with predictions; FILE@N takes the first N rows of it only, which is the way back
// to an earlier version of what was learned ([Learned.Version]).
func LoadLearned(path string) (*Learned, error) {
	file, upTo := path, -1
	if at := strings.LastIndexByte(path, '@'); at > 0 {
		if n, err := strconv.Atoi(path[at+1:]); err == nil && n > 0 {
			file, upTo = path[:at], n
		}
	}
	rows, err := profile.LoadRows(file)
	if err != nil {
		return nil, err
	}
	if upTo > len(rows) {
		return nil, fmt.Errorf("%s: version %d of %d rows", file, upTo, len(rows))
	}
	if upTo >= 0 {
		rows = rows[:upTo]
	}
	return Learn(rows)
}

// LoadPredictorWith reads a predictor, the one with priors where its file is "", with what was learned ([LoadLearned])
// where that file is not "".
func LoadPredictorWith(file, learned string) (*Predictor, error) {
	p := NewPredictor()
	if file != "" {
		kept, err := LoadPredictor(file)
		if err != nil {
			return nil, err
		}
		p = *kept
	}
	var err error
	if learned != "" {
		p.Learned, err = LoadLearned(learned)
	}
	return &p, err
}

// AppendRows adds rows to a file of rows, which need not exist, all or none: a reader never sees half of them.
func AppendRows(path string, rows profile.Rows) error {
	old, err := profile.LoadRows(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	all := append(old, rows...)
	data, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	if _, err := profile.ParseRows(data); err != nil {
		return err
	}
	return atomicfile.Write(path, append(data, '\n'), 0o600)
}

// Version is the number of rows that were learned from.
func (l *Learned) Version() int { return l.rows }

// String tells what was learned apart, for keys.
func (l *Learned) String() string { return fmt.Sprintf("learned from %d rows, %p", l.rows, l.groups) }

// effectsOf names the effects of a tenant beside others.
func effectsOf(engine string, own profile.ProfileRef, neighbours []profile.ProfileRef) []string {
	out := []string{"", "engine " + engine + " " + own.Server.Variant, "server " + own.Server.Model}
	var mix []string
	for _, n := range neighbours {
		out, mix = append(out, "beside "+n.Server.Model), append(mix, fmt.Sprint(n))
	}
	slices.Sort(mix)
	return append(out, fmt.Sprint("mix ", own, mix))
}

// add takes a case over: rows without predictions teach nothing.
func (l *Learned) add(rows profile.Rows) {
	var all []profile.ProfileRef
	var names []string
	for i := range rows {
		all = append(all, profile.ProfileRef{Server: rows[i].Server, Load: rows[i].Load.Same()})
		names = append(names, fmt.Sprint(all[i], rows[i].GPUName, rows[i].Slice))
	}
	slices.Sort(names)
	for i := range rows {
		r := &rows[i]
		for metric, said := range r.Predicted {
			got, ok := r.Compared(metric)
			if !ok || said.High <= said.Low {
				continue
			}
			key := learnedKey{r.Mechanism, r.Class, metric}
			g := l.groups[key]
			if g == nil {
				g = &learnedGroup{}
				l.groups[key] = g
			}
			beside := slices.Delete(slices.Clone(all), i, i+1)
			g.saw(learnedItem{mix: fmt.Sprint(names), effects: effectsOf(r.Engine, all[i], beside),
				half: math.Log(said.High/said.Low) / 2}, math.Log(got/said.Value))
		}
	}
}

// saw adds an error of a tenant in a mix, in whatever order its neighbours come: what is seen again says more of that
// mix, and no more of others.
func (g *learnedGroup) saw(it learnedItem, e float64) {
	last := len(it.effects) - 1
	at := slices.IndexFunc(g.items, func(o learnedItem) bool {
		return o.mix == it.mix && len(o.effects) == last+1 && o.effects[last] == it.effects[last] &&
			o.effects[1] == it.effects[1] // its engine
	})
	if at < 0 {
		at, g.items = len(g.items), append(g.items, it)
	}
	seen := &g.items[at]
	i, _ := slices.BinarySearch(seen.errors, e)
	seen.errors = slices.Insert(seen.errors, i, e)
	n := len(seen.errors)
	seen.error = (seen.errors[(n-1)/2] + seen.errors[n/2]) / 2
}

// priorScores are those of a few rows, spread as a normal distribution is of which 90% lie within one half-width.
func priorScores() (out []float64) {
	for i := range pseudo {
		out = append(out, distuv.UnitNormal.Quantile((1+(float64(i)+0.5)/pseudo)/2)/profile.Z90)
	}
	return out
}

// settle fits the effects, and scores each row by those fitted to the other mixes.
func (g *learnedGroup) settle() {
	g.effects, g.scores = fitEffects(g.items, ""), priorScores()
	others := map[string]map[string]float64{}
	for _, it := range g.items {
		if others[it.mix] == nil {
			others[it.mix] = fitEffects(g.items, it.mix)
		}
		foretold := sumOf(others[it.mix], it.effects)
		for _, e := range it.errors {
			g.scores = append(g.scores, math.Abs(e-foretold)/it.half)
		}
	}
	slices.Sort(g.scores)
}

// width is the conformal quantile of ascending scores, without those that are taken for wrong.
func width(scores []float64) float64 {
	limit := wrongScore * scores[len(scores)/2]
	if k, _ := slices.BinarySearch(scores, limit); float64(len(scores)-k) <= wrongShare*float64(len(scores)) {
		scores = scores[:k]
	}
	n := len(scores)
	return max(narrowest, scores[min(n, int(math.Ceil((1-missed)*float64(n+1))))-1])
}

func sumOf(effects map[string]float64, names []string) (sum float64) {
	for _, name := range names {
		sum += effects[name]
	}
	return sum
}

// fitEffects fits effects to the items without one mix, by coordinate descent.
func fitEffects(items []learnedItem, without string) map[string]float64 {
	effects := map[string]float64{}
	var rest []float64
	by, penalty := map[string][]int{}, map[string]float64{}
	var order []string
	for _, it := range items {
		if it.mix == without {
			continue
		}
		for i, name := range it.effects {
			if penalty[name] = shrink; i == len(it.effects)-1 {
				penalty[name] /= float64(len(it.errors))
			}
			if by[name] == nil {
				order = append(order, name)
			}
			by[name] = append(by[name], len(rest))
		}
		rest = append(rest, it.error)
	}
	off, weight := make([]float64, len(rest)), make([]float64, len(rest))
	const rounds, sweeps = 6, 10
	for range rounds {
		for i, r := range rest {
			off[i] = math.Abs(r)
		}
		slices.Sort(off)
		for i, r := range rest {
			weight[i] = min(1, hubers*max(leastSD, off[len(off)/2]/madOfNormal)/max(math.Abs(r), 1e-9))
		}
		for range sweeps {
			for _, name := range order {
				sum, n := 0.0, penalty[name]
				for _, i := range by[name] {
					sum, n = sum+weight[i]*(rest[i]+effects[name]), n+weight[i]
				}
				moved := sum/n - effects[name]
				effects[name] += moved
				for _, i := range by[name] {
					rest[i] -= moved
				}
			}
		}
	}
	return effects
}

// apply moves the prediction of a tenant beside neighbours by what was learned.
func (l *Learned) apply(mechanism sharing.Mechanism, b *profile.SoloProfile, neighbours []profile.ProfileRef,
	out *Prediction) {
	for m, v := range out.All() {
		g := l.groups[learnedKey{mechanism, out.Class, m}]
		if g == nil {
			continue
		}
		if out.unlearned == nil {
			out.unlearned = map[profile.Metric]profile.Interval{}
			out.Notes = append(slices.Clip(out.Notes), fmt.Sprintf("corrected by what %d rows of canaries showed", l.rows))
		}
		out.unlearned[m] = v
		mid := v.Value * math.Exp(sumOf(g.effects, effectsOf(b.Engine,
			profile.ProfileRef{Server: b.Server, Load: b.Load.Same()}, neighbours)))
		half := width(g.scores) * math.Log(v.High/v.Low) / 2
		out.value[m] = profile.Interval{Value: mid, Low: mid * math.Exp(-half), High: mid * math.Exp(half)}
		if m == profile.MetricTPOTP50 || m == profile.MetricStepP50 {
			k := out.Slowdown.Value / v.Value
			out.Slowdown = profile.Interval{Value: k * mid, Low: k * mid * math.Exp(-half), High: k * mid * math.Exp(half)}
		}
	}
}

// Unlearned returns a metric's interval as it was before what was learned moved it: what a row for [Learn]
// holds, so that nothing is learned twice.
func (p *Prediction) Unlearned(m profile.Metric) (profile.Interval, bool) {
	if v, ok := p.unlearned[m]; ok {
		return v, true
	}
	return p.Get(m)
}

// Ended returns the row of a tenant of an ended canary, with its prediction: outcome is what was seen.
func (p *Prediction) Ended(name string, solo *profile.Solo, tenants int, outcome profile.Outcome) profile.Row {
	b := solo.Uncontended()
	r := profile.Row{Version: profile.Some(profile.VersionOfKinds), Kind: b.Kind, Engine: b.Engine,
		Mechanism: p.Mechanism, Case: name,
		Server: solo.Server, Load: solo.Load, Tenants: tenants, Outcome: outcome, GPUName: b.GPU, Class: p.Class,
		Predicted: map[profile.Metric]profile.Interval{}}
	for m := range p.All() {
		r.Predicted[m], _ = p.Unlearned(m)
	}
	return r
}
