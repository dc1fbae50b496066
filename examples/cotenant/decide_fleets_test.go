// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

const (
	decideExample  = "../quickstart/fleet.yaml"
	decideProfiles = "../../decision/predict/testdata/h200-colocation.json"
	decideGolden   = "testdata/decide/"
)

// fleets returns the fleet files that these tests decide.
func fleets(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(decideFleets + "*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%v, %v", files, err)
	}
	return append(files, decideExample)
}

// decideJSON decides a fleet as JSON.
func decideJSON(t *testing.T, args ...string) (string, *decision.Result) {
	t.Helper()
	code, out, errs := program(t, "", append([]string{"decide", "-json"}, args...)...)
	if code != exitDone || errs != "" {
		t.Fatalf("%v: exit %d: %s", args, code, errs)
	}
	r := new(decision.Result)
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(r); err != nil {
		t.Fatal(err)
	}
	return out, r
}

// TestDecideFleets compares the decisions and layout of every fleet with a golden file, and with the expectations that
// the fleet's author wrote before the program ran.
func TestDecideFleets(t *testing.T) {
	race.Long(t)
	var all strings.Builder
	for _, file := range fleets(t) {
		name := filepath.Base(file)
		_, r := decideJSON(t, file)
		summary(&all, name, r)
		checkSources(t, r)
		if file != decideExample {
			checkExpected(t, file, "expect", r)
		}
		if name == "measured.yaml" {
			_, r := decideJSON(t, "-profiles", decideProfiles, file)
			summary(&all, name+" with profiles", r)
			checkSources(t, r)
			checkExpected(t, file, "expect with profiles", r)
			chat := r.Decision("chat")
			if chat.From != "measured-profiles" || chat.Predicted == nil || chat.Predicted.Tenants != 2 {
				t.Errorf("%+v; chat: %+v", chat.From, chat.Predicted)
			}
		}
	}
	golden.Check(t, decideGolden+"fleets.txt", []byte(all.String()))
}

// summary writes the decisions and the layouts of a result.
func summary(w *strings.Builder, name string, r *decision.Result) {
	fmt.Fprintf(w, "%s: GPUs: %d, %d today\n", name, r.Totals.GPUsAfter, r.Totals.GPUsToday)
	for _, d := range r.Decisions {
		fmt.Fprintf(w, "  %s %s: %d of %d %s\n", d.Workload, d.Status, d.Placed, d.Replicas,
			strings.Join(strings.Fields(fmt.Sprint(d.Mechanism, " ", d.Profile, " ", d.Pool)), " "))
		for _, hit := range d.Traps {
			fmt.Fprintf(w, "    trap %s\n", hit.ID)
		}
	}
	for _, p := range r.Pools {
		for _, g := range p.Groups {
			for _, l := range g.Layouts {
				fmt.Fprintf(w, "  %s %s: %d x", p.Pool, g.Mechanism, l.GPUs)
				for _, i := range l.Instances {
					fmt.Fprintf(w, " %s@%d %d %s,", i.Profile, i.Start, i.Replicas, i.Workload)
				}
				for _, n := range l.Tenants {
					fmt.Fprintf(w, " %d %s,", n.Replicas, n.Workload)
				}
				w.WriteString("\n")
			}
		}
	}
}

// checkExpected holds the decisions against a line of the file, "# expect:".
func checkExpected(t *testing.T, file, word string, r *decision.Result) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^# ` + word + `: (.*)$`).FindStringSubmatch(string(data))
	if m == nil {
		t.Fatal("no expectation")
	}
	pairs := strings.Fields(m[1])
	if len(pairs) != len(r.Decisions) {
		t.Errorf("%d expectations for %d decisions", len(pairs), len(r.Decisions))
	}
	for _, pair := range pairs {
		name, want, _ := strings.Cut(pair, "=")
		d := r.Decision(name)
		if d == nil {
			t.Errorf("no decision for %s", name)
			continue
		}
		got := d.Mechanism.String()
		if d.Profile != "" {
			got += ":" + d.Profile
		}
		if got != want {
			t.Errorf("%s: %s, expected %s", name, got, want)
		}
	}
}

// checkSources: every reason has a source that the result lists, except for statements of the input.
func checkSources(t *testing.T, r *decision.Result) {
	t.Helper()
	check := func(what string, id sharing.SourceID) {
		if _, ok := sharing.SourceByID(id); !ok || !slices.Contains(r.Sources.IDs, id) {
			t.Errorf("%s: source %q does not resolve, or the result does not list it", what, id)
		}
	}
	input := []string{"pinned-elsewhere", "not-allowed-in-pool", "gpu-count", "alone", "pool-full"}
	for _, d := range r.Decisions {
		mechanisms := map[sharing.Mechanism]bool{}
		for _, c := range d.Candidates {
			mechanisms[c.Mechanism] = true
			for _, reason := range c.Reasons {
				if !slices.Contains(input, reason.Code.String()) {
					check(d.Workload+" "+c.Mechanism.String()+" "+reason.Code.String(), reason.Source)
				}
			}
		}
		for _, m := range sharing.Mechanisms() {
			if !mechanisms[m] {
				t.Errorf("%s: %s is no candidate", d.Workload, m)
			}
		}
		if d.TradeOff != nil {
			check(d.Workload+" trade-off", d.TradeOff.Source)
		}
		for _, a := range d.Isolation {
			check(d.Workload+" isolation", a.Source)
		}
		for _, h := range d.Traps {
			if _, ok := sharing.TrapByID(h.ID); !ok {
				t.Errorf("%s: trap %s does not resolve", d.Workload, h.ID)
			}
		}
	}
}

