// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// Instance is a GPU instance of a layout.
type Instance struct {
	Profile *Profile
	Placement
	Busy bool // a client uses the instance, so that destroying it would stop work
	// Compute has the slices of each compute instance. nil means the usual single one that spans the GPU instance; an
	// empty list that is not nil means none, so that no workload can use the instance.
	Compute []int
}

// String writes the instance as ParseLayout reads it: "3g.40gb@4",
// "1g.10gb@0!busy". Compute instances are added in brackets: "3g.40gb@4[1+2]".
func (in Instance) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s@%d", in.Profile, in.Start)
	if in.Compute != nil {
		b.WriteString(strings.ReplaceAll(fmt.Sprint(in.Compute), " ", "+"))
	}
	if in.Busy {
		b.WriteString("!busy")
	}
	return b.String()
}

// Layout is a set of placed instances on one GPU, ordered by start. The zero Layout is an empty GPU of any model.
type Layout struct {
	Model     *Model
	Instances []Instance
}

// NewLayout returns a layout of instances, ordered by start. Validate checks them.
func NewLayout(m *Model, instances ...Instance) Layout {
	l := Layout{Model: m, Instances: instances}
	l.sort()
	return l
}

func (l *Layout) sort() {
	slices.SortStableFunc(l.Instances, func(a, b Instance) int { return cmp.Compare(a.Start, b.Start) })
}

// String writes the instances as ParseLayout reads them, separated by commas.
func (l Layout) String() string {
	parts := make([]string, len(l.Instances))
	for i, in := range l.Instances {
		parts[i] = in.String()
	}
	return strings.Join(parts, ",")
}

const cellWidth = 9 // the width of one placement unit of a bar, in characters

// bar draws the layout as one line of placement units: names of instances, a star on busy ones, dots for free units.
//
//	|2g.20gb          |1g.10gb* |.........|3g.40gb                            |
func (l Layout) bar() string {
	if l.Model == nil || l.Model.Units == 0 {
		return "|?|"
	}
	var b strings.Builder
	b.WriteByte('|')
	for u := 0; u < l.Model.Units; {
		i := slices.IndexFunc(l.Instances, func(in Instance) bool { return in.Start == u })
		if i < 0 {
			b.WriteString(strings.Repeat(".", cellWidth) + "|")
			u++
			continue
		}
		in := l.Instances[i]
		name := in.Profile.String()
		if in.Busy {
			name += "*"
		}
		width := in.Size*(cellWidth+1) - 1
		fmt.Fprintf(&b, "%-*.*s|", width, width, name)
		u += in.Size
	}
	return b.String()
}

// ParseLayout reads a layout: "3g.40gb@0,1g.10gb@4!busy,1g.10gb@5". An instance may list its compute instances:
// "3g.40gb@4[1+2]". The layout is checked with Validate. The error names every bad entry.
func (m *Model) ParseLayout(s string) (Layout, error) {
	l := Layout{Model: m}
	if strings.TrimSpace(s) == "" {
		return l, nil
	}
	var list problem.List
	for i, item := range strings.Split(s, ",") {
		in, err := m.parseInstance(strings.TrimSpace(item))
		list.AddErr(fmt.Sprintf("[%d]", i), err)
		l.Instances = append(l.Instances, in)
	}
	if err := invalid(list.Err()); err != nil {
		return Layout{}, err
	}
	l.sort()
	if err := l.Validate(); err != nil {
		return Layout{}, err
	}
	return l, nil
}

var (
	instanceForm = regexp.MustCompile(`^(.+)@(0|[1-9][0-9]{0,2})(\[` + slicesForm + `\])?(!busy)?$`)
	slicesForm   = `(?:[1-9][0-9]{0,2}(?:\+[1-9][0-9]{0,2})*)?`
)

func (m *Model) parseInstance(s string) (Instance, error) {
	form := instanceForm.FindStringSubmatch(s)
	if form == nil {
		return Instance{}, &problem.Problem{Message: fmt.Sprintf("%q is not a placed instance", problem.Clip(s)),
			Remedy: `write it like "3g.40gb@4" or "1g.10gb@0!busy"`}
	}
	p, err := m.Profile(form[1])
	if err != nil {
		return Instance{}, err
	}
	in := Instance{Profile: p, Placement: Placement{Start: number(form[2]), Size: p.PlacementUnits}, Busy: form[4] != ""}
	if form[3] != "" {
		in.Compute = []int{}
		for _, c := range strings.FieldsFunc(form[3], func(r rune) bool { return r == '+' || r == '[' || r == ']' }) {
			in.Compute = append(in.Compute, number(c))
		}
	}
	return in, nil
}

// instanceJSON and layoutJSON are the forms of an Instance and a Layout in JSON.
type instanceJSON struct {
	Profile string `json:"profile"`
	Placement
	Busy    bool  `json:"busy,omitempty"`
	Compute []int `json:"compute,omitzero"`
}

type layoutJSON struct {
	GPU       string         `json:"gpu"`
	Instances []instanceJSON `json:"instances"`
}

// MarshalJSON writes {"profile", "start", "size"}, and "busy" and "compute" where they are not the default.
func (in Instance) MarshalJSON() ([]byte, error) {
	return json.Marshal(instanceJSON{in.Profile.String(), in.Placement, in.Busy, in.Compute})
}

// MarshalJSON writes {"gpu": key, "instances": [...]}.
func (l Layout) MarshalJSON() ([]byte, error) {
	raw := layoutJSON{Instances: []instanceJSON{}}
	if l.Model != nil {
		raw.GPU = l.Model.Key
	}
	for _, in := range l.Instances {
		raw.Instances = append(raw.Instances, instanceJSON{in.Profile.String(), in.Placement, in.Busy, in.Compute})
	}
	return json.Marshal(raw)
}

// sameInstance reports whether two instances differ at most in being busy.
func sameInstance(a, b Instance) bool {
	return a.Profile == b.Profile && a.Placement == b.Placement && sameCompute(a, b.Compute)
}

// sameCompute compares compute instances; nil is one that spans the instance.
func sameCompute(in Instance, compute []int) bool {
	sorted := func(compute []int) []int {
		if compute == nil {
			return []int{in.Profile.ComputeSlices}
		}
		return slices.Sorted(slices.Values(compute))
	}
	return slices.Equal(sorted(in.Compute), sorted(compute))
}
