// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

func usd(t testing.TB, micros int64) cost.Money {
	t.Helper()
	m, err := cost.FromMicros(micros, "USD")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// audit compares the totals of a book to the time that each GPU was observed.
func audit(t testing.TB, l *book) {
	t.Helper()
	times := l.observed()
	for k, a := range l.totals() {
		times[k.GPU] -= a.Time
	}
	for gpu, rest := range times {
		if rest != 0 {
			t.Fatalf("%s: %v of its time are in no total", gpu, rest)
		}
	}
}

func named(name string) container.Pod {
	return container.Pod{Namespace: "ns", Name: name, Container: "c"}
}

// TestFourPodsAQuarterEach posts an hour in seconds that are not quite seconds.
func TestFourPodsAQuarterEach(t *testing.T) {
	for _, micros := range []int64{3_250_000, 1, 999_983, 2} {
		l := newBook(bookOptions{})
		w := Window{Mechanism: sharing.MechanismTimeSlicing, Busy: sharing.Some(1.0)}
		for i := range 4 {
			w.Claims = append(w.Claims, Claim{Pod: named(fmt.Sprint("p", i)), Resident: true, Busy: sharing.Some(0.25)})
		}
		at := time.Duration(0)
		post := func() {
			through, _ := l.through("GPU-0")
			w.Length = at - through
			in := posting{GPU: "GPU-0", To: at, Mechanism: w.Mechanism, Price: usd(t, micros)}
			if at > 0 {
				parts, err := Divide(w)
				if err != nil {
					t.Fatal(err)
				}
				in.Parts = parts
			}
			l.post(in)
		}
		post()
		for i := range 3600 {
			at = time.Duration(i+1)*time.Second + []time.Duration{0, 4, -8, 12}[(i+1)%4]*time.Microsecond
			post()
		}
		rows := l.listRows()
		if len(rows) != 4 {
			t.Fatalf("%+v", rows)
		}
		sum, money := time.Duration(0), int64(0)
		for _, r := range rows {
			if r.Time != 15*time.Minute || r.Account != accountTenant || r.Basis != sharing.BasisMeasured {
				t.Errorf("%+v", r)
			}
			if want := micros / 4; r.Micros != want && r.Micros != want+1 || micros%4 == 0 && r.Micros != want {
				t.Errorf("%d millionths of %d", r.Micros, micros)
			}
			sum, money = sum+r.Time, money+r.Micros
		}
		if sum != time.Hour || money != micros {
			t.Errorf("%v for %d of %d", sum, money, micros)
		}
	}
}

func TestEnergyFollows(t *testing.T) {
	l := newBook(bookOptions{})
	l.post(posting{GPU: "g"})
	l.post(posting{GPU: "g", To: 10 * time.Second, Microjoules: sharing.Some(int64(1_000_000_003)), IdleMicrojoules: 700_000_000, Parts: []Part{
		{Account: accountTenant, Pod: named("a"), Time: 4 * time.Second, High: 4 * time.Second},
		{Account: accountTenant, Pod: named("b"), Time: 2 * time.Second, High: 2 * time.Second},
		{Account: accountIdle, Time: 4 * time.Second, High: 4 * time.Second},
	}})
	want := map[string]int64{"a": 280_000_000 + 200_000_002, "b": 140_000_000 + 100_000_001, "": 280_000_000}
	sum := int64(0)
	for _, r := range l.listRows() {
		sum += r.Microjoules
		if r.Microjoules != want[r.Name] {
			t.Errorf("%s: %d, want %d", r.Name, r.Microjoules, want[r.Name])
		}
	}
	if sum != 1_000_000_003 {
		t.Error(sum)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRowsEndAndTotalsDoNot(t *testing.T) {
	l := newBook(bookOptions{})
	post := func(to time.Duration, pods ...string) {
		in := posting{GPU: "g", To: to}
		for _, p := range pods {
			in.Parts = append(in.Parts, Part{Account: accountTenant, Pod: named(p)})
		}
		if len(pods) > 0 && to > 0 {
			through, _ := l.through("g")
			in.Parts[0].Time, in.Parts[0].High = to-through, to-through
		}
		l.post(in)
	}
	post(0)
	post(time.Hour, "old", "waits")
	post(24*time.Hour, "new", "waits")
	if gone := l.expire(); gone != nil {
		t.Errorf("%v ended early", gone)
	}
	post(25*time.Hour, "new", "waits")
	gone := l.expire()
	if len(gone) != 1 || gone[0].Name != "old" {
		t.Fatalf("%v ended", gone)
	}
	for _, r := range l.listRows() {
		if r.Name == "new" && r.Time != 24*time.Hour || r.Name == "waits" && r.Time != 0 {
			t.Errorf("%+v", r)
		}
	}
	if tt := l.listTotals(); len(tt) != 1 || tt[0].Time != 25*time.Hour {
		t.Errorf("%+v", tt)
	}
	records, err := l.takeChanges()
	must(t, err)
	deleted := slices.ContainsFunc(records, func(r Record) bool { return r.Value == nil && strings.Contains(r.Name, "old") })
	if !deleted {
		t.Error("the row's record stays")
	}
}

func TestTooManyPods(t *testing.T) {
	l := newBook(bookOptions{maxPods: 3})
	l.post(posting{GPU: "g"})
	for i := range 10 {
		l.post(posting{GPU: "g", To: time.Duration(i + 1), Parts: []Part{{Account: accountTenant, Pod: named(fmt.Sprint(i)), Time: 1, Low: 1, High: 1}}})
	}
	rows := l.listRows()
	if len(rows) != 4 {
		t.Fatalf("%+v", rows)
	}
	for _, r := range rows {
		if r.Name == Other && (r.Time != 7 || r.Namespace != "ns") {
			t.Errorf("%+v", r)
		}
	}
	audit(t, l)
	l = newBook(bookOptions{maxPods: 3})
	l.post(posting{GPU: "g"})
	var parts []Part
	for i := range 1000 { // at once, of namespaces of their own
		p := container.Pod{Namespace: fmt.Sprint("n", i), Name: "p", Container: "c"}
		parts = append(parts, Part{Account: accountTenant, Pod: p, Time: 1, High: 1})
	}
	l.post(posting{GPU: "g", To: 1000, Parts: parts})
	rest := time.Duration(0)
	for _, r := range l.listRows() {
		if r.Namespace == Other {
			rest += r.Time
		}
	}
	if n := len(l.listRows()); n != 3+maxOthers+1 || rest != 1000-3-maxOthers {
		t.Errorf("%d rows, %v in the last", n, rest)
	}
	audit(t, l)
}

func TestHostileNamesInRecords(t *testing.T) {
	l := newBook(bookOptions{})
	l.post(posting{GPU: "g"})
	pods := []container.Pod{{Namespace: "n\nx", Name: "a\"}\\", Container: "\xff\xfe"}, {Namespace: "n", Name: strings.Repeat("x", 9999), Container: "é"}}
	for i, p := range pods {
		l.post(posting{GPU: "g", To: time.Duration(i + 1), Parts: []Part{{Account: accountTenant, Pod: p, Time: 1, Low: 1, High: 1}}})
	}
	records, err := l.takeChanges()
	must(t, err)
	back, _ := restoreBook(bookOptions{}, slices.Values(records))
	if got, want := fmt.Sprintf("%+q", back.listRows()), fmt.Sprintf("%+q", l.listRows()); got != want {
		t.Errorf("%s\n%s", got, want)
	}
	for _, r := range l.listRows() {
		if len(r.Name) > 253 || strings.ContainsRune(r.Container, 0xff) {
			t.Errorf("%+q", r)
		}
	}
}

// TestRowsBeyondTheirGPU: rows that come to more than their GPU was observed for are kept.
func TestRowsBeyondTheirGPU(t *testing.T) {
	l, unread := restoreBook(bookOptions{}, slices.Values([]Record{
		{`gpu "h"`, []byte(`{"through_ns":1,"clock":"","observed_ns":1,"owed":0}`)},
		{`ended {"gpu":"h","account":"idle","namespace":""}`, []byte(`{"ns":6,"low_ns":5,"high_ns":9,"microjoules":3,"micros":0}`)},
	}))
	got := l.listTotals()
	if len(got) != 1 || got[0].Time != 6 || l.observed()["h"] != 6 || len(unread) != 1 || unread[`gpu "h"`] == nil {
		t.Errorf("%+v, %v", got, unread)
	}
}

// TestUnreadableRecords breaks each record of a ledger in turn: it is named, the
// others hold, and the next stored state is whole.
func TestUnreadableRecords(t *testing.T) {
	l := newBook(bookOptions{})
	for i := range 40 {
		for _, gpu := range []string{"g", "h"} {
			in := posting{GPU: gpu, To: time.Duration(i) * time.Minute, Microjoules: sharing.Some(int64(7e6)), Price: usd(t, 3)}
			if i > 0 {
				in.Parts = []Part{{Account: accountTenant, Pod: named(fmt.Sprint(i % 3)), Time: time.Second, High: time.Minute}}
			}
			l.post(in)
		}
	}
	l.opts.retain = time.Minute
	if gone := l.expire(); len(gone) == 0 {
		t.Fatal("nothing ended")
	}
	records, err := l.takeChanges()
	must(t, err)
	records = slices.DeleteFunc(records, func(r Record) bool { return r.Value == nil })
	for i, r := range records {
		for _, broken := range []Record{
			{r.Name, nil}, {r.Name, r.Value[:len(r.Value)/2]}, {r.Name, []byte(`{"x":1}`)}, {r.Name[:len(r.Name)-1], r.Value},
			{r.Name, bytes.Replace(r.Value, []byte(`_ns":`), []byte(`_ns":-1`), 1)}, {"nonsense", r.Value},
		} {
			list := slices.Clone(records)
			list[i] = broken
			back, unread := restoreBook(bookOptions{}, slices.Values(list))
			if len(unread) != 1 || unread[broken.Name] == nil {
				t.Fatalf("%+q: %v", broken, unread)
			}
			rows := back.listRows()
			if slices.ContainsFunc(rows, func(r Row) bool { return !slices.Contains(l.listRows(), r) }) || len(rows) < len(l.listRows())-1 {
				t.Errorf("%+q: other rows changed", broken)
			}
			for gpu, observed := range back.observed() {
				if observed != l.observed()[gpu] {
					t.Errorf("%+q: %s was observed for %v", broken, gpu, observed)
				}
				if _, begun := back.through(gpu); !begun {
					back.post(posting{GPU: gpu, To: time.Hour})
				}
				back.post(posting{GPU: gpu, To: 2 * time.Hour})
			}
			audit(t, back)
			stored := map[string]Record{}
			next, err := back.takeChanges()
			must(t, err)
			for _, r := range append(list, next...) {
				if stored[r.Name] = r; r.Value == nil {
					delete(stored, r.Name)
				}
			}
			delete(stored, broken.Name)
			for _, r := range next {
				if r.Value != nil {
					stored[r.Name] = r
				}
			}
			if _, unread = restoreBook(bookOptions{}, maps.Values(stored)); len(unread) != 0 {
				t.Errorf("%+q: stored again: %v", broken, unread)
			}
		}
	}
}

func FuzzRestore(f *testing.F) {
	f.Add(`gpu "g"`, `{"through_ns":1,"clock":"","observed_ns":0,"owed":0}`)
	f.Add(`row {"gpu":"g","account":"idle","namespace":"","pod":"","container":"","mechanism":"mps","basis":"measured"}`, `{"ns":5,"owed":0,"last_ns":0}`)
	f.Fuzz(func(t *testing.T, name, value string) {
		l, _ := restoreBook(bookOptions{}, slices.Values([]Record{{name, []byte(value)}}))
		audit(t, l)
		for _, r := range l.listRows() {
			if r.Time < 0 {
				t.Fatalf("%+v", r)
			}
		}
	})
}

var still = Clock{Name: "t", Now: func() time.Duration { return 0 }}

// TestABadRecordIsSetAside starts on a state with records that cannot be read:
// they are named, kept under other names, and all others count on.
func TestABadRecordIsSetAside(t *testing.T) {
	var log strings.Builder
	options := Options{
		Clock: still, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Records: []Record{{`gpu "g"`, []byte(`{"observed_ns":-2}`)}, {"tokens a/b/c", []byte("1 2 - - -")}, {`row {"gpu"`, []byte("{}")}},
	}
	a := New(options)
	for _, name := range []string{`gpu \"g`, "tokens a/b/c", `row {\"gpu`} {
		if !strings.Contains(log.String(), name) {
			t.Errorf("%s is not named: %s", name, log.String())
		}
	}
	_, records, _, err := a.Changes()
	if err != nil || len(records) != 6 {
		t.Errorf("%q, %v", records, err)
	}
	log.Reset()
	options.Records = slices.DeleteFunc(records, func(r Record) bool { return r.Value == nil })
	if New(options); log.Len() > 0 {
		t.Error(log.String())
	}
}
