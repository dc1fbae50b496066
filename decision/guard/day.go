package guard

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// The simulated day. Its figures are made up, not measured: how notebooks and servers are used follows no trace.
const (
	dayGPUs    = 200
	dayWindow  = time.Minute
	dayWindows = 24 * 60
	rogues     = 0.5  // part of the batch tenants that take more than they declared, once
	consents   = 0.7  // part of the owners of notebooks and training who agreed in writing to be reaped
	blind      = 0.05 // part of the GPUs' time in which telemetry is stale or contradicts itself
)

// day is the world that the guard sees only through observations.
type day struct {
	Config
	hidden []hidden
	faults [][]fault
	// The guard's effects on it.
	capped []float64 // 0 = not
	home   []int
	gone   []bool // reaped, and its owner is not back
	joules []float64

	noise *rand.Rand
	cache map[string]float64
}

// hidden holds the truth about a tenant.
type hidden struct {
	activity [dayWindows]float64 // that it would take
	factor   float64             // of its latency against the prediction
	rogue    [2]int              // windows from, to
	wild     profile.Load        // what it does then
}

// fault is a time in which a GPU's telemetry is not to be trusted.
type fault struct {
	from, to int
	lies     bool // says that nothing runs; else stands still
}

// uses lists the servers and loads of the simulated day, of which there are
// profiles; wild is the load of a batch tenant that takes more than it declared.
var uses = []struct {
	model     string
	load      profile.Load
	busy      float64
	wild      profile.Load
	wildShare float64
}{
	{"160m", load{Rate: 10, Prompt: 128, Output: 64}, 0.41, load{Concurrency: 16, Prompt: 128, Output: 64}, 0.57},
	{"1b", load{Rate: 8, Prompt: 256, Output: 48}, 0.56, load{Concurrency: 8, Prompt: 256, Output: 64}, 0.83},
	{"3b", load{Rate: 4, Prompt: 128, Output: 64}, 0.62, load{Concurrency: 8, Prompt: 512, Output: 32}, 0.88},
	{"8b", load{Rate: 2, Prompt: 256, Output: 64}, 0.65, load{Concurrency: 16, Prompt: 256, Output: 64}, 0.93},
}

type load = profile.Load

//go:embed profiles.json
var profileRows []byte

func newDay(seed uint64, gpus int) (*day, error) {
	rows, err := profile.ParseRows(profileRows)
	if err != nil {
		return nil, err
	}
	profiles, err := profile.NewProfiles(rows.Profiles()...)
	if err != nil {
		return nil, err
	}
	predictor := predict.NewPredictor()
	r := rand.New(rand.NewPCG(seed, 0x6a))
	d := &day{
		Config: Config{Profiles: profiles, Predictor: &predictor, Reap: true},
		cache:  map[string]float64{}, noise: rand.New(rand.NewPCG(seed, 0x6b)),
	}
	for i := range gpus {
		mechanism := sharing.MechanismTimeSlicing
		if i%3 == 0 {
			mechanism = sharing.MechanismMPS
		}
		d.GPUs = append(d.GPUs, GPU{Index: i, Name: predictor.GPU, Mechanism: mechanism, MIG: true})
		d.faults = append(d.faults, faultsOf(r))
		add := func(kind decision.Kind, holds float64, use int, live func(h *hidden)) {
			h := hidden{factor: math.Exp(0.04 * r.NormFloat64())}
			t := Tenant{
				Name: fmt.Sprintf("%s-%d/%d", kind, i, len(d.Tenants)), Kind: kind, GPU: i, Holds: holds,
				Owner: fmt.Sprintf("team-%d", i%17),
			}
			if kind == decision.KindNotebook || kind == decision.KindTraining {
				t.MayReap = r.Float64() < consents
			} else {
				t.Server, t.Load = profile.Server{Model: uses[use].model}, uses[use].load
				h.wild = uses[use].wild
			}
			live(&h)
			d.Tenants = append(d.Tenants, t)
			d.hidden = append(d.hidden, h)
		}
		switch {
		case i%10 < 4: // a server, and batch work beside it
			use := r.IntN(len(uses))
			add(decision.KindOnlineInference, 0.4, use, func(h *hidden) { steady(r, h, uses[use].busy*0.5) })
			use = r.IntN(len(uses))
			add(decision.KindBatch, 0.4, use, func(h *hidden) {
				steady(r, h, uses[use].busy*0.5)
				if r.Float64() < rogues {
					goWild(r, h, uses[use].wildShare)
				}
			})
		case i%10 < 8: // notebooks
			for range 2 + r.IntN(3) {
				add(decision.KindNotebook, 0.25, 0, func(h *hidden) { notebook(r, h) })
			}
		case i%10 == 8: // training, now and then waiting for somebody to start the next run
			add(decision.KindTraining, 1, 0, func(h *hidden) { training(r, h) })
		default: // room
			add(decision.KindBatch, 0.3, 0, func(h *hidden) { steady(r, h, 0.1) })
		}
	}
	g, err := New(DefaultRules(dayWindow), d.Config)
	if err != nil {
		return nil, err
	}
	for i := range d.Tenants {
		if t := &d.Tenants[i]; t.Online() {
			expect, _, ok := g.expected(i)
			if !ok {
				return nil, fmt.Errorf("%s: cannot be predicted", t.Name)
			}
			t.LimitMS = 1.15 * expect.Value
		}
		d.home = append(d.home, d.Tenants[i].GPU)
		d.gone = append(d.gone, false)
	}
	d.capped = make([]float64, len(d.Tenants))
	d.joules = make([]float64, len(d.GPUs))
	return d, nil
}

