// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// Options configure [Measure].
type Options struct {
	// Dir is an existing folder for the results.
	Dir string
	// Predictor predicts the co-located runs; nil means predict.NewPredictor for real servers, and the simulation's own
	// for simulated ones.
	Predictor *predict.Predictor
	// Spinner is the time for which each load runs on a machine next to a spinning kernel, to count the time slices of its
	// step; 0 skips this, and the stress kernels under MPS too. It needs MachineOptions.Probe.
	Spinner time.Duration
	// Progress, if not nil, is called with a line before each run, and with each note.
	Progress func(line string)

	simulatedTime bool // for tests
}

// Site runs servers: that of [NewMachine] or of [NewSimulation].
type Site interface {
	// basis is measured or simulated.
	basis() sharing.Basis
	// predictor returns the one to use unless another is given.
	predictor() *predict.Predictor
	// gpu names the GPU and its driver, "" if unknown.
	gpu() (name, driver string)
	// start starts the plan's servers in a mode, with logs below dir, and reports progress to say. The deployment must
	// be closed.
	start(ctx context.Context, m sharing.Mechanism, dir string, say func(format string, args ...any)) (*deployment, error)
}

// deployment holds the plan's servers in one mode.
type deployment struct {
	endpoints []loadgen.Endpoint // by server
	source    telemetry.Reader   // of the GPU; nil without telemetry
	device    int                // the GPU's index in source
	notes     []string           // for readers of the figures
	close     func() error
	// tenants that work by themselves, by server, halted; nil where requests of a client are their steps.
	tenants []*server

	// spinning calls run while a kernel spins on the GPU; nil without a probe.
	spinning func(ctx context.Context, run func(context.Context) error) error
	// stressed calls use with a tenant that works for a while by play; nil where it cannot.
	stressed  func(ctx context.Context, play player, use func(probe.Tenant) error) error
	strangers []string // other holders of the GPU
}

// player has a tenant work for a time, and returns the median of its step.
type player func(context.Context, time.Duration) (time.Duration, error)

// stressOn is the length of a repetition of a stress task, after its own time, until the tenant has ended.
const stressOn = 300 * time.Millisecond

// stressing is a real tenant with the probe's processes, which run tasks under MPS, on its GPU.
type stressing struct {
	prober Prober
	play   player
}

// Run implements probe.Tenant.
func (p *stressing) Run(ctx context.Context, t probe.Task, coLocated bool) (r probe.Reading, step time.Duration,
	err error) {
	task := func(t probe.Task) (probe.Reading, error) {
		readings, err := p.prober.Run(ctx, sharing.MechanismMPS, t)
		if err != nil {
			return probe.Reading{}, err
		}
		return readings[0], nil
	}
	switch {
	case !coLocated:
		r, err = task(t)
		return r, 0, err
	case t.Kind == probe.KindNone:
		step, err = p.play(ctx, t.For)
		return r, step, err
	}
	var failed error
	worked := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		for r, failed = task(t); failed == nil; {
			select {
			case <-worked:
				return
			default:
			}
			on := t
			on.For = stressOn
			_, failed = task(on)
		}
	})
	step, err = p.play(ctx, t.For)
	close(worked)
	ended.Wait()
	return r, step, cmp.Or(failed, err)
}

// runner holds the state of a measurement that all runs share.
type runner struct {
	Options
	simulated bool
	notes     []string
	shaped    map[string]bool // runs in which the client limited the figures
}

// say reports progress.
func (b *runner) say(format string, args ...any) {
	if b.simulated {
		format = "simulated: " + format
	}
	b.Progress(fmt.Sprintf(format, args...))
}

// note keeps a remark for readers of the figures, once.
func (b *runner) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(b.notes, text) {
		b.notes = append(b.notes, text)
		b.say("note: %s", text)
	}
}

// write writes a file of the results.
func (b *runner) write(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.Dir, name), append(data, '\n'), 0o644)
}

