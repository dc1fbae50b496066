package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/timeslice"
)

// duration reads "1.8ms".
type duration time.Duration

func (d *duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 1.8ms", clip(string(b)))
	}
	*d = duration(v)
	return nil
}

type document struct {
	Tenants []tenant `yaml:"tenants,required"`
}

type tenant struct {
	Name          string   `yaml:"name,required"`
	Step          duration `yaml:"step,required"`
	StepCV        float64  `yaml:"step_cv"`
	Think         duration `yaml:"think"`
	ThinkCV       float64  `yaml:"think_cv"`
	Steps         int      `yaml:"steps"`
	Pause         duration `yaml:"pause"`
	PauseCV       float64  `yaml:"pause_cv"`
	RatePerSecond float64  `yaml:"rate_per_second"`
}

// readTenants reads the file at path, or stdin for "-"; without a path it
// returns the built-in tenants.
func readTenants(path string, stdin io.Reader) ([]timeslice.Tenant, error) {
	if path == "" {
		return builtIn, nil
	}
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // only read from
		stdin = f
	}
	data, err := strictyaml.Read(stdin, strictyaml.Options{MaxBytes: 1 << 20})
	if err != nil {
		return nil, err
	}
	var doc document
	if err := strictyaml.Decode(data, &doc, strictyaml.Options{}); err != nil {
		return nil, err
	}
	var l problem.List
	if n := len(doc.Tenants); n == 0 || n > maxTenants {
		l.Addf("tenants", "", "must be 1 to %d, are %d", maxTenants, n)
	}
	seen := map[string]bool{}
	out := make([]timeslice.Tenant, len(doc.Tenants))
	for i, t := range doc.Tenants {
		if seen[t.Name] {
			l.Addf(fmt.Sprintf("tenants[%d].name", i), "give each tenant a name of its own", "%q is there twice", clip(t.Name))
		}
		if n := len([]rune(t.Name)); n == 0 || n > 40 {
			l.Addf(fmt.Sprintf("tenants[%d].name", i), "", "must have 1 to 40 characters, has %d", n)
		}
		seen[t.Name] = true
		out[i] = timeslice.Tenant{Name: t.Name, Steps: t.Steps, RatePerSecond: t.RatePerSecond,
			Step:  timeslice.Dist{Mean: time.Duration(t.Step), CV: t.StepCV},
			Think: timeslice.Dist{Mean: time.Duration(t.Think), CV: t.ThinkCV},
			Pause: timeslice.Dist{Mean: time.Duration(t.Pause), CV: t.PauseCV}}
	}
	return out, l.Err()
}

// maxTenants bounds the tenants of a document: the closed loop's exact form,
// and what a table can show.
const maxTenants = 16

// builtIn are two chat models that decode at 1 and 4 clients, a classifier
// that is asked 20 times a second, and a training job that never pauses.
var builtIn = []timeslice.Tenant{
	{Name: "chat-1b", Step: timeslice.Constant(1700 * time.Microsecond), Think: timeslice.Constant(100 * time.Microsecond), Steps: 64, Pause: timeslice.Exponential(8 * time.Millisecond)},
	{Name: "chat-8b", Step: timeslice.Constant(6500 * time.Microsecond), Think: timeslice.Constant(350 * time.Microsecond), Steps: 64, Pause: timeslice.Exponential(15 * time.Millisecond)},
	{Name: "classifier", Step: timeslice.Dist{Mean: 900 * time.Microsecond, CV: 0.2}, Think: timeslice.Constant(50 * time.Microsecond), Steps: 4, RatePerSecond: 20},
	{Name: "training", Step: timeslice.Constant(120 * time.Millisecond)},
}

func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}
