// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/sharing"
)

// scripted is a site of servers under a script, which knows the run that goes on. All is in simulated time.
type scripted struct {
	simulation
	caches  bool          // the servers report the words of prompts that they have seen as cached
	spinner time.Duration // of runs next to a neighbour that spins, "spinner-" and the load
	reply   func(s *scripted, r loadgentest.Request) loadgentest.Reply

	servers []*loadgentest.Server // which stay from one measurement to the next
	mu      sync.Mutex
	run     string    // that goes on
	began   time.Time // when it did
	seen    map[string]bool
	prompts map[string]map[string]int
}

func (s *scripted) start(context.Context, sharing.Mechanism, string, func(string, ...any)) (*deployment, error) {
	st := &deployment{close: func() error { return nil },
		spinning: func(ctx context.Context, run func(context.Context) error) error { return run(ctx) }}
	for i := range s.plan.Servers {
		if i == len(s.servers) {
			srv, err := loadgentest.NewServer(loadgentest.Options{Pipe: true, NoLog: true, Script: s.script})
			if err != nil {
				return nil, err
			}
			s.servers = append(s.servers, srv)
		}
		st.endpoints = append(st.endpoints, loadgen.Endpoint{URL: s.servers[i].URL, Dial: s.servers[i].Dial})
	}
	return st, nil
}

func (s *scripted) script(r loadgentest.Request) loadgentest.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.run + " " + r.Model
	if s.prompts[of] == nil {
		s.prompts[of] = map[string]int{}
	}
	s.prompts[of][r.Prompt]++
	reply := s.reply(s, r)
	if s.caches {
		if s.seen == nil {
			s.seen = map[string]bool{}
		}
		cached := 0
		if s.seen[r.Prompt] {
			cached = r.PromptTokens - 16 // an engine computes the last block
		}
		s.seen[r.Prompt], reply.CachedTokens = true, optional.Of(cached)
	}
	return reply
}

func (s *scripted) close() (err error) {
	for _, srv := range s.servers {
		err = errors.Join(err, srv.Close())
	}
	return err
}

const scriptedPlan = `
version: v1
seconds: 3
seed: 7
modes: [time-slicing]
servers: [{name: a, model: warming, api: completions}, {name: b, model: steady, api: completions}]
loads: [{name: x, server: a, concurrency: 1, prompt: 160, output: 4}, {name: y, server: b, rate: 15, prompt: 160, output: 4}]
`

// measure measures the plan on the site.
func (s *scripted) measure(t *testing.T) results {
	t.Helper()
	s.prompts = map[string]map[string]int{}
	var r results
	h := how{plan: []byte(scriptedPlan), opts: Options{Dir: t.TempDir(), simulatedTime: true, Spinner: s.spinner}}
	h.said = func(line string) {
		_, line, _ = strings.Cut(strings.TrimPrefix(line, "simulated: "), ": ")
		if name, length, ok := strings.Cut(line, ", "); ok && (length == "3 s" || strings.HasPrefix(line, "spinner-")) {
			s.mu.Lock()
			s.run, s.began = name, time.Now()
			s.mu.Unlock()
		}
	}
	if r = h.measured(t.Context(), t, false, func(p *Plan) (Site, error) { s.plan = p; return s, nil }); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	return r
}

// An isolated run in which the server warms up is repeated, and one that never becomes steady is noted.
func TestDriftIsNoted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		slow, note string // prefix of the runs that warm up, and of the notes
		ran        string // the run that counts
	}{{"-", "", "solo-x"}, {"solo-x", "time-slicing/solo-x-again-2: steps took 5.0 times as long in the first half", "solo-x-again-2"},
		{"solo-x ", "", "solo-x-again-1"}} {
		synctest.Test(t, func(t *testing.T) {
			s := &scripted{reply: func(s *scripted, r loadgentest.Request) loadgentest.Reply {
				took := time.Duration(20+10*(r.N%3)) * time.Millisecond // requests differ, halves do not
				if strings.HasPrefix(s.run+" ", c.slow) {
					took = 20 * time.Millisecond
					if time.Since(s.began) < 2*time.Second {
						took = 100 * time.Millisecond
					}
				}
				return loadgentest.Reply{TTFT: 10 * time.Millisecond, Interval: took}
			}}
			r := s.measure(t)
			if notes := strings.Join(r.report.Notes, "\n"); !strings.HasPrefix(notes, c.note) || (notes == "") != (c.note == "") {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
			if !slices.ContainsFunc(r.report.Rows, func(row reportRow) bool { return row.Case == c.ran }) {
				t.Errorf("%s doesn't count: %s", c.ran, r.stderr)
			}
			must.Do(t, s.close())
		})
	}
}

