// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// TestTexts holds that every code and verdict has a text that comes back, words,
// and a source that resolves where it has one.
func TestTexts(t *testing.T) {
	for _, c := range Codes() {
		var back Code
		b, err := c.MarshalText()
		if err != nil || back.UnmarshalText(b) != nil || back != c {
			t.Errorf("%v comes back as %v: %v", c, back, err)
		}
	}
	for v := VerdictUnknown; v <= VerdictPass; v++ {
		var back Verdict
		b, err := v.MarshalText()
		if err != nil || back.UnmarshalText(b) != nil || back != v {
			t.Errorf("%v comes back as %v: %v", v, back, err)
		}
	}
	if _, err := Code(codes.Count).MarshalText(); !errors.Is(err, errUnknownName) {
		t.Errorf("%v", err)
	}
	for _, err := range []error{new(Code).UnmarshalText([]byte("gpu-shares")), new(Verdict).UnmarshalText([]byte("maybe"))} {
		if !errors.Is(err, errUnknownName) {
			t.Errorf("%v", err)
		}
	}
}

// TestBesideASmallerOne holds that what takes more than half of a GPU may share it with a neighbour that is small
// enough, and that two of it may not.
func TestBesideASmallerOne(t *testing.T) {
	g := must.Get(NewTarget(GPUKind{Name: "l4", GPU: must.Get(sharing.LookupGPU("L4"))(t), Together: 1}))(t)
	d := &Demand{Kind: "training", Replicas: 1, GPUs: 1, Processes: 1, Memory: MemoryNeed{Total: 14 * sharing.GiB},
		Busy: 0.3, BusyBasis: BusyStated, SaturatedFrom: 0.8}
	for least, want := range map[sharing.Bytes]Verdict{4 * sharing.GiB: VerdictPass, 10 * sharing.GiB: VerdictReject,
		0: VerdictReject} {
		var r Report
		g.Check(d, sharing.MechanismTimeSlicing, Neighbours{Trusted: 2, Least: least}, &r)
		if r.Verdict != want || r.Tenants > 1 {
			t.Errorf("beside %v: %v for %d tenants", least, r.Verdict, r.Tenants)
		}
	}
}

// TestContextOnce holds that a limit of memory has room for one context, whether the need states it or not.
func TestContextOnce(t *testing.T) {
	for _, n := range []MemoryNeed{
		{Total: 8 * sharing.GiB},
		{Weights: 7 * sharing.GiB, KVCache: sharing.GiB, Context: ContextMemory, Total: 8*sharing.GiB + ContextMemory},
	} {
		if got := n.Under(sharing.MechanismMPS); got != 8*sharing.GiB+ContextMemory {
			t.Errorf("%+v takes %v", n, got)
		}
	}
}

// Every code has its sentence, at its place, and every figure that a sentence names is one that is written.
func TestWords(t *testing.T) {
	var all []codes.Word
	dec := json.NewDecoder(bytes.NewReader(codes.WordsJSON))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&all); err != nil || len(all) != codes.Count {
		t.Fatal(len(all), err)
	}
	for code, name := range map[Code]string{codes.Fits: "fits", codes.MIGMode: "mig-mode", codes.Isolation: "isolation", codes.SliceFits: "slice-fits", codes.Floor: "floor", codes.TradeOff: "trade-off"} {
		if code.String() != name {
			t.Errorf("%v, want %s", code, name)
		}
	}
	for _, of := range [][2]int{{codes.CPU, codes.GPUCount}, {codes.MIGMode, codes.Mechanism},
		{codes.GPUMemoryUnknown, codes.GPUShare}, {codes.SlowdownUnknown, codes.Slowdown}} {
		for _, w := range all[of[0] : of[1]+1] {
			if w.Short == "" {
				t.Errorf("%s: no few words for nodes that refuse a pod with it", w.Code)
			}
		}
	}
	for i, w := range all {
		if _, ok := sharing.SourceByID(w.Source); !ok && w.Source != "" {
			t.Errorf("%s: source %q does not resolve", w.Code, w.Source)
		}
		if !slices.Contains([]codes.Scope{codes.Kind, codes.Choice, codes.Empty, codes.Neighbours, codes.Left}, w.Scope) {
			t.Errorf("%s: scope %q", w.Code, w.Scope)
		}
		r := Reason{Code: Code(i), Profile: mig.Models()[0].Profiles[0], Mechanism: sharing.MechanismExclusive}
		r = r.About(&Demand{Pool: "a", Kind: "b", Framework: "c", NeverShares: true, Today: sharing.MechanismMIG}, &Target{name: "pool"})
		for _, text := range []string{w.Text, w.Alone} {
			os.Expand(text, func(name string) string {
				figure := r.figure(name)
				if figure == "" && name != "available" && name != "isolation" {
					t.Errorf("%s: nothing is written for ${%s}", w.Code, name)
				}
				return figure
			})
		}
	}
}