func faultsOf(r *rand.Rand) (out []fault) {
	for at := 0; ; {
		length := 10 + r.IntN(50)
		at += int(r.ExpFloat64() * float64(length) * (1 - blind) / blind)
		if at >= dayWindows {
			return out
		}
		out = append(out, fault{at, min(dayWindows, at+length), r.IntN(2) == 0})
		at += length
	}
}

func steady(r *rand.Rand, h *hidden, busy float64) {
	for w := range h.activity {
		h.activity[w] = busy * math.Exp(0.05*r.NormFloat64())
	}
}

func goWild(r *rand.Rand, h *hidden, busy float64) {
	from := 60 + r.IntN(dayWindows-300)
	h.rogue = [2]int{from, from + 30 + r.IntN(200)}
	for w := h.rogue[0]; w < h.rogue[1]; w++ {
		h.activity[w] = busy * (0.9 + 0.1*r.Float64())
	}
}

// notebook works in sittings between 8 and 20 o'clock, with pauses; what it held stays held overnight.
func notebook(r *rand.Rand, h *hidden) {
	from, to := 8*60+r.IntN(4*60), 15*60+r.IntN(5*60)
	for w := from; w < to; {
		for range 10 + r.IntN(60) {
			if w < to {
				h.activity[w] = 0.15 + 0.2*r.Float64()
				w++
			}
		}
		pause := 5 + r.IntN(40)
		if r.IntN(6) == 0 {
			pause = 60 + r.IntN(120) // lunch, a meeting
		}
		w += pause
	}
}

func training(r *rand.Rand, h *hidden) {
	for w := 0; w < dayWindows; {
		for range 60 + r.IntN(500) {
			if w < dayWindows {
				h.activity[w] = 0.9 + 0.08*r.Float64()
				w++
			}
		}
		w += 20 + r.IntN(300)
	}
}

// active returns the share of the GPU's time that a tenant takes.
func (d *day) active(i, w int) float64 {
	if d.gone[i] {
		return 0
	}
	return d.hidden[i].activity[w]
}

// wild reports that a tenant does more than it declared.
func (d *day) wild(i, w int) bool { return w >= d.hidden[i].rogue[0] && w < d.hidden[i].rogue[1] }