// Runs send prompts of their own, of the same length at the same times, so that a prefix cache that one has filled
// answers no other; the same run of another measurement repeats itself, and that the cache then answers is noted.
func TestPromptsOfRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{caches: true, reply: func(*scripted, loadgentest.Request) loadgentest.Reply {
			return loadgentest.Reply{TTFT: 10 * time.Millisecond, Interval: 20 * time.Millisecond}
		}}
		first := s.measure(t)
		isolated, coLocated := s.prompts["solo-y steady"], s.prompts["together steady"]
		if len(isolated) < 20 || len(isolated) != len(coLocated) {
			t.Fatalf("%d prompts isolated, %d co-located: %s", len(isolated), len(coLocated), first.stderr)
		}
		for _, prompts := range []map[string]int{isolated, coLocated} {
			for p := range prompts {
				if n := len(strings.Fields(p)); n != 160 {
					t.Errorf("a prompt of %d words", n)
				}
			}
		}
		for p := range isolated {
			if coLocated[p] > 0 {
				t.Errorf("sent isolated and co-located: %q", p)
			}
		}
		if a, b := arrivals(t, first, "solo-y"), arrivals(t, first, "together"); len(a) < 20 || !slices.Equal(a, b) {
			t.Errorf("arrivals %v isolated, %v co-located", a, b)
		}
		if len(first.report.Notes) > 0 {
			t.Errorf("notes %q", first.report.Notes)
		}
		before := s.prompts
		second := s.measure(t)
		if !maps.Equal(s.prompts["solo-y steady"], isolated) || !maps.EqualFunc(before, s.prompts, func(a, b map[string]int) bool { return len(a) == len(b) }) {
			t.Error("a run does not repeat itself")
		}
		notes := second.report.Notes
		if len(notes) != 2 || !strings.HasPrefix(notes[0], "time-slicing/solo-x: 9") || !strings.Contains(notes[1], "of y's prompts came from its server's prefix cache") {
			t.Errorf("notes %q", notes)
		}
		must.Do(t, s.close())
	})
}

// arrivals are the times at which a run's requests of y were to start.
func arrivals(t *testing.T, r results, run string) (at []time.Duration) {
	t.Helper()
	dir := filepath.Join(r.dir, "time-slicing", run)
	res := must.Get(loadgen.LoadResult(dir))(t)
	text := must.Get(os.ReadFile(filepath.Join(dir, loadgen.ArtifactRequests)))(t)
	for line := range bytes.Lines(text) {
		var rec loadgen.Record
		must.Do(t, json.Unmarshal(line, &rec))
		if rec.Tenant == "y" {
			at = append(at, time.Duration(rec.IntendedNS-res.Summary.Window.FromNS))
		}
	}
	slices.Sort(at)
	return at
}

// A drift is separated from chance, in runs of many steps and of few.
func TestDrift(t *testing.T) {
	t.Parallel()
	// Ends in seconds of a window from 1 to 7, and lengths in milliseconds.
	for name, c := range map[string]struct {
		steps [][2]float64
		want  float64
	}{
		"nothing":                        {nil, 0},
		"too few":                        {[][2]float64{{2, 90}, {3, 90}, {5, 10}, {6, 10}, {6.5, 10}}, 0},
		"steady":                         {[][2]float64{{2, 10}, {3, 11}, {3.5, 10}, {5, 10}, {6, 11}, {6.5, 10}}, 0},
		"slower":                         {[][2]float64{{2, 10}, {3, 10}, {3.5, 10}, {5, 40}, {6, 40}, {6.5, 40}}, 0.25},
		"faster":                         {[][2]float64{{2, 30}, {3, 28}, {3.5, 32}, {5, 12}, {6, 12}, {6.5, 12}}, 2.5},
		"a little slower":                {[][2]float64{{2, 10}, {3, 10}, {3.5, 10}, {5, 11}, {6, 11}, {6.5, 11}}, 0},
		"a little faster":                {[][2]float64{{2, 11}, {3, 11}, {3.5, 11}, {5, 10}, {6, 10}, {6.5, 10}}, 0},
		"as chance has it":               {[][2]float64{{2, 37}, {2.1, 37}, {3, 33}, {3.1, 33}, {5, 26}, {5.1, 26}, {6, 39}, {6.1, 39}}, 0},
		"before the window only":         {[][2]float64{{.1, 90}, {.5, 90}, {.9, 90}, {.95, 90}, {2, 10}, {3, 10}, {3.5, 10}, {5, 10}, {6, 10}, {6.5, 10}}, 0},
		"ended in another order than so": {[][2]float64{{6.5, 12}, {6, 12}, {5, 12}, {3.5, 32}, {3, 28}, {2, 30}}, 2.5},
	} {
		var steps []doneStep
		for _, s := range c.steps {
			steps = append(steps, doneStep{time.Unix(0, int64(s[0]*1e9)), milliseconds(s[1])})
		}
		if got := drift(steps, &loadgen.WindowSummary{FromNS: 1e9, ToNS: 7e9}); got != c.want {
			t.Errorf("%s: %v times as fast, want %v", name, got, c.want)
		}
	}
}

// Answers are of all lengths around the load's, and of that length isolated where it has no spread.
func TestUnevenAnswersAreAsked(t *testing.T) {
	t.Parallel()
	for spread, want := range map[float64][2]int{0: {40, 40}, 0.25: {30, 50}} {
		offer := must.Get(offer("chat", "isolated", profile.Load{Concurrency: 2, Prompt: 8, Output: 40, OutputSpread: spread}, 1))(t)
		least, most, sum := 1<<30, 0, 0
		const requests = 2000
		for range requests {
			p := must.Get(offer.Prompts.Next())(t)
			least, most, sum = min(least, p.MaxTokens), max(most, p.MaxTokens), sum+p.MaxTokens
		}
		if mean := float64(sum) / requests; [2]int{least, most} != want || mean < 39 || mean > 41 {
			t.Errorf("spread %v: %d to %d tokens, %.1f on average", spread, least, most, mean)
		}
	}
	if _, err := offer("chat", "isolated", profile.Load{Concurrency: 2, Prompt: 8, Output: -40, OutputSpread: 0.25}, 1); err == nil {
		t.Error("answers of less than nothing are accepted")
	}
}
