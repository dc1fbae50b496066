// SPDX-License-Identifier: Apache-2.0

//go:build gpu && linux && cgo

package cudaprobe_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/decision/probe/cudaprobe"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// TestGPUProbe probes the first GPU. QUANTUM names another program that measures turns and prints the medians of its
// times off and on the GPU as "off_us ... p50=2396.3 ... on_us ... p50=2090.7": quantum and switch have to agree with
// it.
func TestGPUProbe(t *testing.T) {
	site := must.Get(cudaprobe.Open(t.Context(), cudaprobe.Options{}))(t)
	began := time.Now()
	r, err := probe.Run(t.Context(), site, probe.Options{Progress: func(what string, done float64) {
		t.Logf("%5.1f s, %3.0f%%: %s", time.Since(began).Seconds(), 100*done, what)
	}})
	must.Do(t, site.Close())
	if err != nil {
		t.Fatal(err)
	}
	data := must.Get(json.MarshalIndent(r, "", " "))(t)
	if out := os.Getenv("OUT"); out != "" {
		must.Do(t, os.WriteFile(filepath.Join(out, "probe.json"), data, 0o644))
	}
	for _, m := range r.Measured {
		t.Logf("%-30s %10.4g %-6s %.4g to %.4g (%d)", m.Name, m.Value, m.Unit, m.Low, m.High, m.Points)
	}
	for _, n := range r.NotMeasured {
		t.Errorf("%s was not measured: %s", n.Name, n.Why)
	}
	if r.Took > time.Minute {
		t.Errorf("it took %v", r.Took)
	}
	p, err := r.Predictor(predict.NewPredictor())
	if err != nil {
		t.Error(err)
	}
	must.Do(t, p.Validate())
	if program := os.Getenv("QUANTUM"); program != "" {
		compare(t, r, program)
	}
}

// TestGPURecord records what package probe's tests analyse, where RECORD names a folder.
func TestGPURecord(t *testing.T) {
	folder := os.Getenv("RECORD")
	if folder == "" {
		t.Skip("RECORD names no folder")
	}
	site := must.Get(cudaprobe.Open(t.Context(), cudaprobe.Options{}))(t)
	defer func() { must.Do(t, site.Close()) }()
	spin := probe.Task{Kind: probe.KindSpin, For: 600 * time.Millisecond}
	for name, tasks := range map[string][]probe.Task{
		"2": {spin, spin}, "4": {spin, spin, spin, spin},
	} {
		readings := must.Get(site.Run(t.Context(), sharing.MechanismTimeSlicing, tasks...))(t)
		data, err := json.Marshal(readings)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name+".json"), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestGPUNextToSpinner: another process's spinning thread takes turns with the
// neighbour, and has the GPU to itself again afterwards.
func TestGPUNextToSpinner(t *testing.T) {
	var sites [2]*cudaprobe.Site
	for i := range sites {
		sites[i] = must.Get(cudaprobe.Open(t.Context(), cudaprobe.Options{}))(t)
		defer func() { must.Do(t, sites[i].Close()) }()
	}
	off := func() time.Duration {
		readings := must.Get(sites[1].Run(t.Context(), sharing.MechanismTimeSlicing, probe.Task{Kind: probe.KindSpin, For: 3 * time.Second}))(t)
		var sum time.Duration
		for _, gap := range readings[0].Off {
			sum += gap.To - gap.From
		}
		return sum
	}
	var coLocated time.Duration
	must.Do(t, sites[0].NextToSpinner(t.Context(), func(context.Context) error {
		coLocated = off()
		return nil
	}))
	if after := off(); coLocated < 1400*time.Millisecond || after > 10*time.Millisecond {
		t.Errorf("off the GPU for %v of 3 s next to the neighbour, and for %v after it", coLocated, after)
	}
}

// compare holds quantum and switch against the other program's.
func compare(t *testing.T, r *probe.Result, program string) {
	run := timeslice.ProbeRun{On: make([]time.Duration, 2), Off: make([]time.Duration, 2)}
	medians := regexp.MustCompile(`off_us .*?p50=(\S+).* on_us .*?p50=(\S+)`)
	var wg sync.WaitGroup
	for i := range run.On {
		wg.Go(func() {
			out, err := exec.CommandContext(t.Context(), program, "2", "a").Output()
			if err != nil {
				t.Error(err)
				return
			}
			m := medians.FindSubmatch(out)
			if m == nil {
				t.Errorf("%q", out)
				return
			}
			for k, to := range []*time.Duration{&run.Off[i], &run.On[i]} {
				us, err := strconv.ParseFloat(string(m[k+1]), 64)
				if err != nil {
					t.Error(err)
				}
				*to = time.Duration(us * float64(time.Microsecond))
			}
		})
	}
	wg.Wait()
	c := must.Get(timeslice.CalibrateProbe(run))(t)
	for name, want := range map[string]time.Duration{"quantum": c.Scheduler.Quantum, "switch": c.Scheduler.Switch} {
		got, _ := r.Get(name)
		ms := float64(want) / 1e6
		t.Logf("%s: %.4f ms, %.4f by the other program", name, got.Value, ms)
		if math.Abs(got.Value/ms-1) > 0.02 {
			t.Errorf("%s is %.4f ms, %.4f by the other program", name, got.Value, ms)
		}
	}
}
