package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// asProcess makes the test binary the program itself.
const asProcess = "BENCHMARK_AS_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) != "" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// records reads a run's requests.
func records(t *testing.T, dir string) []loadgen.Record {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, loadgen.ArtifactRequests))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []loadgen.Record
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var r loadgen.Record
		if err := json.Unmarshal(scan.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// byID orders records as they arrived.
func byID(rs []loadgen.Record) []loadgen.Record {
	slices.SortFunc(rs, func(a, b loadgen.Record) int { return cmp.Compare(a.ID, b.ID) })
	return rs
}

// TestFourProcesses runs the pods of a manifest that job wrote as four local
// processes, merges them, and holds the result against one process: the same
// arrivals at the same distances, and the histograms that one process makes of
// all requests, within their rounding.
func TestFourProcesses(t *testing.T) {
	const workers, requests = 4, 41
	url := serve(t, loadgentest.Always(fast))
	flags := []string{"-endpoint", url, "-rate", "60", "-arrivals", "poisson", "-seed", "9", "-requests", strconv.Itoa(requests)}
	code, manifest, errs := execProgram(t.Context(), "", append([]string{"job", "-name", "load", "-image", "registry.example/benchmark:1", "-workers", strconv.Itoa(workers),
		"-claim", "runs", "--"}, flags...)...)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	golden.Check(t, "testdata/job.golden", []byte(strings.ReplaceAll(manifest, url, "http://llm")))
	var job struct {
		Spec struct {
			Completions int
			Template    struct {
				Spec struct {
					Containers []struct {
						Args []string
						Env  []struct{ Name, Value string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(manifest), &job); err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.Template.Spec.Containers[0]
	dir := filepath.Join(t.TempDir(), "runs")
	args := slices.Clone(pod.Args)
	args[slices.Index(args, "-out")+1] = dir
	start := func(env ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		cmd.Env = append(append(os.Environ(), asProcess+"=1"), env...)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	var env []string
	for _, e := range pod.Env {
		env = append(env, e.Name+"="+e.Value)
	}
	var processes []*exec.Cmd
	for i := range job.Spec.Completions {
		processes = append(processes, start(append(slices.Clone(env), loadgen.WorkerIndexEnv+"="+strconv.Itoa(i))...))
	}
	var all []loadgen.Record
	shares := make([][]loadgen.Record, workers)
	results := make([]*loadgen.Result, workers)
	for i, cmd := range processes {
		// A busy machine may make a run invalid by client health, which exits 3.
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != exitInvalid {
			t.Fatalf("worker %d: %v", i, err)
		}
		at := filepath.Join(dir, strconv.Itoa(i))
		var err error
		if results[i], err = loadgen.LoadResult(at); err != nil {
			t.Fatal(err)
		}
		rs := records(t, at)
		if len(rs) == 0 {
			t.Fatalf("worker %d sent nothing", i)
		}
		all = append(all, rs...)
		shares[i] = byID(rs)
	}
	merged := filepath.Join(t.TempDir(), "merged")
	if code, _, errs := execProgram(t.Context(), "", "merge", "-out", merged, dir); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	got, err := loadgen.LoadResult(merged)
	if err != nil {
		t.Fatal(err)
	}
	if got.Summary.Counts.OK != requests || got.Summary.Workers != workers || len(all) != requests {
		t.Fatalf("%d of %d ok, %d workers, %d records", got.Summary.Counts.OK, requests, got.Summary.Workers, len(all))
	}

	// One process on the same plan sends the same requests.
	dir = filepath.Join(t.TempDir(), "one")
	args[slices.Index(args, "-out")+1] = dir
	one := start()
	if err := one.Wait(); err != nil && one.ProcessState.ExitCode() != exitInvalid {
		t.Fatal(err)
	}
	alone := byID(records(t, dir))
	if len(alone) != requests {
		t.Fatalf("one process sent %d", len(alone))
	}
	for i, share := range shares {
		for k := range share {
			n := k*workers + i // of all arrivals, the worker's k-th
			got, want := share[k].IntendedNS-share[0].IntendedNS, alone[n].IntendedNS-alone[i].IntendedNS
			if got != want {
				t.Fatalf("worker %d, arrival %d: %d ns after its first, in one process %d ns", i, k, got, want)
			}
		}
	}

	// One process's histogram of what the four measured.
	for _, m := range []struct {
		metric loadgen.LatencyMetric
		of     func(*loadgen.Record) (time.Duration, bool)
	}{{loadgen.MetricTTFT, (*loadgen.Record).TTFT}, {loadgen.MetricE2E, (*loadgen.Record).E2E}, {loadgen.MetricTPOT, (*loadgen.Record).TPOT}} {
		want := loadgen.NewHistogram()
		for i := range all {
			if d, ok := m.of(&all[i]); ok {
				want.Record(d)
			}
		}
		h := got.Histograms[0].ByMetric[m.metric]
		// An answer whose events all came at one instant has no TPOT.
		all := h.Count() == requests || m.metric == loadgen.MetricTPOT && h.Count() > 0
		if h.Count() != want.Count() || !all {
			t.Errorf("%v: %d samples merged, %d in one", m.metric, h.Count(), want.Count())
		}
		for _, q := range []float64{0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1} {
			a, _ := h.Quantile(q)
			b, _ := want.Quantile(q)
			if diff := (a - b).Abs(); diff > max(b/1000, 2*time.Microsecond) {
				t.Errorf("%v P%v: %v merged, %v in one", m.metric, 100*q, a, b)
			}
		}
	}
}

func TestJobRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"image: empty":                {"job", "-name", "x", "-workers", "2"},
		"workers: 0":                  {"job", "-name", "x", "-image", "y"},
		"one run":                     {"job", "-name", "x", "-image", "y", "-workers", "2", "--", "-rate", "1,2"},
		"-out is the":                 {"job", "-name", "x", "-image", "y", "-workers", "2", "--", "-rate", "1", "-out", "z"},
		"-ratio":                      {"job", "-name", "x", "-image", "y", "-workers", "2", "--", "-ratio", "1"},
		"would stand in the manifest": {"job", "-name", "x", "-image", "y", "-workers", "2", "--", "-rate", "1", "-endpoint", "http://h", "-header", "Authorization: Bearer abcdef"},
		"is not a time":               {"job", "-name", "x", "-image", "y", "-workers", "2", "-start-at", "noon"},
	} {
		if code, _, errs := execProgram(t.Context(), "", args...); code != exitBad || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d, %q", want, code, errs)
		}
	}
}
