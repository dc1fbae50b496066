// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// randomWindow is a GPU that is shared by up to five pods, each with its own work measured.
func randomWindow(r *rand.Rand) Window {
	w := Window{Length: time.Duration(1 + r.Int64N(1e12)), SwitchShare: 0.07, Powered: sharing.Answer(r.IntN(3)),
		Mechanism: []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG}[r.IntN(3)]}
	left := 1.0
	for i := range r.IntN(6) {
		c := Claim{Pod: named(string(rune('a' + i))), Held: r.IntN(4), Resident: r.IntN(2) == 0, Busy: sharing.Some(0.0), Tokens: sharing.Some(0.0)}
		if w.Mechanism == sharing.MechanismMIG {
			c.Slices, c.Instance, c.Held = 1+r.IntN(2), sharing.Some(i), r.IntN(2)
		}
		if c.Resident && r.IntN(3) > 0 {
			u := float64(r.IntN(101)) / 100
			if w.Mechanism != sharing.MechanismMIG {
				u *= left
				left -= u
			}
			c.Busy, c.Tokens = sharing.Some(u), sharing.Some(u*100)
		}
		w.Claims = append(w.Claims, c)
		w.Slots += c.Held
	}
	w.Slots = 1 + w.Slots*r.IntN(3)/2
	w.Busy = sharing.Some(1 - left)
	if w.Mechanism == sharing.MechanismTimeSlicing { // a process may have run unseen
		w.Busy = sharing.Some(1 - left*r.Float64())
	}
	return w
}

// bill is the payment of each pod of a window.
func bill(t *testing.T, w *Window) map[container.Pod]Amount {
	t.Helper()
	parts, err := Divide(*w)
	if err != nil {
		t.Fatal(err)
	}
	l, out := newBook(bookOptions{}), map[container.Pod]Amount{}
	sum := time.Duration(0)
	for _, p := range parts {
		sum += p.Time
	}
	if sum != w.Length {
		t.Fatalf("%+v: the parts come to %v", *w, sum)
	}
	price, _ := cost.FromMicros(3_250_000, "USD")
	l.post(posting{GPU: "g"})
	l.post(posting{GPU: "g", To: w.Length, Parts: parts, Price: price, Microjoules: sharing.Some(int64(w.Length)), IdleMicrojoules: int64(w.Length) / 5,
		ContextMicrojoules: int64(w.Length) / 10})
	joules := int64(0)
	for _, x := range l.listRows() {
		key := x.Pod
		if x.Account == accountIdle {
			key = container.Pod{Name: billIdle}
		}
		a := out[key]
		a.add(x.Amount)
		out[key] = a
		joules += x.Microjoules
	}
	if joules != int64(w.Length) {
		t.Fatalf("%+v: %d uJ are given away", *w, joules)
	}
	return out
}

// TestPayers: over random windows the parts of a GPU's time add up exactly, only its holders pay idle time, holding more never pays less, and a context that does nothing changes no bill but by its power.
func TestPayers(t *testing.T) {
	r := rand.New(rand.NewPCG(56, 1))
	for range nightly.Cases(10_000, 100_000) {
		w := randomWindow(r)
		before := bill(t, &w)
		if w.Mechanism != sharing.MechanismMIG {
			held := 0
			for _, c := range w.Claims {
				held += c.Held
			}
			idle := (1 - w.Busy.Or(0)) * float64(w.Length)
			parts, _ := Divide(w)
			for _, c := range w.Claims {
				want, got := idle*float64(c.Held)/float64(max(held, w.Slots)), 0.0
				for _, p := range parts {
					if p.Pod == c.Pod && (p.Account == accountHeldIdle || p.Account == accountExecutionIdle) {
						got += float64(p.Time)
					}
				}
				if got > want+4 || got < want-4 { // nanoseconds
					t.Fatalf("%+v: %s pays %v of idle time, it holds %v", w, c.Pod.Name, got, want)
				}
			}
		}
		if len(w.Claims) == 0 {
			continue
		}
		i := r.IntN(len(w.Claims))
		pod := w.Claims[i].Pod
		more := w
		more.Claims = append([]Claim(nil), w.Claims...)
		more.Claims[i].Held++
		if a := bill(t, &more)[pod]; a.Time < before[pod].Time-4 || a.Micros < before[pod].Micros-1 {
			t.Fatalf("%+v: %s holds one more and pays %v, before %v", w, pod.Name, a, before[pod])
		}
		opened := w
		opened.Claims = append([]Claim(nil), w.Claims...)
		if opened.Claims[i].Resident {
			continue
		}
		opened.Claims[i].Resident = true
		after := bill(t, &opened)
		for p, a := range after {
			if d := a.Time - before[p].Time; d > 4 || d < -4 || a.Micros-before[p].Micros > 1 || before[p].Micros-a.Micros > 1 {
				t.Fatalf("%+v: %s opens a context and %s pays %v, before %v", w, pod.Name, p.Name, a, before[p])
			}
		}
		if after[pod].Microjoules < before[pod].Microjoules-4 {
			t.Fatalf("%+v: %s opens a context and pays less energy: %v, before %v", w, pod.Name, after[pod], before[pod])
		}
	}
}

// TestBillReconciles: under every policy the rows come to the totals, and totals that cannot be added are refused.
func TestBillReconciles(t *testing.T) {
	r := rand.New(rand.NewPCG(56, 2))
	for range 2000 {
		var totals []Total
		var want Amount
		for i := range r.IntN(8) {
			k := TotalKey{GPU: "g", Account: accounts[r.IntN(6)], Namespace: []string{"", "a", "b", Other}[r.IntN(4)]}
			a := Amount{time.Duration(r.Int64N(1e15)), time.Duration(r.Int64N(1e9) >> i), 1e15, r.Int64N(1e12), r.Int64N(1e9)}
			totals = append(totals, Total{k, a})
			want.add(a)
		}
		for _, policy := range []string{idleOwnRow, idleByHolding, idleByUse} {
			var got Amount
			b, err := NewBill(totals, policy)
			for _, row := range b.Rows {
				got.add(row.Amount)
			}
			if err != nil || got != want {
				t.Fatalf("%v of %+v: %+v, %v", policy, totals, b, err)
			}
		}
	}
	century := Total{Amount: Amount{Time: maxAmount}}
	for _, totals := range [][]Total{{{Amount: Amount{Micros: -1}}}, {century, century, century, century, century, century, century, century}} {
		if b, err := NewBill(totals, idleOwnRow); !errors.Is(err, errInput) {
			t.Errorf("%+v, %v", b, err)
		}
	}
	if b, err := NewBill(nil, "by-luck"); !errors.Is(err, errInput) {
		t.Errorf("an unknown policy: %+v, %v", b, err)
	}
}
