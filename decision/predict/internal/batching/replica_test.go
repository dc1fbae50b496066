package batching

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// log is an Audience that writes down what it sees.
type log struct {
	lines  []string
	tokens int64
}

func (l *log) Started(f *Flight)           { l.add("first", f, f.First) }
func (l *log) Tokens(n int64, _ float64)   { l.tokens += n }
func (l *log) Ended(f *Flight, at float64) { l.add("end", f, at) }
func (l *log) add(what string, f *Flight, at float64) {
	l.lines = append(l.lines, fmt.Sprintf("%s of %d at %g", what, f.Input, at))
}

// play runs a GPU until all requests have come and ended.
func play(g *GPU, r *Replica, requests ...Flight) {
	g.Retime()
	for i := range requests {
		for g.Next <= requests[i].Came {
			g.Fire()
		}
		g.Arrive(r, &requests[i], requests[i].Came)
	}
	for !math.IsInf(g.Next, 1) {
		g.Fire()
	}
}

// Three requests by hand: a prompt takes 1 ms a token, a step 10 ms and 1 more for each sequence, two fit a batch. The
// second comes in the first one's third step, whose run ends there; the third waits for a place.
func TestReplica(t *testing.T) {
	var l log
	g := &GPU{}
	r := &Replica{To: &l, GPU: g, Rates: Rates{Step: 10, Host: 2, Sequence: 1, Token: 1, SlowPrefill: 1, Sequences: 2}}
	g.Replicas = []*Replica{r}
	play(g, r, Flight{Input: 20, Output: 8}, Flight{Came: 45, Input: 30, Output: 3}, Flight{Came: 60, Input: 5, Output: 4})
	want := []string{"first of 20 at 20", "first of 30 at 83", "end of 30 at 107", "first of 5 at 112", "end of 20 at 136", "end of 5 at 147"}
	if diff := cmp.Diff(want, l.lines); diff != "" || l.tokens != 15 {
		t.Errorf("%d tokens (-want +got)\n%s", l.tokens, diff)
	}
}

// Prompts that wait are all computed before anybody decodes, or one between two steps.
func TestPrefillsFirst(t *testing.T) {
	for first, want := range map[bool][]string{
		true:  {"first of 10 at 10", "first of 11 at 21", "first of 12 at 33"},
		false: {"first of 10 at 10", "first of 11 at 31", "first of 12 at 53"},
	} {
		var l log
		g := &GPU{}
		r := &Replica{To: &l, GPU: g, Rates: Rates{Step: 10, Token: 1, SlowPrefill: 1, Sequences: 9, PrefillsFirst: first}}
		g.Replicas = []*Replica{r}
		play(g, r, Flight{Input: 10, Output: 9}, Flight{Input: 11, Output: 9}, Flight{Input: 12, Output: 9})
		if got := l.lines[:3]; !slices.Equal(got, want) {
			t.Errorf("prefills first %v: %v, want %v", first, got, want)
		}
	}
}

// Beside says how long units take while several work, from the moment at which that changes.
func TestBeside(t *testing.T) {
	var here, there log
	g := &GPU{Beside: func(g *GPU) {
		for _, r := range g.Replicas {
			if a := &r.Act; a.Kind.Works() {
				a.Unit = 2 * a.Alone()
			}
		}
	}}
	rates := Rates{Token: 1, SlowPrefill: 1, Sequences: 1}
	a, b := &Replica{To: &here, GPU: g, Rates: rates}, &Replica{To: &there, GPU: g, Rates: rates}
	g.Replicas = []*Replica{a, b}
	g.Retime()
	g.Arrive(a, &Flight{Input: 100, Output: 1}, 0)
	g.Arrive(b, &Flight{Input: 30, Output: 1}, 20)
	for !math.IsInf(g.Next, 1) {
		g.Fire()
	}
	// Half of its pace from 20 to 80, and its own again for the last 50 ms.
	if got, want := []string{here.lines[1], there.lines[1]}, []string{"end of 100 at 130", "end of 30 at 80"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
