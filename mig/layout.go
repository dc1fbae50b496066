package mig

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// Instance is a GPU instance of a layout.
type Instance struct {
	Profile *Profile
	Placement
	// Busy says that a client uses the instance, so that destroying it would
	// stop work.
	Busy bool
	// Compute has the slices of each of its compute instances. nil is the
	// usual case of one that spans the GPU instance; an empty list that is not
	// nil is an instance without any, which no workload can use.
	Compute []int
}

// String writes the instance as ParseLayout reads it: "3g.40gb@4",
// "1g.10gb@0!busy". Compute instances are added in brackets: "3g.40gb@4[1+2]".
func (in Instance) String() string {
	var b strings.Builder
	name := "?"
	if in.Profile != nil {
		name = in.Profile.Name
	}
	fmt.Fprintf(&b, "%s@%d", name, in.Start)
	if in.Compute != nil {
		b.WriteByte('[')
		for i, c := range in.Compute {
			if i > 0 {
				b.WriteByte('+')
			}
			b.WriteString(strconv.Itoa(c))
		}
		b.WriteByte(']')
	}
	if in.Busy {
		b.WriteString("!busy")
	}
	return b.String()
}

// Layout is a set of placed instances on one GPU, ordered by start. The zero
// Layout is empty and stands for an empty GPU of any model.
type Layout struct {
	Model     *Model
	Instances []Instance
}

// NewLayout returns a layout of instances, ordered by start. It does not check
// them; Validate does.
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

// Counts returns how often each profile stands in the layout, in the
// catalogue's order. Compute instances do not count.
func (l Layout) Counts() []Count {
	var counts []Count
	if l.Model == nil {
		return nil
	}
	for _, p := range l.Model.Profiles {
		n := 0
		for _, in := range l.Instances {
			if in.Profile == p {
				n++
			}
		}
		if n > 0 {
			counts = append(counts, Count{Profile: p.Name, N: n})
		}
	}
	return counts
}

// ParseLayout reads a layout: "3g.40gb@0,1g.10gb@4!busy,1g.10gb@5". An
// instance may list its compute instances: "3g.40gb@4[1+2]". The layout is
// checked with Validate. The error names every bad place.
func (m *Model) ParseLayout(s string) (Layout, error) {
	l := Layout{Model: m}
	if strings.TrimSpace(s) == "" {
		return l, nil
	}
	var list problems
	for i, item := range strings.Split(s, ",") {
		path := fmt.Sprintf("[%d]", i)
		in, err := m.parseInstance(strings.TrimSpace(item))
		if err != nil {
			list.add(path, err)
			continue
		}
		l.Instances = append(l.Instances, in)
	}
	if err := list.err(); err != nil {
		return Layout{}, err
	}
	l.sort()
	if err := l.Validate(); err != nil {
		return Layout{}, err
	}
	return l, nil
}

func (m *Model) parseInstance(s string) (Instance, error) {
	var in Instance
	bad := func() (Instance, error) {
		return Instance{}, &problem.Problem{Message: fmt.Sprintf("%q is not a placed instance", problem.Clip(s)), Remedy: `write it like "3g.40gb@4" or "1g.10gb@0!busy"`}
	}
	s, in.Busy = strings.CutSuffix(s, "!busy")
	name, at, ok := strings.Cut(s, "@")
	if !ok {
		return bad()
	}
	if i := strings.IndexByte(at, '['); i >= 0 {
		list, ok := strings.CutSuffix(at[i+1:], "]")
		if !ok {
			return bad()
		}
		in.Compute = []int{}
		for c := range strings.SplitSeq(list, "+") {
			if list == "" {
				break
			}
			n, ok := number(c, "")
			if !ok || n == 0 {
				return bad()
			}
			in.Compute = append(in.Compute, n)
		}
		at = at[:i]
	}
	start, ok := number(at, "")
	if !ok {
		return bad()
	}
	p, err := m.Profile(name)
	if err != nil {
		return Instance{}, err
	}
	in.Profile = p
	in.Placement = Placement{Start: start, Size: p.PlacementUnits}
	return in, nil
}

// MarshalJSON writes {"gpu": key, "instances": [{"profile", "start", "size"}]},
// with "busy" and "compute" where they say something. Reading a layout back
// takes its model: see Model.ParseLayout and Checkpoint.
func (l Layout) MarshalJSON() ([]byte, error) {
	type instance struct {
		Profile string `json:"profile"`
		Placement
		Busy    bool  `json:"busy,omitempty"`
		Compute []int `json:"compute,omitzero"`
	}
	out := struct {
		GPU       string     `json:"gpu"`
		Instances []instance `json:"instances"`
	}{Instances: []instance{}}
	if l.Model != nil {
		out.GPU = l.Model.Key
	}
	for _, in := range l.Instances {
		out.Instances = append(out.Instances, instance{in.Profile.Name, in.Placement, in.Busy, in.Compute})
	}
	return json.Marshal(out)
}
