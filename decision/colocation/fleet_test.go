package colocation

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/sharing"
	"github.com/google/go-cmp/cmp"
)

// TestTable holds the report for people, from a report that a run left.
func TestTable(t *testing.T) {
	b, err := os.ReadFile("testdata/report.simulated.json")
	if err != nil {
		t.Fatal(err)
	}
	var rep Report
	if err := json.Unmarshal(b, &rep); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := rep.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/report.txt", out.Bytes())
	checkColumns(t, out.String())
}

func TestBuiltInPlans(t *testing.T) {
	for real, text := range map[bool][]byte{false: builtin("simulated"), true: builtin("two-models")} {
		if _, err := ParsePlan(text, PlanOptions{Real: real}); err != nil {
			t.Error(err)
		}
	}
}

// simulatedFleet is a run of a fleet in simulated time, so that its figures are
// those of the simulated GPUs and not of this machine's timers. A quantum changes
// the GPUs behind the predictor's back; after, when not 0, is when Ctrl-C comes.
type simulatedFleet struct {
	fleet   string // "" = quickstart's
	quantum time.Duration
	after   time.Duration

	report         *Report
	dir            string
	code           int
	stdout, stderr string
}

const quickstart = "../../examples/quickstart/"

func (b *simulatedFleet) run(t *testing.T, opts FleetOptions) {
	t.Helper()
	b.dir = filepath.Join(t.TempDir(), "results")
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var fleet *decision.Fleet
	var err error
	switch {
	case b.fleet == "":
		fleet, err = decision.LoadFleet(quickstart + "fleet.yaml")
	case strings.HasSuffix(b.fleet, ".yaml"):
		fleet, err = decision.LoadFleet(b.fleet)
	default:
		fleet, err = decision.ParseFleet([]byte(b.fleet))
	}
	if err != nil {
		t.Fatal(err)
	}
	result, err := decision.Decide(t.Context(), fleet, decision.Options{})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if b.after > 0 {
			defer time.AfterFunc(b.after, cancel).Stop()
		}
		opts.Dir, opts.simulatedTime, opts.quantum = b.dir, true, b.quantum
		opts.Progress = func(line string) { b.stderr += line + "\n" }
		if b.report, err = SimulateFleet(ctx, fleet, result, opts); err != nil {
			b.code, b.stderr = exitFailed, b.stderr+err.Error()
		}
	})
	if b.report == nil {
		t.Fatal(b.stderr)
	}
	var text strings.Builder
	if err := b.report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	b.stdout = text.String()
}

// figures are numbers, with the mark of those outside their interval.
var figures = regexp.MustCompile(`[0-9]+(\.[0-9]+)?( !)?`)