// record makes a run of the plan's tenants.
func (b *runner) record(ctx context.Context, dir string, plan loadgen.LoadPlan, source telemetry.Reader) (*recording,
	error) {
	plan.Simulated = b.simulated
	opts := loadgen.Options{Dir: filepath.Join(b.Dir, dir), KeepRecords: len(plan.Tenants) == 1,
		Meta: map[string]any{"run": filepath.ToSlash(dir)}}
	if b.simulatedTime {
		opts.ProcessTimes = true
		opts.Health = loadgen.HealthLimits{SchedulingP99: -1, GCPauseMax: -1, CPUFraction: -1} // real ones
	}
	r, err := record(ctx, plan, opts, source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if h := &r.Summary.ClientHealth; !h.Valid {
		b.shaped[dir] = true
		b.note("%s: the client shaped the figures: %s", dir, strings.Join(h.Reasons, "; "))
	}
	return r, nil
}

// NewFolder creates a folder for Options.Dir, or accepts an empty one, and returns its name: for "" it is "measure-"
// and the time, in the working folder.
func NewFolder(dir string) (string, error) {
	dir = cmp.Or(dir, "measure-"+time.Now().UTC().Format("20060102T150405Z"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty; name a new folder", dir)
	}
	return dir, err
}

//go:embed plans/*.yaml
var plans embed.FS

// BuiltinPlan returns the text of a built-in plan: "simulated", a chat assistant on a small model with a summarizer on
// a larger one, and "mixed", a server, a training job and a notebook, for [NewSimulation]; "two-models" and "vllm",
// real servers to start from, for [NewMachine].
func BuiltinPlan(name string) ([]byte, bool) {
	text, err := plans.ReadFile("plans/" + name + ".yaml")
	return text, err == nil
}

// planFlow takes a plan through its modes.
type planFlow struct {
	runner
	plan     *Plan
	site     Site
	runs     []run // in the order in which they were made
	missing  []missing
	expected map[predictedRun]*tenantPrediction
	cached   []string // loads of which it was noted that a prefix cache answers
}

// predictedRun is a load in a case and mode.
type predictedRun struct {
	mode       sharing.Mechanism
	name, load string
}

// missing is a run of the plan without a result.
type missing struct {
	Mode   sharing.Mechanism `json:"mode"`
	Case   string            `json:"case"`
	Loads  []string          `json:"loads"`
	Reason string            `json:"reason"`
}

// run is one run of loads, isolated or co-located.
type run struct {
	mode  sharing.Mechanism
	name  string // case, or "solo-" and the load
	loads []string
	dir   string // below the results' folder
	// stressed runs have short answers, so that they end soon although a stress kernel slows the server.
	stressed bool
	began    time.Time
	rows     profile.Rows // by load
	drift    float64      // of an isolated run, see drift
	repeats  int          // of an isolated run that drifted
}

func (r *run) solo() bool { return len(r.loads) == 1 }

// title describes a mode. MPS with limits bounds a client's resources; it contains
// neither faults nor contention, so it is never called isolation.
func title(m sharing.Mechanism) string {
	if m == sharing.MechanismMIGLikeEmulation {
		return m.String() + " (MPS with percentages and memory limits; it does not isolate)"
	}
	return m.String()
}

// writeRows replaces the rows' file with all rows so far.
func (f *planFlow) writeRows() error { return f.write(f.name("rows"), f.rows()) }

func (f *planFlow) rows() (rows profile.Rows) {
	for i := range f.runs {
		rows = append(rows, f.runs[i].rows...)
	}
	return rows
}

// soloRow is the row of an isolated load under time-slicing, nil if there is none.
func (f *planFlow) soloRow(load string) *profile.Row {
	for i := range f.runs {
		if r := &f.runs[i]; r.mode == sharing.MechanismTimeSlicing && r.solo() && r.loads[0] == load {
			return &r.rows[0]
		}
	}
	return nil
}

// name is a file's name, marked where the results are simulated.
func (f *planFlow) name(what string) string {
	if f.simulated {
		what += ".simulated"
	}
	return what + ".json"
}

// predictionFile is predictions.json, written before any of its cases ran.
type predictionFile struct {
	Basis     sharing.Basis     `json:"basis"` // of the isolated runs
	Mode      sharing.Mechanism `json:"mode"`
	Written   time.Time         `json:"written_at"`
	From      []string          `json:"from_runs"`
	Cases     []prediction      `json:"cases"`
	Predictor predict.Predictor `json:"predictor"`
}

// prediction holds the expected outcomes of a case's tenants, or the reason for none.
type prediction struct {
	Mode    sharing.Mechanism  `json:"mode"`
	Case    string             `json:"case"`
	Tenants []tenantPrediction `json:"tenants,omitempty"`
	Problem string             `json:"problem,omitempty"`
}

type tenantPrediction struct {
	Load      string                              `json:"load"`
	Basis     sharing.Basis                       `json:"basis"`
	Predicted map[profile.Metric]profile.Interval `json:"predicted"`
	// Slowdown is TPOT over that of the isolated load under time-slicing, where that was run.
	Slowdown profile.Interval      `json:"slowdown_factor"`
	Slices   sharing.Optional[int] `json:"time_slices_per_step,omitzero"`
	// OtherSlices is another number that the step nearly takes.
	OtherSlices sharing.Optional[int] `json:"or_time_slices_per_step,omitzero"`
	Notes       []string              `json:"notes,omitempty"`
	written     time.Time
}