// truth returns a tenant's TPOT in milliseconds: the prediction for what really
// runs, times the tenant's hidden factor.
func (d *day) truth(i, w int) float64 {
	var group []profile.Solo
	at := 0
	key := binary.AppendVarint(binary.AppendVarint(nil, int64(i)), int64(d.home[i]))
	for k := range d.Tenants {
		t := &d.Tenants[k]
		if d.home[k] != d.home[i] || d.gone[k] || t.Server.Model == "" {
			continue
		}
		server, load := t.Server, t.Load
		if d.wild(k, w) {
			load = d.hidden[k].wild
		}
		if c := d.capped[k]; c > 0 {
			server.SMPercent = profile.Some(100 * c)
		}
		solo, err := d.Profiles.Solo(server, load)
		if err != nil {
			continue // no such tenant is made
		}
		if k == i {
			at = len(group)
		}
		group = append(group, solo)
		key = binary.AppendVarint(binary.AppendVarint(key, int64(k)), int64(100*d.capped[k]))
		if d.wild(k, w) {
			key = append(key, 1)
		}
	}
	v, ok := d.cache[string(key)]
	if !ok {
		out, err := d.Predictor.Predict(d.GPUs[d.home[i]].Mechanism, group, predict.MethodClosedForm)
		if err == nil {
			in, _ := out[at].Get(profile.MetricTPOTP50)
			v = in.Value
		}
		d.cache[string(key)] = v
	}
	return v * d.hidden[i].factor
}

// faulty returns the fault of a GPU in a window, nil = none.
func (d *day) faulty(gpu, w int) *fault {
	for k := range d.faults[gpu] {
		if f := &d.faults[gpu][k]; w >= f.from && w < f.to {
			return f
		}
	}
	return nil
}

// The power of the simulated GPU: idle, and at work (facts of an H200).
const (
	restWatts = 75
	workWatts = 500
)

// observe returns what the guard gets to see of a window.
func (d *day) observe(w int) Observation {
	at := time.Duration(w+1) * dayWindow
	o := Observation{At: at, GPUs: make([]GPUSeen, len(d.GPUs)), Tenants: make([]TenantSeen, len(d.Tenants))}
	sums := make([]float64, len(d.GPUs))
	for i := range d.Tenants {
		home := d.home[i]
		seen := TenantSeen{At: at, Activity: telemetry.Some(d.active(i, w)), Gone: d.gone[i]}
		sums[home] += d.active(i, w)
		if d.Tenants[i].Online() {
			seen.TPOT = telemetry.Some(d.truth(i, w) * math.Exp(0.03*d.noise.NormFloat64()))
		}
		if f := d.faulty(home, w); f != nil && f.lies {
			seen.Activity = telemetry.Some(0.0)
		} else if f != nil {
			seen.At = time.Duration(f.from) * dayWindow
		}
		o.Tenants[i] = seen
	}
	for i := range d.GPUs {
		busy := min(1, sums[i])
		watts := restWatts + workWatts*busy
		d.joules[i] += watts * dayWindow.Seconds()
		o.GPUs[i] = GPUSeen{
			At: at, UtilPercent: telemetry.Some(100 * busy), Watts: telemetry.Some(watts),
			Joules: telemetry.Some(d.joules[i]),
		}
		if f := d.faulty(i, w); f != nil && f.lies {
			o.GPUs[i].UtilPercent = telemetry.Some(0.0)
		} else if f != nil {
			o.GPUs[i].At = time.Duration(f.from) * dayWindow
		}
	}
	return o
}

// misled reports that a GPU's telemetry is stale or untrue.
func (d *day) misled(gpu, w int) bool {
	f := d.faulty(gpu, w)
	if f == nil || !f.lies {
		return f != nil
	}
	for i := range d.Tenants {
		if d.home[i] == gpu && d.active(i, w) > 0 {
			return true
		}
	}
	return false
}

// carry does in the world what the guard decided.
func (d *day) carry(p *Proposal) {
	switch p.Action {
	case ActionReap:
		d.gone[p.target] = true
	case ActionCap:
		d.capped[p.target] = p.Percent / 100
	case ActionMove:
		d.home[p.target] = p.to
	}
}
