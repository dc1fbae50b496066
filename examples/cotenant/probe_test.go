// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

func probeRun(ctx context.Context, site probe.Site, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	defer func(was func(context.Context, int, string, string) (probe.Site, func() ([]string, error), []string, error)) {
		probeOpen = was
	}(probeOpen)
	probeOpen = func(context.Context, int, string, string) (probe.Site, func() ([]string, error), []string, error) {
		if site == nil {
			return nil, nil, nil, errors.New("no driver")
		}
		return site, func() ([]string, error) { return []string{"another note"}, nil }, []string{"a note"}, nil
	}
	code = run(ctx, append([]string{"probe"}, args...), stdio{out: &out, err: &errs})
	return code, out.String(), errs.String()
}

func TestProbeSimulated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "predictor.json")
	code, out, errs := probeRun(t.Context(), nil, "-out", file)
	if code != exitDone || !strings.Contains(errs, "time slices of 2 and 4 processes") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	title, _, _ := strings.Cut(out, "\n")
	if !strings.Contains(title, "SIMULATED") {
		t.Errorf("the title is %q", title)
	}
	for _, line := range strings.Split(out, "\n") {
		if len(line) > 100 && !strings.Contains(line, file) {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	p, err := predict.LoadPredictor(file)
	if err != nil || p.Parameters.Quantum.Basis != sharing.BasisSimulated || p.GPU != "simulated GPU" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestProbeJSON(t *testing.T) {
	code, out, errs := probeRun(t.Context(), nil, "-json")
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var o struct {
		GPU        string
		Driver     *string
		Simulated  bool
		Parameters map[string]struct {
			Value, Low, High float64
			Unit, Basis      string
		}
		NotMeasured []probe.NotMeasured `json:"not_measured"`
	}
	if err := json.Unmarshal([]byte(out), &o); err != nil {
		t.Fatal(err)
	}
	base := predict.NewPredictor()
	for name := range base.Parameters.Named() {
		got, ok := o.Parameters[name]
		if !ok || got.Unit == "" || got.Basis == "" || !(got.Low <= got.Value && got.Value <= got.High) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if !o.Simulated || o.GPU != "simulated GPU" || o.Driver == nil || o.NotMeasured == nil || o.Parameters["quantum"].Basis != "simulated" {
		t.Errorf("%+v", o)
	}
}

func TestProbeReal(t *testing.T) {
	site := &pretended{Site: probe.Simulated(timeslice.Scheduler{})}
	code, out, errs := probeRun(t.Context(), site, "-real", "-json")
	if code != exitDone || !strings.Contains(out, `"simulated": false`) || !strings.Contains(out, `"basis": "measured"`) || !strings.Contains(out, "a note") || !strings.Contains(out, "another note") || !strings.Contains(out, `"driver": "550.1"`) {
		t.Errorf("exit %d: %s%s", code, errs, out)
	}
	site.why = errors.New("MPS: " + strings.Repeat("a long reason with a path in it, ", 9))
	_, out, _ = probeRun(t.Context(), site, "-real")
	for line := range strings.Lines(out) {
		if len(line) > 101 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if strings.Count(out, "a long reason") < 9 {
		t.Error(out)
	}
	site = &pretended{Site: probe.Simulated(timeslice.Scheduler{})}
	if code, _, errs = probeRun(t.Context(), nil, "-real"); code != exitCannot || !strings.Contains(errs, "this build is") {
		t.Errorf("without a GPU: exit %d: %s", code, errs)
	}
	file := filepath.Join(t.TempDir(), "p.json")
	site.why = probe.ErrStranger
	if code, _, errs = probeRun(t.Context(), site, "-real", "-out", file); code != exitInvalid || !strings.Contains(errs, "another process ran") {
		t.Errorf("beside a stranger: exit %d: %s", code, errs)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a predictor was written although nothing was measured")
	}
}

// pretended is a simulated GPU that claims to be a real one.
type pretended struct {
	probe.Site
	why error // there is no MPS, or a stranger
}

func (p *pretended) Run(ctx context.Context, m sharing.Mechanism, tasks ...probe.Task) ([]probe.Reading, error) {
	if m == sharing.MechanismMPS && p.why != nil || errors.Is(p.why, probe.ErrStranger) {
		return nil, p.why
	}
	return p.Site.Run(ctx, m, tasks...)
}

func (*pretended) Basis() sharing.Basis { return sharing.BasisMeasured }
func (p *pretended) Info(ctx context.Context) (probe.Info, error) {
	i, err := p.Site.Info(ctx)
	i.GPU, i.Driver = "NVIDIA L4", "550.1"
	return i, err
}

// TestProbeInterrupted: Ctrl-C keeps the measurements.
func TestProbeInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	file := filepath.Join(t.TempDir(), "p.json")
	code, out, errs := probeRun(ctx, &interrupts{pretended: pretended{Site: probe.Simulated(timeslice.Scheduler{})}, cancel: cancel}, "-real", "-out", file)
	if code != exitInterrupted || !strings.Contains(errs, "interrupted") || !strings.Contains(out, "quantum") || !strings.Contains(out, "the probe ended before") {
		t.Errorf("exit %d: %s%s", code, errs, out)
	}
	if p, err := predict.LoadPredictor(file); err != nil || p.Parameters.Quantum.Basis != sharing.BasisMeasured {
		t.Errorf("%+v, %v", p, err)
	}
}

// interrupts is a GPU that presses Ctrl-C at the first run under MPS.
type interrupts struct {
	pretended
	cancel context.CancelCauseFunc
}

func (p *interrupts) Run(ctx context.Context, m sharing.Mechanism, tasks ...probe.Task) ([]probe.Reading, error) {
	if m == sharing.MechanismMPS {
		p.cancel(errors.New("interrupt"))
	}
	return p.pretended.Run(ctx, m, tasks...)
}

func TestProbeBadInput(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.json")
	if err := os.WriteFile(bad, []byte(`{"version":0}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"-device", "1", "-nvml", "x"}, []string{"-device", "-nvml", "add -real"}},
		{[]string{"-real", "-device", "-1"}, []string{"must be an index"}},
		{[]string{"-out", dir}, []string{"-out", "is a folder"}},
		{[]string{"-out", filepath.Join(dir, "no", "x.json")}, []string{"-out", "there is no folder"}},
		{[]string{"-out", "/proc/p.json"}, []string{"-out: nothing can be written to /proc"}},
		{[]string{"-predictor", bad}, []string{"bad.json", "gpu_name"}},
		{[]string{"-predictor", filepath.Join(dir, "none.json")}, []string{"none.json"}},
		{[]string{"x"}, []string{"unexpected"}},
		{[]string{"-x"}, []string{"see -h"}},
	} {
		code, out, errs := probeRun(t.Context(), nil, c.args...)
		if code != exitBadInput || out != "" {
			t.Errorf("%v: exit %d, %q", c.args, code, out)
		}
		for _, w := range c.want {
			if !strings.Contains(errs, w) {
				t.Errorf("%v: %q does not say %q", c.args, errs, w)
			}
		}
	}
}

// TestProbeLostFile: measurements are printed though their file could not be written, without a claim that it was.
func TestProbeLostFile(t *testing.T) {
	code, out, errs := probeRun(t.Context(), nil, "-out", "/dev/full")
	if code != exitCannot || !strings.Contains(errs, "/dev/full: no space left") || !strings.Contains(out, "quantum") || strings.Contains(out, "Written") {
		t.Errorf("exit %d: %s%s", code, errs, out)
	}
}
