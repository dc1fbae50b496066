// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// show writes parts of a 100 s window as "account/pod seconds [low high] basis".
func show(parts []Part) []string {
	out := []string{}
	for _, p := range parts {
		s := fmt.Sprintf("%v/%s %.2f", p.Account, p.Pod.Name, p.Time.Seconds())
		if p.Low != p.Time || p.High != p.Time {
			s += fmt.Sprintf(" [%.2f %.2f]", p.Low.Seconds(), p.High.Seconds())
		}
		out = append(out, s+" "+p.Basis.String())
	}
	slices.Sort(out)
	return out
}

func TestDivide(t *testing.T) {
	const ts, mps, mig = sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG
	a, b := named("a"), named("b")
	for name, c := range map[string]struct {
		w    Window
		want []string
	}{
		"nothing there": {Window{Mechanism: ts, Busy: sharing.Some(0.0)}, []string{"idle/ 100.00 measured"}},
		"not observed":  {Window{Mechanism: ts}, []string{"unattributed/ 100.00 unknown"}},
		"held and unused, one of four": {Window{Mechanism: ts, Busy: sharing.Some(0.0), Slots: 4, Claims: []Claim{{Pod: a, Held: 1}}},
			[]string{"held-idle/a 25.00 measured", "idle/ 75.00 measured", "tenant/a 0.00 measured"}},
		"held, how many are offered is not known": {Window{Mechanism: ts, Busy: sharing.Some(0.0), Claims: []Claim{{Pod: a, Held: 1}, {Pod: b, Held: 3}}},
			[]string{"held-idle/a 25.00 derived", "held-idle/b 75.00 derived", "tenant/a 0.00 measured", "tenant/b 0.00 measured"}},
		"resident and powered": {Window{Mechanism: ts, Busy: sharing.Some(0.0), Claims: []Claim{{Pod: a, Resident: true, Held: 1}}},
			[]string{"execution-idle/a 100.00 measured", "tenant/a 0.00 measured"}},
		"resident, no power": {Window{Mechanism: ts, Busy: sharing.Some(0.0), Powered: sharing.AnswerNo, Claims: []Claim{{Pod: a, Resident: true}}},
			[]string{"held-idle/a 100.00 measured", "tenant/a 0.00 measured"}},
		"a stranger is resident": {Window{Mechanism: ts, Busy: sharing.Some(0.0), Claims: []Claim{{Resident: true}}},
			[]string{"execution-idle/ 100.00 measured"}},
		"two in turn": {Window{Mechanism: ts, Busy: sharing.Some(0.9), Claims: []Claim{{Pod: a, Resident: true, Busy: sharing.Some(0.5)}, {Pod: b, Resident: true, Busy: sharing.Some(0.4)}}},
			[]string{"execution-idle/a 5.00 derived", "execution-idle/b 5.00 derived", "tenant/a 50.00 [49.50 50.50] measured", "tenant/b 40.00 [39.50 40.50] measured"}},
		"two in turn, drawn 60 times": {Window{Mechanism: ts, Busy: sharing.Some(1.0), Samples: 60, Claims: []Claim{{Pod: a, Resident: true, Busy: sharing.Some(0.5)}, {Pod: b, Resident: true, Busy: sharing.Some(0.5)}}},
			[]string{"tenant/a 50.00 [36.59 63.41] measured", "tenant/b 50.00 [36.59 63.41] measured"}},
		"never drawn": {Window{Mechanism: ts, Busy: sharing.Some(0.9), Samples: 30, Claims: []Claim{{Pod: a, Resident: true, Busy: sharing.Some(0.9)}, {Pod: b, Resident: true}}},
			[]string{"execution-idle/a 5.00 derived", "execution-idle/b 5.00 derived", "tenant/a 90.00 [89.50 90.00] measured", "tenant/b 0.00 [0.00 9.50] measured"}},
		"an excess is scaled down": {Window{Mechanism: ts, Busy: sharing.Some(1.0), Claims: []Claim{{Pod: a, Resident: true, Busy: sharing.Some(0.9)}, {Pod: b, Resident: true, Busy: sharing.Some(0.6)}}},
			[]string{"tenant/a 60.00 [39.50 90.50] measured", "tenant/b 40.00 [9.50 60.50] measured"}},
		"a shortfall is switching, the rest nobody's": {Window{Mechanism: ts, Busy: sharing.Some(1.0), SwitchShare: 0.07, Claims: []Claim{{Pod: a, Resident: true, Busy: sharing.Some(0.5)}, {Pod: b, Resident: true, Busy: sharing.Some(0.4)}}},
			[]string{"overhead/ 7.00 [0.00 10.00] derived", "tenant/a 50.00 [49.50 60.50] measured", "tenant/b 40.00 [39.50 50.50] measured", "unattributed/ 3.00 measured"}},
		"a single one does not switch": {Window{Mechanism: ts, Busy: sharing.Some(1.0), SwitchShare: 0.07, Claims: []Claim{{Pod: a, Resident: true, Busy: sharing.Some(0.9)}}},
			[]string{"tenant/a 90.00 [89.50 100.00] measured", "unattributed/ 10.00 measured"}},
		"a stranger's time is nobody's": {Window{Mechanism: ts, Busy: sharing.Some(1.0), Claims: []Claim{{Pod: a, Resident: true, Busy: sharing.Some(0.5)}, {Resident: true, Busy: sharing.Some(0.5)}}},
			[]string{"tenant/a 50.00 [49.50 50.50] measured", "unattributed/ 50.00 [49.50 50.50] measured"}},
		"exclusive, no figures of processes": {Window{Mechanism: sharing.MechanismExclusive, Busy: sharing.Some(0.3), Claims: []Claim{{Pod: a, Resident: true, Held: 1}}},
			[]string{"execution-idle/a 70.00 measured", "tenant/a 30.00 measured"}},
		"in turn, no figures of processes": {Window{Mechanism: ts, Busy: sharing.Some(0.4), Claims: []Claim{{Pod: a, Resident: true}, {Pod: b, Resident: true}}},
			[]string{"execution-idle/a 30.00 derived", "execution-idle/b 30.00 derived", "tenant/a 20.00 [0.00 40.00] prior", "tenant/b 20.00 [0.00 40.00] prior"}},
		"together: equal parts, with bounds": {Window{Mechanism: mps, Busy: sharing.Some(0.8), Claims: []Claim{{Pod: a, Resident: true}, {Pod: b, Resident: true}, {Resident: true, Overhead: true}}},
			[]string{"execution-idle/a 10.00 derived", "execution-idle/b 10.00 derived", "tenant/a 40.00 [0.00 80.00] prior", "tenant/b 40.00 [0.00 80.00] prior"}},
		"together, a single one": {Window{Mechanism: mps, Busy: sharing.Some(0.8), Claims: []Claim{{Pod: a, Resident: true}, {Resident: true, Overhead: true}}},
			[]string{"execution-idle/a 20.00 measured", "tenant/a 80.00 measured"}},
		"together, tokens": {Window{Mechanism: mps, Busy: sharing.Some(1.0), Claims: []Claim{{Pod: a, Resident: true, Tokens: sharing.Some(300.0)}, {Pod: b, Resident: true, Tokens: sharing.Some(100.0)}}},
			[]string{"tenant/a 75.00 [27.27 96.00] derived", "tenant/b 25.00 [4.00 72.73] derived"}},
		"together, tokens of one are not known": {Window{Mechanism: mps, Busy: sharing.Some(1.0), Claims: []Claim{{Pod: a, Resident: true, Tokens: sharing.Some(300.0)}, {Pod: b, Resident: true}}},
			[]string{"tenant/a 50.00 [0.00 100.00] prior", "tenant/b 50.00 [0.00 100.00] prior"}},
		"instances": {Window{Mechanism: mig, Claims: []Claim{{Pod: a, Resident: true, Held: 1, Slices: 3, Busy: sharing.Some(0.5)}, {Pod: b, Held: 1, Slices: 2, Busy: sharing.Some(0.0)}, {Slices: 1, Busy: sharing.Some(0.0)}}},
			[]string{"execution-idle/a 21.43 measured", "held-idle/b 28.57 measured", "idle/ 14.29 measured", "idle/ 14.29 measured", "tenant/a 21.43 measured", "tenant/b 0.00 measured"}},
		"instances without counters": {Window{Mechanism: mig, ComputeSlices: 4, Claims: []Claim{{Pod: a, Held: 1, Slices: 2}, {Slices: 1}}},
			[]string{"held-idle/a 50.00 measured", "idle/ 25.00 measured", "idle/ 25.00 measured", "tenant/a 0.00 measured"}},
		"instances without counters, in use": {Window{Mechanism: mig, ComputeSlices: 4, Claims: []Claim{{Pod: a, Resident: true, Slices: 2}, {Resident: true, Slices: 1}, {Slices: 1}}},
			[]string{"idle/ 25.00 measured", "tenant/a 50.00 [0.00 50.00] derived", "unattributed/ 25.00 [0.00 25.00] derived"}},
		"instances that nobody lists": {Window{Mechanism: mig, Slots: 1, Claims: []Claim{{Pod: a, Resident: true}}},
			[]string{"tenant/a 100.00 [0.00 100.00] prior"}},
		"an instance of two": {Window{Mechanism: mig, Claims: []Claim{{Pod: a, Resident: true, Held: 1, Slices: 7, Instance: sharing.Some(1), Busy: sharing.Some(0.5)}, {Pod: b, Resident: true, Held: 1, Slices: 7, Instance: sharing.Some(1), Busy: sharing.Some(0.5)}}},
			[]string{"execution-idle/a 25.00 derived", "execution-idle/b 25.00 derived", "tenant/a 25.00 [0.00 50.00] prior", "tenant/b 25.00 [0.00 50.00] prior"}},
		"one of four held and resident": {Window{Mechanism: ts, Busy: sharing.Some(0.0), Slots: 4, Claims: []Claim{{Pod: a, Held: 1, Resident: true}}},
			[]string{"execution-idle/a 25.00 measured", "idle/ 75.00 measured", "tenant/a 0.00 measured"}},
		"KAI's reservation": {Window{Mechanism: ts, Busy: sharing.Some(0.5), Slots: 1, Claims: []Claim{{Pod: container.Pod{Namespace: "kai-resource-reservation", Name: "kai"}, Held: 1},
			{Pod: a, Resident: true, Busy: sharing.Some(0.4)}, {Pod: b, Resident: true, Busy: sharing.Some(0.1)}}},
			[]string{"execution-idle/a 25.00 derived", "execution-idle/b 25.00 derived", "tenant/a 40.00 [39.50 40.50] measured", "tenant/b 10.00 [9.50 10.50] measured", "tenant/kai 0.00 measured"}},
		"one works, another holds more": {Window{Mechanism: ts, Busy: sharing.Some(0.1), Slots: 4, Claims: []Claim{{Pod: a, Held: 1, Resident: true, Busy: sharing.Some(0.1)}, {Pod: b, Held: 3}}},
			[]string{"execution-idle/a 22.50 derived", "held-idle/b 67.50 derived", "tenant/a 10.00 [9.50 10.00] measured", "tenant/b 0.00 measured"}},
		"the MPS server's own part": {Window{Mechanism: mps, Busy: sharing.Some(0.6), Slots: 2, Claims: []Claim{{Pod: a, Held: 1, Resident: true}, {Pod: b, Held: 1, Resident: true}, {Overhead: true, Resident: true, Busy: sharing.Some(0.1)}}},
			[]string{"execution-idle/a 20.00 derived", "execution-idle/b 20.00 derived", "overhead/ 10.00 measured", "tenant/a 25.00 [0.00 50.00] prior", "tenant/b 25.00 [0.00 50.00] prior"}},
	} {
		c.w.Length = 100 * time.Second
		parts, err := Divide(c.w)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, show(parts)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestBadWindows(t *testing.T) {
	nan := 0.0
	nan /= nan
	_, err := Divide(Window{Length: -1, Busy: sharing.Some(1.2), SwitchShare: nan, Claims: []Claim{{Busy: sharing.Some(-0.1), Tokens: sharing.Some(-1.0), Held: -1}}})
	if !errors.Is(err, errInput) {
		t.Fatal(err)
	}
	for _, want := range []string{"length", "busy: 1.2", "switch_share", "claims[0].busy", "claims[0].tokens"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

// FuzzDivide: whatever was seen, the parts come to the time and lie in their bounds.
func FuzzDivide(f *testing.F) {
	f.Add(int64(time.Second), uint8(2), 0.5, 0.3, 0.4, uint8(3))
	f.Fuzz(func(t *testing.T, length int64, mechanism uint8, busy, u, v float64, n uint8) {
		w := Window{Length: time.Duration(length), Mechanism: sharing.Mechanism(mechanism % 13), SwitchShare: 0.07}
		if busy == busy {
			w.Busy = sharing.Some(busy)
		}
		for i := range n % 9 {
			c := Claim{Pod: container.Pod{Name: fmt.Sprint(i % 4)}, Resident: i%3 > 0, Held: int(i % 2), Slices: int(i), Tokens: sharing.Some(v * 100)}
			if i%5 > 0 {
				c.Busy = sharing.Some(u)
			}
			w.Claims = append(w.Claims, c)
		}
		parts, err := Divide(w)
		if err != nil {
			return
		}
		sum := time.Duration(0)
		for _, p := range parts {
			if p.Time < 0 || p.Low < 0 || p.Low > p.Time || p.High < p.Time {
				t.Fatalf("%+v of %+v", p, w)
			}
			sum += p.Time
		}
		if sum != w.Length {
			t.Fatalf("%v of %v: %+v", sum, w.Length, w)
		}
	})
}
