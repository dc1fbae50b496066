// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/sharing"
)

// Capability is a row of the table of GPUs.
type Capability struct {
	GPU          string               `json:"gpu"`
	Architecture sharing.Architecture `json:"architecture"`
	Compute      string               `json:"compute_capability,omitempty"`
	Memory       string               `json:"memory,omitempty"`
	MIGMinDriver string               `json:"mig_min_driver,omitempty"`
	MPSClients   int                  `json:"mps_clients"` // under the given driver, or the smallest of any
	Mechanisms   map[string]Finding   `json:"mechanisms"`
}

// Finding answers whether a GPU runs a mechanism.
type Finding struct {
	Answer sharing.Answer   `json:"answer"`
	Text   string           `json:"text"`
	Source sharing.SourceID `json:"source"`
}

// shownMechanisms are those that differ between GPUs.
var shownMechanisms = []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG,
	sharing.MechanismMIGWithMPS, sharing.MechanismHAMi, sharing.MechanismVGPU}

// Capabilities lists the capabilities of the GPUs with names that contain name; all if it is empty.
func Capabilities(name string) (rows []Capability) {
	for _, g := range sharing.GPUs() {
		if !strings.Contains(sharing.FoldGPUName(g.Name), sharing.FoldGPUName(name)) {
			continue
		}
		clients, _ := sharing.MPSClientLimit(&g, sharing.Driver{})
		row := Capability{GPU: g.Name, Architecture: g.Architecture, MPSClients: clients.Value,
			Mechanisms: map[string]Finding{}}
		if v, ok := g.ComputeCapability.Get(); ok {
			row.Compute = v.String()
		}
		if v, ok := g.Memory.Get(); ok {
			row.Memory = v.String()
		}
		if v, ok := g.MIGMinDriver.Get(); ok {
			row.MIGMinDriver = v.String()
		}
		for _, m := range sharing.Mechanisms() {
			if f := sharing.Available(m, sharing.Environment{GPU: &g}); m != sharing.MechanismNone {
				row.Mechanisms[m.String()] = Finding{f.Answer, f.Text, f.Source}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// GPUs returns the table of capabilities.
func GPUs(rows []Capability) webpage.Table {
	t := webpage.Table{Head: []string{"GPU", "architecture", "compute", "memory"}}
	for _, m := range shownMechanisms {
		t.Head = append(t.Head, m.String())
	}
	for _, r := range rows {
		cells := []any{r.GPU, r.Architecture, cmp.Or(r.Compute, "-"), cmp.Or(r.Memory, "-")}
		for _, m := range shownMechanisms {
			c := r.Mechanisms[m.String()]
			text := c.Answer.String()
			switch {
			case c.Answer != sharing.AnswerYes:
			case m == sharing.MechanismMIG && r.MIGMinDriver != "":
				text += ", driver " + r.MIGMinDriver
			case m == sharing.MechanismMPS:
				text += fmt.Sprintf(", %d clients", r.MPSClients)
			}
			cells = append(cells, text)
		}
		t.Add(cells...)
	}
	return t
}

// Statement describes the isolation of a mechanism on one axis.
type Statement struct {
	Mechanism  sharing.Mechanism `json:"mechanism"`
	Axis       sharing.Axis      `json:"axis"`
	Level      sharing.Level     `json:"level"`
	Text       string            `json:"text"`
	Conditions string            `json:"conditions,omitempty"`
	Basis      sharing.Basis     `json:"basis"`
	Source     sharing.SourceID  `json:"source"`
}

// Statements lists the isolation of all mechanisms, on the GPU of env or, without one, by default.
func Statements(env sharing.Environment) (rows []Statement) {
	for _, m := range sharing.Mechanisms() {
		for a := range sharing.Axis(sharing.AxisCount) {
			p := sharing.Isolation(m, a)
			if env.GPU != nil {
				p = sharing.IsolationIn(m, a, env)
			}
			if m != sharing.MechanismNone {
				rows = append(rows, Statement{m, a, p.Level, p.Text, conditions(p.When), p.Basis, p.Source})
			}
		}
	}
	return rows
}

// conditions writes a condition as text.
func conditions(c sharing.Condition) string {
	var all []string
	add := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(c.MinArchitecture != sharing.ArchitectureUnknown, "%v or newer", c.MinArchitecture)
	add(c.MaxArchitecture != sharing.ArchitectureUnknown, "%v or older", c.MaxArchitecture)
	add(!c.MinDriver.IsZero(), "driver %v or newer", c.MinDriver)
	add(c.Mode != "", "mode %v", c.Mode)
	add(c.Note != "", "%s", c.Note)
	return strings.Join(all, "; ")
}

// Isolation returns the matrix of mechanisms and axes.
func Isolation(rows []Statement) webpage.Table {
	t := webpage.Table{Head: []string{"mechanism"}}
	for a := range sharing.Axis(sharing.AxisCount) {
		t.Head = append(t.Head, a.String())
	}
	for i := 0; i < len(rows); i += sharing.AxisCount {
		cells := []any{rows[i].Mechanism}
		for _, s := range rows[i : i+sharing.AxisCount] {
			cells = append(cells, s.Level)
		}
		t.Add(cells...)
	}
	return t
}

//go:embed cost.js
var costScript string

// Cost returns the calculator of cost.SharedFleet as a page, with the isolation of mechanisms and the capabilities of
// GPUs. cost.js does the arithmetic of cost.SharedFleet.Figures; a browser test compares the two.
func Cost() (*webpage.Page, error) {
	type mechanism struct {
		Low, High *int64 // ppm of overhead
		Most      *int   // workloads on a GPU
		Source    string
	}
	all, names := map[string]mechanism{}, []string{}
	for _, m := range sharing.Mechanisms() {
		info := sharing.InfoFor(m)
		if m == sharing.MechanismNone || m == sharing.MechanismExclusive {
			continue
		}
		one := mechanism{Source: string(info.Overhead.Source) + ": " + info.Overhead.Text}
		if low, high, ok := cost.OverheadRange(info.Overhead); ok {
			from, to := int64(low), int64(high)
			one.Low, one.High = &from, &to
		}
		if most, ok := info.MaxTenants.Get(); ok {
			one.Most = &most
		}
		all[m.String()], names = one, append(names, m.String())
	}
	table, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	price, err := cost.ParseMoney("3.50 USD")
	if err != nil {
		return nil, err
	}
	f, err := cost.SharedFleet{GPUs: 10, PricePerGPUHour: price, Tenants: 4, Utilisation: 0.25}.Figures()
	if err != nil {
		return nil, err
	}
	gpus, isolation := GPUs(Capabilities("")), Isolation(Statements(sharing.Environment{}))
	isolation.Caption = "Conditions and sources: cotenant isolation; of one GPU: cotenant isolation -gpu G"
	return &webpage.Page{Title: "What does sharing a GPU save?",
		Answer: fmt.Sprintf("Four workloads on each of 10 GPUs cost %s an hour each in place of %s, before overhead, and "+
			"recover %.0f GPU-hours a day. Change the inputs.", f.PerWorkloadHour, price, f.CapacityHours),
		Calculator: &webpage.Calculator{Script: template.JS("const mechanisms = " + string(table) + ";\n" + costScript),
			Inputs: []webpage.Input{{Name: "gpus", Label: "GPUs", Value: "10"},
				{Name: "price", Label: "USD for a GPU-hour", Value: "3.50"},
				{Name: "tenants", Label: "workloads on each GPU", Value: "4"},
				{Name: "use", Label: "% of a GPU that one keeps busy", Value: "25"},
				{Name: "mechanism", Label: "mechanism", Value: "time-slicing", Options: names},
				{Name: "overhead", Label: "% overhead, if you measured it", Value: ""}},
			Outputs: []webpage.Output{{ID: "each", Label: "a workload-hour (USD)"},
				{ID: "saving", Label: "saved of each workload"}, {ID: "capacity", Label: "GPU-hours a day that need not be bought"},
				{ID: "work", Label: "GPU-hours a day of work more"}, {ID: "source", Label: "overhead from"},
				{ID: "verdict", Label: "verdict"}}},
		Sections: []webpage.Section{{Title: "What each mechanism isolates", Tables: []webpage.Table{isolation}},
			{Title: "What each GPU can do", Folded: true, Tables: []webpage.Table{gpus}}}}, nil
}