// TestDiscovered plans discovered clusters of every kind as they are: too little is known of them, so that all stays,
// and each workload has its reason.
func TestDiscovered(t *testing.T) {
	files, err := filepath.Glob("../../decision/discover/testdata/clusters/*.json")
	if err != nil || len(files) < 9 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range append(files, "discover/cluster.json") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c := discover.New(discover.Options{})
		if err := c.Read(file, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		d := c.Discover()
		var fleet bytes.Buffer
		if err := d.WriteFleet(&fleet); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := program(t, fleet.String(), "decide", "-v", "-")
		if code != exitDone || stderr != "" || !strings.Contains(stdout, "Nothing to change: ") {
			t.Errorf("%s: exit %d, %s\n%s", file, code, stderr, stdout)
		}
		for _, w := range d.Fleet.Workloads {
			if !strings.Contains(stdout, " "+w.Name) {
				t.Errorf("%s: no answer for %s\n%s", file, w.Name, stdout)
			}
		}
	}
}

// TestDecideInFull compares whole outputs with golden files: text, JSON and an explanation.
func TestDecideInFull(t *testing.T) {
	for name, args := range map[string][]string{
		"fleet.txt":        {decideExample},
		"one.json":         {"-json", decideFleets + "llm-70b-on-l4.yaml"},
		"explain-chat.txt": {"-explain", "chat", "-profiles", decideProfiles, decideFleets + "measured.yaml"},
	} {
		code, text, errs := program(t, "", append([]string{"decide"}, args...)...)
		if code != exitDone || errs != "" {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
		golden.Check(t, decideGolden+name, []byte(text))
	}
	for args, want := range map[string]string{
		"-explain big " + decideFleets + "llm-70b-on-l4.yaml":             "none",
		"-explain rag " + decideFleets + "migration.yaml":                 "migrat",
		"-explain finetune " + decideFleets + "distributed-training.yaml": "replicas-are-not-capacity",
		"-confidence 0.5 " + decideExample:                                "at 50% confidence",
		"-confidence 0.999 " + decideExample:                              "at 99.9% confidence",
	} {
		if code, text, errs := program(t, "", append([]string{"decide"}, strings.Fields(args)...)...); code != exitDone || errs != "" || !strings.Contains(text, want) {
			t.Errorf("%s: exit %d, %s\n%s", args, code, errs, text)
		}
	}
}

// TestDecideOutOfEveryFleet writes the configuration of every fleet and compares
// the names of its files; one of them is held in full.
func TestDecideOutOfEveryFleet(t *testing.T) {
	var names strings.Builder
	for _, file := range fleets(t) {
		dir := filepath.Join(t.TempDir(), "plan")
		if code, _, errs := program(t, "", "decide", "-out", dir, file); code != exitDone {
			t.Fatalf("%s: exit %d: %s", file, code, errs)
		}
		fmt.Fprintf(&names, "%s\n", filepath.Base(file))
		var all bytes.Buffer
		err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			rel, _ := filepath.Rel(dir, path)
			fmt.Fprintf(&names, "  %s\n", filepath.ToSlash(rel))
			all.WriteString("=== " + filepath.ToSlash(rel) + "\n")
			all.Write(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(file) == "four-teams.yaml" {
			golden.Check(t, decideGolden+"four-teams.out", all.Bytes())
		}
	}
	golden.Check(t, decideGolden+"files.txt", []byte(names.String()))
}

// mostLines is the most lines of a small fleet's text without its sources, and mostSources the most lines of those.
const mostLines, mostSources = 25, 10

// TestTextFitsAScreen: the text of every fleet takes at most 25 lines of 100 columns and ten sources, the page begins
// with its first line, and explanations stay within the columns too.
func TestTextFitsAScreen(t *testing.T) {
	race.Long(t)
	for _, file := range fleets(t) {
		fleet, err := decision.LoadFleet(file)
		if err != nil {
			t.Fatal(err)
		}
		html := filepath.Join(t.TempDir(), "page.html")
		_, text, _ := program(t, "", "decide", "-report", html, file)
		first, _, _ := strings.Cut(text, "\n")
		if page, err := os.ReadFile(html); err != nil || !strings.HasPrefix(text, "partly") && !strings.Contains(string(page), first) {
			t.Errorf("%s: the page lacks %q, %v", file, first, err)
		}
		body, sources, _ := strings.Cut(text, "\nSOURCES\n")
		if n := strings.Count(body, "\n"); n > mostLines {
			t.Errorf("%s: %d lines:\n%s", file, n, body)
		}
		if n := strings.Count(sources, "\n"); n > mostSources {
			t.Errorf("%s: %d sources:\n%s", file, n, sources)
		}
		for _, w := range fleet.Workloads {
			code, explained, stderr := program(t, "", "decide", "-explain", w.Name, file)
			if code != exitDone || stderr != "" {
				t.Errorf("%s: -explain %s: exit %d: %s", file, w.Name, code, stderr)
			}
			text += explained
		}
		for _, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > decision.DefaultWidth {
				t.Errorf("%s: %d columns: %s", file, n, line)
			}
		}
	}
}

// TestDecideColumns: $COLUMNS sets the width.
func TestDecideColumns(t *testing.T) {
	for _, n := range []int{60, 140} {
		t.Setenv("COLUMNS", fmt.Sprint(n))
		var out, errs strings.Builder
		run(t.Context(), []string{"decide", "-explain", "embed", decideExample}, stdio{strings.NewReader(""), &out, &errs})
		body, _, _ := strings.Cut(out.String(), "\nSOURCES\n")
		longest := 0
		for _, line := range strings.Split(body, "\n") {
			longest = max(longest, utf8.RuneCountInString(line))
		}
		if longest > n || longest < n-12 || strings.Contains(body, "\x1b") {
			t.Errorf("%d columns: the longest line has %d", n, longest)
		}
	}
}