// masked leaves the layout, without figures and the widths that they give.
func masked(text string) string {
	var out strings.Builder
	text = unwrapped(text) // where lines break depends on the figures too
	for line := range strings.Lines(figures.ReplaceAllString(text, "#")) {
		out.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return out.String()
}

// unwrapped puts together what a printer has wrapped.
func unwrapped(text string) string {
	var out strings.Builder
	start := 0 // of the line that is wrapped
	for k, line := range strings.Split(text, "\n") {
		rest := strings.TrimLeft(line, " ")
		if indent := len(line) - len(rest); k > 0 && rest != "" && indent == start+4 {
			out.WriteString(" " + rest)
			continue
		}
		start = len(line) - len(rest)
		if k > 0 {
			out.WriteString("\n")
		}
		out.WriteString(line)
	}
	return out.String()
}

func checkColumns(t *testing.T, text string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if n := utf8.RuneCountInString(line); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// The default fleet: what is expected is said before anything runs side by
// side, every line and artifact says that it is simulated, and nothing contradicts
// the decision.
func TestMeasure(t *testing.T) {
	var b simulatedFleet
	b.run(t, FleetOptions{Seconds: 2})
	if b.code != exitOK {
		t.Fatalf("exit %d: %s", b.code, b.stderr)
	}
	text := b.stdout
	golden.Check(t, "testdata/measured-default.masked", []byte(masked(strings.TrimPrefix(text, "\n"))))
	checkColumns(t, b.stdout)
	if strings.Contains(text, "CONTRADICTS") || !strings.Contains(text, "nothing that was simulated contradicts the decision") {
		t.Error(text)
	}
	last, first := strings.LastIndex(b.stderr, "simulated: expected of"), strings.Index(b.stderr, "exclusive: running")
	if last < 0 || first < last {
		t.Errorf("expected at %d, run at %d:\n%s", last, first, b.stderr)
	}
	checkArtifacts(t, b.dir)
}

// checkArtifacts: everything is there, and marked.
func checkArtifacts(t *testing.T, dir string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m Report
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	if m.Basis != sharing.BasisSimulated || !m.Complete || len(m.Rows) == 0 {
		t.Errorf("basis %s, complete %v, %d rows", m.Basis, m.Complete, len(m.Rows))
	}
	requests := map[string]int64{}
	for _, run := range []string{"alone", "exclusive", "time-slicing", "mps", "mig"} {
		res, err := loadgen.LoadResult(filepath.Join(dir, run))
		if err != nil {
			t.Error(err)
			continue
		}
		if res.Summary.Basis != "simulated" {
			t.Errorf("%s: basis %s", run, res.Summary.Basis)
		}
		requests[run] = res.Summary.Counts.OK
		series, err := os.ReadFile(filepath.Join(dir, run, loadgen.ArtifactTelemetry))
		if err != nil || !strings.Contains(string(series), "simulated") {
			t.Errorf("%s: telemetry is there: %v, and marked: %v", run, err == nil, strings.Contains(string(series), "simulated"))
		}
	}
	for _, r := range m.Rows {
		if r.Basis != sharing.BasisSimulated {
			t.Errorf("%s by %s: basis %s", r.Load, r.Mode, r.Basis)
		}
		requests[r.Run] -= int64(r.Requests)
	}
	for run, left := range requests {
		if run != "alone" && left != 0 {
			t.Errorf("%s: the run has %d requests more than the report", run, left)
		}
	}
	data, err = os.ReadFile(filepath.Join(dir, "profiles.json"))
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := profile.ParseProfiles(data)
	if err != nil || len(profiles) != 4 || profiles[0].GPU != "simulated GPU" {
		t.Errorf("%d profiles, %v", len(profiles), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "predictions.json")); err != nil {
		t.Error(err)
	}
}

// pair is a light workload whose step fits one time slice beside one with long
// steps: what it waits for is the other's slice.
const pair = `
version: v1
trust: all
pools: [{name: lab, gpu: L40S, count: 1, mechanisms: [time-slicing, mps]}]
workloads:
  - {name: light, kind: online-inference, memory: 4GiB, gpu_busy: 0.1, solo: {tpot_p99: 1600us}, profile: {server: {model: light}, load: {concurrency: 2, prompt: 64, output: 32}}}
  - {name: heavy, kind: offline-inference, memory: 8GiB, gpu_busy: 0.2, solo: {tpot_p99: 20ms}, profile: {server: {model: heavy}, load: {concurrency: 2, prompt: 64, output: 16}}}
`

// Measured and expected agree on the GPU that the predictor knows, and part on
// one with twice the quantum.
func TestDoubledQuantum(t *testing.T) {
	race.Long(t)
	light := func(quantum time.Duration) (inside bool, measured, expected float64) {
		b := simulatedFleet{fleet: pair, quantum: quantum}
		b.run(t, FleetOptions{Mechanisms: []sharing.Mechanism{sharing.MechanismTimeSlicing}, Seconds: 4})
		m := b.report
		i := slices.IndexFunc(m.Rows, func(r ReportRow) bool { return r.Load == "light" })
		if i < 0 || m.Rows[i].Requests < 20 {
			t.Fatalf("%+v", m)
		}
		r := &m.Rows[i]
		return r.Inside[profile.MetricTPOTP50], r.Actual[profile.MetricTPOTP50], r.Predicted[profile.MetricTPOTP50].Value
	}
	if inside, got, want := light(0); !inside {
		t.Errorf("TPOT P50 is %v ms, expected %v", got, want)
	}
	if inside, got, want := light(2 * 2090 * time.Microsecond); inside || got < 1.2*want {
		t.Errorf("with the double quantum TPOT P50 is %v ms, expected %v", got, want)
	}
}

// openPair is two workloads of which the file says nothing but their load.
const openPair = `
version: v1
trust: all
pools: [{name: lab, gpu: A100-SXM4-80GB, count: 1}]
workloads:
  - {name: light, kind: online-inference, memory: 4GiB, gpu_busy: 0.1, framework: {name: vllm, memory_fraction: 0.4}}
  - {name: train, kind: training, memory: 8GiB, gpu_busy: 0.2}
`

// The same seed makes the same schedule, another one another.
func TestMeasureSeed(t *testing.T) {
	race.Long(t)
	counts := func(seed uint64) (out []int) {
		b := simulatedFleet{fleet: openPair}
		b.run(t, FleetOptions{Mechanisms: []sharing.Mechanism{sharing.MechanismMPS}, Seconds: 2, Seed: seed})
		for _, r := range b.report.Rows {
			out = append(out, r.Requests)
		}
		return out
	}
	one := counts(1)
	if diff := cmp.Diff(one, counts(1)); diff != "" || len(one) != 2 {
		t.Errorf("%v (-first +second):\n%s", one, diff)
	}
	if slices.Equal(one, counts(2)) {
		t.Error("another seed makes the same schedule")
	}
}

// Ctrl-C keeps what was measured, and says that it is not all.
func TestMeasureInterrupted(t *testing.T) {
	for after, rows := range map[time.Duration][2]int{300 * time.Millisecond: {0, 0}, time.Second: {0, 1}, 3 * time.Second: {1, 2}, 7 * time.Second: {5, 2}} {
		b := simulatedFleet{fleet: pair, after: after}
		b.run(t, FleetOptions{Seconds: 2})
		m := b.report
		if b.code != exitFailed || m.Complete || m.Problem != "interrupted" || len(m.Rows) != rows[0] || len(m.Alone) != rows[1] {
			t.Errorf("%v: exit %d, %d rows and %d alone, %q", after, b.code, len(m.Rows), len(m.Alone), m.Problem)
		}
		if !strings.Contains(b.stderr, fmt.Sprintf("interrupted: %d rows side by side and %d alone are kept", rows[0], rows[1])) {
			t.Error(b.stderr)
		}
		if _, err := os.Stat(filepath.Join(b.dir, "report.json")); err != nil {
			t.Error(err)
		}
	}
}

// TestScenes lists for every scenario which GPUs are simulated, and what is not
// run and why.
func TestScenes(t *testing.T) {
	var out strings.Builder
	files, err := filepath.Glob(quickstart + "testdata/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range append(files, quickstart+"fleet.yaml") {
		fleet, err := decision.LoadFleet(file)
		if err != nil {
			t.Fatal(err)
		}
		result, err := decision.Decide(t.Context(), fleet, decision.Options{})
		if err != nil {
			t.Fatal(err)
		}
		set, err := newSceneSet(fleet, result, nil, DefaultFleetSeconds)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s\n", filepath.Base(file))
		for i := range set.scenes {
			s := &set.scenes[i]
			fmt.Fprintf(&out, "  %s, %s, %s %s:", s.Name, s.GPU, s.Recommended, s.Note)
			fmt.Fprintln(&out)
			for _, tenant := range s.Tenants {
				fmt.Fprintf(&out, "    %s %s %s\n", tenant.Workload, tenant.Profile, tenant.sim.load)
			}
			for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG, sharing.MechanismMIGLikeEmulation} {
				if why := s.runnable(m, result); why != "" {
					fmt.Fprintf(&out, "    %s: %s\n", m, why)
				}
			}
		}
		for _, n := range set.missing {
			fmt.Fprintf(&out, "  %s: %s\n", n.Workload, n.Reason)
		}
		covered := map[string]bool{}
		for _, n := range set.missing {
			covered[n.Workload] = true
		}
		for _, s := range set.scenes {
			for _, sim := range s.workloads() {
				covered[sim.workload.Name] = true
			}
		}
		if len(covered) != len(fleet.Workloads) {
			t.Errorf("%s: %d of %d workloads are simulated or listed", file, len(covered), len(fleet.Workloads))
		}
	}
	golden.Check(t, "testdata/scenes.txt", []byte(out.String()))
}

// What cannot be simulated is listed, and what can is run.
func TestMeasureListsWhatItDoesNotRun(t *testing.T) {
	b := simulatedFleet{fleet: openPair}
	b.run(t, FleetOptions{Mechanisms: []sharing.Mechanism{sharing.MechanismHAMi, sharing.MechanismMIGLikeEmulation, sharing.MechanismMIG}, Seconds: 2})
	for _, want := range []string{"lab-1 by hami: not simulated: what a preloaded library", "mig-like-emulation  reject", "\n    mig     "} {
		if b.code != exitOK || !strings.Contains(b.stdout, want) {
			t.Errorf("exit %d, no %q:\n%s", b.code, want, b.stdout)
		}
	}
	b = simulatedFleet{fleet: pair}
	b.run(t, FleetOptions{Mechanisms: []sharing.Mechanism{sharing.MechanismMIG}, Seconds: 2})
	if want := "lab-1 by mig: rejected and not run: heavy: "; b.code != exitOK || !strings.Contains(b.stdout, want) || strings.Contains(b.stdout, "contradicts") {
		t.Errorf("exit %d: %s", b.code, b.stdout)
	}
	b = simulatedFleet{fleet: quickstart + "testdata/llm-70b-on-l4.yaml"}
	b.run(t, FleetOptions{})
	if b.code != exitOK || !strings.Contains(b.stdout, "SIMULATED: not run") {
		t.Errorf("exit %d: %s", b.code, b.stdout)
	}
}

// TestLoadOfTheFleetFile: a server whose model, lengths and rate are stated is
// simulated with them, a part of the rate for each replica.
func TestLoadOfTheFleetFile(t *testing.T) {
	fleet, err := decision.ParseFleet([]byte(`
version: v1
pools: [{name: p, gpu: H100-80GB, count: 4}]
workloads:
  - {name: chat, kind: online-inference, replicas: 2, tenant: a, model: {parameters: 8e9, weights: bf16}, load: {requests_per_s: 4, input_tokens: 4096, output_tokens: 48}}
`))
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := sharing.LookupGPU(fleet.Pools[0].GPU)
	if err != nil {
		t.Fatal(err)
	}
	s, why := newReplica(&fleet.Workloads[0], gpu, nil)
	if why != "" || s.load.Prompt != 4096 || s.load.Output != 48 || s.load.Rate != 2 {
		t.Fatalf("%q, %+v", why, s.load)
	}
	// 16 GB at 0.65 of 3.35 TB/s; 65 TFLOP at 0.45 of 990 TFLOP/s.
	if step := s.step.Seconds(); step < 0.006 || step > 0.009 {
		t.Errorf("a decode step of %v", s.step)
	}
	if prefill := s.prefill.Seconds(); prefill < 0.11 || prefill > 0.19 {
		t.Errorf("a prompt takes %v", s.prefill)
	}
	if busy := s.busy(); busy < 0.5 || busy > 0.7 {
		t.Errorf("it keeps a GPU %.2f busy", busy)
	}
}

// TestProvisionalAnswersMayTurnOutOtherwise: what was assumed and is not so does
// not contradict the decision, which said so; what was decided and is not does.
func TestProvisionalAnswersMayTurnOutOtherwise(t *testing.T) {
	over := 20.0
	for status, contradicts := range map[decision.Status]bool{decision.StatusProvisional: false, decision.StatusDecided: true} {
		d := &decision.Decision{Status: status}
		if !contradicts {
			d.Assumes = []decision.Assumption{{What: "TPOT P99 alone is half of its limit"}}
		}
		r := ReportRow{Mode: sharing.MechanismMPS, Tenants: 2, Objectives: []objective{{Metric: profile.MetricTPOTP99, LimitMS: 9, ActualMS: &over}}}
		r.Decided = decidedOf(d, decision.Candidate{Verdict: gate.VerdictPass, Tenants: 2})
		r.Decided.Recommended = true
		text, got := r.finding()
		if got != contradicts || !contradicts && !strings.Contains(text, "provisional: it assumes that TPOT P99 alone is half") {
			t.Errorf("%s: %v, %q", status, got, text)
		}
		r.Decided.Recommended, r.Tenants = false, 3
		if text, got := r.finding(); got && status == decision.StatusDecided {
			t.Errorf("more than it takes: %q", text)
		}
	}
}

// TestDisturbedRunsAreNotJudged: where the client shaped the figures they
// contradict nothing, and that is said.
func TestDisturbedRunsAreNotJudged(t *testing.T) {
	over := 20.0
	for _, shaped := range []bool{false, true} {
		f := fleetFlow{
			bench:  bench{shaped: map[string]bool{"mps": shaped}},
			scenes: []scene{{Name: "s", Pool: "p", Recommended: sharing.MechanismMPS}},
			result: &decision.Result{Decisions: []decision.Decision{{Workload: "w", Status: decision.StatusDecided,
				Candidates: []decision.Candidate{{Pool: "p", Mechanism: sharing.MechanismMPS, Verdict: gate.VerdictPass, Tenants: 2}}}}},
			rep: Report{Complete: true},
		}
		f.rep.Rows = []ReportRow{{Mode: sharing.MechanismMPS, Tenants: 2, Objectives: []objective{{Metric: profile.MetricTPOTP99, LimitMS: 9, ActualMS: &over}}}}
		f.rep.Rows[0].Case, f.rep.Rows[0].Load = "s", "w"
		f.rep.end(nil, &bench{shaped: map[string]bool{"time-slicing": true, "mps": true}})
		if diff := cmp.Diff([]string{"mps", "time-slicing"}, f.rep.Invalid); diff != "" {
			t.Error(diff)
		}
		f.judge()
		if len(f.rep.Findings) != 1 || f.rep.Findings[0].Contradicts == shaped || f.rep.Findings[0].NotJudged != shaped {
			t.Errorf("%v: %+v", shaped, f.rep.Findings)
		}
		var out bytes.Buffer
		p := printer{bufio.NewWriter(&out)}
		p.findings(&f.rep)
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); strings.Contains(text, "CONTRADICTS") == shaped || strings.Contains(text, "not judged: w by mps: recommended, but a limit is missed") != shaped || strings.Contains(text, "nothing that was simulated") {
			t.Errorf("%v: %s", shaped, text)
		}
	}
}
