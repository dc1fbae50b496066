// SPDX-License-Identifier: Apache-2.0

package mig_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mig"
)

func FuzzParseLayout(f *testing.F) {
	m := lookup(f, "A100 80GB")
	for _, s := range []string{"3g.40gb@4", "1g.10gb@0!busy, 2g.20gb@2[1+1]", "3g.40gb@4[]", "@", "7g.80gb@0,1g.10gb@0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := m.ParseLayout(s)
		if err != nil {
			if len(l.Instances) > 0 {
				t.Errorf("%v with %v", l, err)
			}
			return
		}
		back, err := m.ParseLayout(l.String())
		if err != nil || back.String() != l.String() {
			t.Errorf("%q -> %s -> %s, %v", s, l, back, err)
		}
		if data, err := json.Marshal(l); err != nil || strings.Count(string(data), `"profile"`) != len(l.Instances) {
			t.Errorf("%s, %v", data, err)
		}
	})
}

func FuzzParseDeviceFilter(f *testing.F) {
	for _, s := range []string{"0x233510DE", "0x2bb310de:0x204D10DE", "0x", "0x233510DE:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		filter, err := mig.ParseDeviceFilter(s)
		if err != nil {
			if filter != (mig.DeviceFilter{}) {
				t.Errorf("%v with %v", filter, err)
			}
			return
		}
		if back, err := mig.ParseDeviceFilter(filter.String()); err != nil || back != filter {
			t.Errorf("%q -> %s -> %v, %v", s, filter, back, err)
		}
	})
}

func FuzzParseCounts(f *testing.F) {
	for _, s := range []string{"1g.10gb=2,3g.40gb", "1g.10gb=-1", "=", "1g.10gb=99999999999999999999", "1g.10gb=007"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		counts, err := mig.ParseCounts(s)
		if err != nil && counts != nil {
			t.Errorf("%v with %v", counts, err)
		}
		for _, c := range counts {
			back, err := mig.ParseCounts(c.String())
			if err != nil || !cmp.Equal(back, []mig.Count{c}) {
				t.Errorf("%v -> %v, %v", c, back, err)
			}
		}
	})
}

func TestInvalidLayouts(t *testing.T) {
	m := lookup(t, "A100 80GB")
	for s, want := range map[string]string{
		"3g.40gb@1": "can't start at 1:4", "1g.10gb@0,1g.10gb@0": "overlaps", "1g.10gb+me@0,1g.10gb+me@1": "holds at most 1",
		"3g.40gb": "not a placed instance", "1g.5gb@0": "has no profile", "2g.20gb@0[2+1]": "don't fit", "1g.10gb@x": "not a placed instance",
		"3g.40gb@4[1": "not a placed instance", "9g.99gb@0,3g.40gb@1!idle": "[1]",
	} {
		l, err := m.ParseLayout(s)
		if !errors.Is(err, mig.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %q", s, l, err, want)
		}
	}
	// They can be printed all the same.
	for _, p := range []*mig.Profile{nil, {Name: "own"}} {
		l := mig.NewLayout(m, mig.Instance{Profile: p, Placement: mig.Placement{Size: 1}})
		data, err := json.Marshal(l)
		if !strings.Contains(l.Bar(), p.String()) || !strings.Contains(string(data), p.String()) || l.Validate() == nil {
			t.Errorf("%s, %s, %v, %v", l.Bar(), data, err, l.Validate())
		}
	}
}

func TestDraw(t *testing.T) {
	a100, rtx := lookup(t, "A100 80GB"), lookup(t, "rtx-pro-6000-blackwell-server")
	layouts := []mig.Layout{parse(t, a100, "2g.20gb@0,1g.10gb@2!busy,3g.40gb@4"), parse(t, rtx, "2g.48gb@0,1g.24gb+me@6"), {Model: a100}, {}}
	var b strings.Builder
	for _, l := range layouts {
		b.WriteString(l.Bar() + "\n")
	}
	golden.Check(t, "testdata/bars.txt", []byte(b.String()))
}

func TestFits(t *testing.T) {
	m := lookup(t, "A100 80GB")
	for layout, want := range map[string]string{
		"":                    "[1g.10gb=7 1g.10gb+me=1 1g.20gb=4 2g.20gb=3 3g.40gb=2 4g.40gb=1 7g.80gb=1]",
		"3g.40gb@0,3g.40gb@4": "[]",
		"3g.40gb@4":           "[1g.10gb=4 1g.10gb+me=1 1g.20gb=2 2g.20gb=2 3g.40gb=1 4g.40gb=1]",
		"3g.40gb@0":           "[1g.10gb=3 1g.10gb+me=1 1g.20gb=2 2g.20gb=1 3g.40gb=1]",
		"1g.10gb@0,1g.10gb@6": "[1g.10gb=5 1g.10gb+me=1 1g.20gb=2 2g.20gb=2]",
	} {
		var fits []mig.Count
		for _, p := range m.Profiles {
			n := must.Get(parse(t, m, layout).Fits(p))(t)
			if n > 0 {
				fits = append(fits, mig.Count{Profile: p.Name, N: n})
			}
		}
		if got := fmt.Sprint(fits); got != want {
			t.Errorf("%q: fits %s, want %s", layout, got, want)
		}
	}
}

// TestLayoutJSON: a layout is written with all that its text has.
func TestLayoutJSON(t *testing.T) {
	data, err := json.Marshal(parse(t, lookup(t, "H200"), "3g.71gb@4[2+1]!busy,1g.18gb@3[]"))
	want := `{"gpu":"h200-141gb-sxm","instances":[{"profile":"1g.18gb","start":3,"size":1,"compute":[]},` +
		`{"profile":"3g.71gb","start":4,"size":4,"busy":true,"compute":[2,1]}]}`
	if err != nil || string(data) != want {
		t.Errorf("%s, %v, want %s", data, err, want)
	}
}
