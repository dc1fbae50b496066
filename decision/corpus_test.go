// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// expertCase is a fleet and the answers that an expert would accept, as testdata/corpus/README.md has them.
type expertCase struct {
	Name      string         `yaml:"name,required"`
	Reason    string         `yaml:"reason,required"`
	Fleet     Fleet          `yaml:"fleet,required"`
	GPUs      corpusRange    `yaml:"gpus"`
	Expect    []expertAnswer `yaml:"expect,required"`
	Disagrees []disagreement `yaml:"disagrees"`
}

type expertAnswer struct {
	Workload   string              `yaml:"workload,required"`
	Mechanism  []sharing.Mechanism `yaml:"mechanism"`
	Profile    []string            `yaml:"profile"` // where the mechanism is MIG
	Pool       []string            `yaml:"pool"`
	Status     []Status            `yaml:"status"`
	Placed     corpusRange         `yaml:"placed"`
	MostPerGPU int                 `yaml:"most_per_gpu"`
	Apart      []string            `yaml:"apart"`
	MoreGPUs   int                 `yaml:"more_gpus"`
	Why        string              `yaml:"why"` // a part of the answer's reason
}

// disagreement argues one difference between program and expert.
type disagreement struct {
	Says  string `yaml:"says,required"`
	Wrong string `yaml:"wrong,required"` // program or expert
	Why   string `yaml:"why,required"`
}

// corpusRange is "3", "2..4", or absent: anything.
type corpusRange struct {
	set    bool
	lo, hi int
}

func (r *corpusRange) UnmarshalText(b []byte) error {
	lo, hi, ranged := strings.Cut(string(b), "..")
	if !ranged {
		hi = lo
	}
	var err error
	if r.lo, err = strconv.Atoi(lo); err != nil {
		return err
	}
	r.hi, err = strconv.Atoi(hi)
	r.set = true
	return err
}

func (r corpusRange) differs(n int) bool { return r.set && (n < r.lo || n > r.hi) }

func readCorpus(t testing.TB) []expertCase { return readCases(t, "corpus") }

func readCases(t testing.TB, folder string) []expertCase {
	t.Helper()
	files, err := filepath.Glob("testdata/" + folder + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []expertCase
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var cases []expertCase
		if err := strictyaml.Decode(data, &cases, strictyaml.Options{}); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all = append(all, cases...)
	}
	return all
}

// decidedCase is an expert's fleet with the program's decision, which is made once for all tests and only read.
type decidedCase struct {
	expertCase
	result *Result
}

var corpus struct {
	sync.Mutex
	decided []decidedCase
}

func decidedCorpus(t testing.TB) []decidedCase {
	t.Helper()
	corpus.Lock()
	defer corpus.Unlock()
	if corpus.decided == nil {
		var all []decidedCase
		for _, c := range readCorpus(t) {
			all = append(all, decidedCase{c, decide(t, &c.Fleet)})
		}
		corpus.decided = all
	}
	return corpus.decided
}

// corpusFleet takes pools and workloads of the experts' fleets, over and over,
// each under a name of its own, its tenant one of its case's.
func corpusFleet(t testing.TB, pools, workloads int) *Fleet {
	t.Helper()
	f := &Fleet{Version: "v1"}
	for round, cases := 0, readCorpus(t); len(f.Pools) < pools || len(f.Workloads) < workloads; round++ {
		for i := range cases {
			for _, p := range cases[i].Fleet.Pools {
				if len(f.Pools) < pools {
					p.Name = fmt.Sprintf("p%d", len(f.Pools))
					p.Count *= 8
					f.Pools = append(f.Pools, p)
				}
			}
			for _, w := range cases[i].Fleet.Workloads {
				if len(f.Workloads) < workloads {
					w.Name = fmt.Sprintf("w%d", len(f.Workloads))
					if w.Tenant != "" {
						w.Tenant += strconv.Itoa(round)
					}
					w.Trust = nil
					f.Workloads = append(f.Workloads, w)
				}
			}
		}
	}
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestExpertsAgree runs the program on fleets that experts answered first. A difference must be argued in the file, and
// an argument must be about something that the program still says.
func TestExpertsAgree(t *testing.T) {
	t.Parallel()
	cases := slices.Clone(decidedCorpus(t))
	for _, c := range readCases(t, "answers") {
		cases = append(cases, decidedCase{c, decide(t, &c.Fleet)})
	}
	if len(cases) < 130 {
		t.Errorf("%d fleets", len(cases))
	}
	seen := map[string]bool{}
	for _, c := range cases {
		if seen[c.Name] {
			t.Errorf("two cases %s", c.Name)
		}
		seen[c.Name] = true
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Fleet.Validate(); err != nil {
				t.Fatal(err)
			}
			differences := c.differences(c.result)
			argued := map[string]bool{}
			for _, d := range c.Disagrees {
				argued[d.Says] = true
				if d.Wrong != "program" && d.Wrong != "expert" {
					t.Errorf("disagrees: wrong is %q, not program or expert", d.Wrong)
				}
				if !slices.Contains(differences, d.Says) {
					t.Errorf("argued, but no longer said: %s", d.Says)
				}
			}
			for _, d := range differences {
				if !argued[d] {
					t.Errorf("not argued: %s\nexpert: %s", d, c.Reason)
				}
			}
			if t.Failed() {
				for _, d := range c.result.Decisions {
					t.Logf("program: %s: %s", d.Workload, d.Why)
				}
			}
		})
	}
}

