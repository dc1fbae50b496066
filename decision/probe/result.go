// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// Names of measurements, which are parameters of predict.Predictor with the same meaning.
const (
	quantumKey   = "quantum"        // ms
	switchKey    = "switch"         // ms
	sliceLoss    = "slice_loss"     // ms, of work that reads memory
	loneStepCost = "lone_step_cost" // ms, of a step of 256 kernels
)

// Measurement is a measured quantity.
type Measurement struct {
	// Name is the name of a predictor's parameter, or the probe's own name, as in its report.
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Low and High enclose 80% of the single observations.
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Points int     `json:"points"`
	What   string  `json:"what"`
}

// NotMeasured is a quantity that could not be measured, with the reason.
type NotMeasured struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Result holds the measurements of a probe.
type Result struct {
	Info        Info
	Basis       sharing.Basis
	Measured    []Measurement
	NotMeasured []NotMeasured
	Warnings    []string // caveats on the figures
	Took        time.Duration
}

// Get returns a measurement by its name.
func (r *Result) Get(name string) (Measurement, bool) {
	for _, m := range r.Measured {
		if m.Name == name {
			return m, true
		}
	}
	return Measurement{}, false
}

// Predictor returns p for the probed GPU: quantum and switch as measured, the rest transferred by predict.Predictor.On.
// A quantity that is measured in another way than its parameter is defined, such as the cost of MPS to a step of the
// probe's kernels, becomes the parameter's Independent value. The error names implausible values, which are left out.
func (r *Result) Predictor(p predict.Predictor) (predict.Predictor, error) {
	p = p.On(strings.TrimPrefix(r.Info.GPU, "NVIDIA "), r.Info.Driver)
	parameters := map[string]*predict.Parameter{quantumKey: &p.Parameters.Quantum, switchKey: &p.Parameters.Switch,
		sliceLoss: &p.Parameters.SliceLoss, loneStepCost: &p.Parameters.LoneStepCost}
	var bad []string
	for _, m := range r.Measured {
		q := parameters[m.Name]
		if q == nil {
			continue
		}
		q.Independent = sharing.Some(m.Value)
		switch {
		case m.Name != quantumKey && m.Name != switchKey:
		case m.Value < q.Low || m.Value > q.High:
			bad = append(bad, fmt.Sprintf("%s is %.4g %s, outside the plausible %v to %v", m.Name, m.Value, m.Unit, q.Low,
				q.High))
		default:
			q.Value, q.Basis, q.Source = m.Value, r.Basis, "probe: "+m.What
		}
	}
	if bad != nil {
		return p, fmt.Errorf("probe: not taken into the predictor: %s", strings.Join(bad, "; "))
	}
	return p, nil
}

// Report presents a result with the predictor made from it. Parameters have the names of the predictor's JSON.
type Report struct {
	GPU         string             `json:"gpu"`
	Driver      string             `json:"driver"`
	Simulated   bool               `json:"simulated"`
	Parameters  predict.Parameters `json:"parameters"`
	Measured    []Measurement      `json:"measured"`
	NotMeasured []NotMeasured      `json:"not_measured"`
	Warnings    []string           `json:"warnings"`
	Seconds     float64            `json:"seconds"`
}

// Report returns the report of the result with predictor p and further notes.
func (r *Result) Report(p *predict.Predictor, notes ...string) *Report {
	return &Report{
		GPU: p.GPU, Driver: p.Driver, Simulated: r.Basis == sharing.BasisSimulated, Parameters: p.Parameters,
		Measured:    append([]Measurement{}, r.Measured...), // an empty list is [], not null
		NotMeasured: append([]NotMeasured{}, r.NotMeasured...),
		Warnings:    append(append([]string{}, notes...), r.Warnings...),
		Seconds:     r.Took.Seconds(),
	}
}

// String writes the report as text tables. Lines may be long.
func (o *Report) String() string {
	var b strings.Builder
	title := o.GPU
	if o.Driver != "" {
		title += ", driver " + o.Driver
	}
	if o.Simulated {
		title += ": SIMULATED, nothing was measured on a GPU"
	}
	fmt.Fprintf(&b, "%s (%.0f s)\n\n", title, o.Seconds)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tvalue\t80% lie within")
	for _, m := range o.Measured {
		fmt.Fprintf(t, "%s\t%.4g %s\t%.4g to %.4g\n", m.Name, m.Value, m.Unit, m.Low, m.High)
	}
	_ = t.Flush() // a Builder takes everything
	why := ""
	for i, n := range o.NotMeasured {
		if i == 0 {
			fmt.Fprintln(&b, "\nNot measured")
		}
		if n.Why != why {
			fmt.Fprintf(&b, "  %s:\n", n.Why)
			why = n.Why
		}
		fmt.Fprintf(&b, "    %s\n", n.Name)
	}
	for _, s := range o.Warnings {
		fmt.Fprintf(&b, "\nNote: %s.\n", s)
	}
	return b.String()
}