// differences lists the points in which the result is none of the expected answers.
func (c *expertCase) differences(r *Result) (out []string) {
	for _, e := range c.Expect {
		say := func(format string, args ...any) {
			out = append(out, e.Workload+": "+fmt.Sprintf(format, args...))
		}
		d := r.Decision(e.Workload)
		if d == nil {
			say("not decided at all")
			continue
		}
		if len(e.Mechanism) > 0 && !slices.Contains(e.Mechanism, d.Mechanism) {
			say("mechanism %s", d.Mechanism)
		} else if len(e.Profile) > 0 && d.Mechanism == sharing.MechanismMIG && !slices.Contains(e.Profile, d.Profile) {
			say("profile %s", d.Profile)
		}
		if len(e.Pool) > 0 && !slices.Contains(e.Pool, d.Pool) {
			say("pool %s", d.Pool)
		}
		if len(e.Status) > 0 && !slices.Contains(e.Status, d.Status) {
			say("status %s", d.Status)
		}
		if e.Placed.differs(d.Placed) {
			say("placed %d", d.Placed)
		}
		if !strings.Contains(d.Why, e.Why) {
			say("why %s", d.Why)
		}
		if e.MoreGPUs > 0 && (d.MoreGPUs == nil || d.MoreGPUs.GPUs != e.MoreGPUs) {
			say("more GPUs %+v", d.MoreGPUs)
		}
		most, beside := together(r, e.Workload)
		if e.MostPerGPU > 0 && most > e.MostPerGPU {
			say("%d on one GPU", most)
		}
		for _, other := range e.Apart {
			if m, ok := beside[other]; ok {
				say("beside %s by %s", other, m)
			}
		}
	}
	used := 0
	for _, p := range r.Pools {
		used += p.GPUsNeeded
	}
	if c.GPUs.differs(used) {
		out = append(out, fmt.Sprintf("gpus %d", used))
	}
	return out
}

// together returns how many replicas of a workload the fullest GPU has without
// MIG between them, and which other workloads are there so.
func together(r *Result, workload string) (most int, beside map[string]sharing.Mechanism) {
	beside = map[string]sharing.Mechanism{}
	for _, p := range r.Pools {
		for _, g := range p.Groups {
			for _, l := range g.Layouts {
				at := map[string]int{}
				for _, t := range l.Tenants {
					at[t.Workload] += t.Replicas
				}
				if at[workload] == 0 {
					continue
				}
				most = max(most, at[workload])
				for other := range at {
					if other != workload {
						beside[other] = g.Mechanism
					}
				}
			}
		}
	}
	return most, beside
}

// TestNoPlanIsExpectedToMiss: of the experts' fleets no decision's figure lies beyond its limit.
func TestNoPlanIsExpectedToMiss(t *testing.T) {
	for _, c := range decidedCorpus(t) {
		for _, d := range c.result.Decisions {
			for _, k := range d.Consequences {
				latency := k.Metric != "busy %" && k.Metric != "rate %"
				if d.Placed > 0 && latency && k.Limit > 0 && k.Value > k.Limit {
					t.Errorf("%s: %s on %s: %s %v of %v", c.Name, d.Mechanism, d.Pool, k.Metric, k.Value, k.Limit)
				}
			}
		}
	}
}
