package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
)

func runQuick(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func scenarios(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%v, %v", files, err)
	}
	return files
}

// TestScenarios compares each scenario's whole output with its golden files,
// and its decisions with what its author expected before the program ran.
func TestScenarios(t *testing.T) {
	for _, file := range append(scenarios(t), "fleet.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			base := filepath.Join("testdata", "golden", strings.TrimSuffix(filepath.Base(file), ".yaml"))
			code, text, stderr := runQuick(t, "", "-input", file)
			if code != exitOK || stderr != "" {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			golden.Check(t, base+".txt", []byte(text))
			_, out, _ := runQuick(t, "", "-input", file, "-format", "json")
			golden.Check(t, base+".json", []byte(out))
			var r decision.Result
			dec := json.NewDecoder(strings.NewReader(out))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&r); err != nil {
				t.Fatal(err)
			}
			checkSources(t, &r)
			if file != "fleet.yaml" {
				checkExpected(t, file, "expect", &r)
			}
		})
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

// checkSources: every reason has a source that the result lists, but for what
// the input itself says.
func checkSources(t *testing.T, r *decision.Result) {
	t.Helper()
	check := func(what string, id sharing.SourceID) {
		if _, ok := sharing.SourceByID(id); !ok || !slices.Contains(r.Sources.IDs, id) {
			t.Errorf("%s: source %q does not resolve, or the result does not list it", what, id)
		}
	}
	input := []gate.Code{gate.CodePinnedElsewhere, gate.CodeNotAllowedInPool, gate.CodeGPUCount, gate.CodeAlone, gate.CodePoolFull}
	for _, d := range r.Decisions {
		mechanisms := map[sharing.Mechanism]bool{}
		for _, c := range d.Candidates {
			mechanisms[c.Mechanism] = true
			for _, reason := range c.Reasons {
				if !slices.Contains(input, reason.Code) {
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

// TestMeasuredEvidence: the same file decides otherwise with measured profiles,
// and says why.
func TestMeasuredEvidence(t *testing.T) {
	const file, profiles = "testdata/measured.yaml", "../predict/testdata/h200-colocation.json"
	code, text, stderr := runQuick(t, "", "-input", file, "-profiles", profiles)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	golden.Check(t, "testdata/golden/measured-with-profiles.txt", []byte(text))
	_, out, _ := runQuick(t, "", "-input", file, "-profiles", profiles, "-format", "json")
	golden.Check(t, "testdata/golden/measured-with-profiles.json", []byte(out))
	var r decision.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	checkSources(t, &r)
	checkExpected(t, file, "expect with profiles", &r)
	if r.From.Profiles != 2 || !strings.Contains(text, "2 by measured profiles") {
		t.Errorf("%+v\n%s", r.From, text)
	}
	chat := r.Decision("chat")
	if chat.Predicted == nil || chat.Predicted.Tenants != 2 || len(chat.BreakEven) == 0 {
		t.Errorf("chat: %+v, %+v", chat.Predicted, chat.BreakEven)
	}
	for _, args := range [][]string{
		{"-profiles", "missing.json"}, {"-profiles", "main.go"}, {"-predictor", "x.json"},
		{"-profiles", profiles, "-predictor", "main.go"},
	} {
		if code, out, _ := runQuick(t, "", append(args, "-input", file)...); code != exitBadInput || out != "" {
			t.Errorf("%v: exit %d", args, code)
		}
	}
}

func TestEmbeddedFleetIsTheDefault(t *testing.T) {
	_, want, _ := runQuick(t, "", "-input", "fleet.yaml")
	code, got, stderr := runQuick(t, "")
	if code != exitOK || got != want || stderr != "" {
		t.Errorf("exit %d, stderr %q, same output %v", code, stderr, got == want)
	}
	data, err := os.ReadFile("fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, piped, _ := runQuick(t, string(data), "-input", "-"); piped != want {
		t.Error("standard input gives something else")
	}
}

// TestDiscovered: what is discovered of clusters of every kind is decided as it
// stands: what nobody knows of them makes an answer provisional, and no error.
func TestDiscovered(t *testing.T) {
	files, err := filepath.Glob("../../decision/discover/testdata/clusters/*.json")
	if err != nil || len(files) < 9 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range append(files, "../cotenant/discover/cluster.json") {
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
		code, stdout, stderr := runQuick(t, fleet.String(), "-input", "-")
		if code != exitOK || stderr != "" || !strings.Contains(stdout, "provisional: ") {
			t.Errorf("%s: exit %d, %s\n%s", file, code, stderr, stdout)
		}
		for _, w := range d.Fleet.Workloads {
			if !strings.Contains(stdout, "  "+w.Name+" ") {
				t.Errorf("%s: no answer for %s\n%s", file, w.Name, stdout)
			}
		}
	}
}

func TestStrict(t *testing.T) {
	if code, _, _ := runQuick(t, "", "-input", "testdata/llm-70b-on-l4.yaml"); code != exitOK {
		t.Errorf("exit %d", code)
	}
	if code, _, _ := runQuick(t, "", "-input", "testdata/llm-70b-on-l4.yaml", "-strict"); code != exitUnplaced {
		t.Errorf("exit %d with -strict", code)
	}
	const inPart = "version: v1\npools: [{name: p, gpu: L4, count: 1}]\nworkloads: [{name: w, kind: training, replicas: 3, memory: 20GiB, gpu_busy: 0.9}]\n"
	for args, want := range map[string]int{"": exitOK, "-strict": exitUnplaced} {
		code, text, _ := runQuick(t, inPart, append([]string{"-input", "-"}, strings.Fields(args)...)...)
		if code != want || !strings.Contains(text, "1 of 3 replicas placed") || !strings.Contains(text, "2 GPUs more in p would do") {
			t.Errorf("%q: exit %d:\n%s", args, code, text)
		}
	}
	if code, _, _ := runQuick(t, "", "-strict"); code != exitOK {
		t.Errorf("exit %d with -strict and everything placed", code)
	}
}

// TestBadInput: exit 2, every problem on standard error, nothing written.
func TestBadInput(t *testing.T) {
	twoProblems, noProfiles := filepath.Join(t.TempDir(), "fleet.yaml"), filepath.Join(t.TempDir(), "profiles.json")
	for name, text := range map[string]string{noProfiles: "[]", twoProblems: "version: v1\npools: [{name: a, gpu: X9000, count: 1}]\nworkloads: [{name: w, kind: batch, memory: 5GiB, gpu_busy: 7}]\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, in string
		args     []string
		want     []string
	}{
		{"empty", "", nil, []string{"the document is empty"}},
		{"nonsense", "%%% not yaml: [", nil, []string{"not valid YAML"}},
		{"utf8", "version: \xff", nil, []string{"invalid UTF-8"}},
		{"several", "version: v1\npools: [{name: a, gpu: X9000, count: -1}]\nworkloads: [{name: w, kind: batch, memory: 5, gpu_busy: 7}]\n", nil,
			[]string{"pools[0].gpu: ", "pools[0].count: ", "workloads[0].memory: ", "workloads[0].gpu_busy: "}},
		{"no file", "", []string{"-input", "does-not-exist.yaml"}, []string{"does-not-exist.yaml"}},
		{"format", "", []string{"-format", "xml"}, []string{"use text or json"}},
		{"argument", "", []string{"fleet.yaml"}, []string{"name the file with -input"}},
		{"flag", "", []string{"-nope"}, []string{"-nope"}},
		{"measure", "", []string{"-measure"}, []string{"go run ./examples/measure -input FILE"}},
		{"two in one file", "", []string{"-input", twoProblems}, []string{twoProblems + ": ", "pools[0].gpu: ", "workloads[0].gpu_busy: "}},
		{"no profiles", "", []string{"-profiles", noProfiles}, []string{noProfiles + ": holds nothing that was measured alone"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "plan")
			args := c.args
			if args == nil {
				args = []string{"-input", "-", "-out", out}
			}
			code, stdout, stderr := runQuick(t, c.in, args...)
			if code != exitBadInput || stdout != "" {
				t.Errorf("exit %d, stdout %q", code, stdout)
			}
			for _, w := range c.want {
				if !strings.Contains(stderr, w) {
					t.Errorf("stderr lacks %q:\n%s", w, stderr)
				}
			}
			if _, err := os.Stat(out); !os.IsNotExist(err) {
				t.Errorf("something was written: %v", err)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	code, stdout, stderr := runQuick(t, "", "-h")
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "-input") || !strings.Contains(stdout, "exit:") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	if code, out, _ := runQuick(t, "", "-schema"); code != exitOK || !json.Valid([]byte(out)) {
		t.Errorf("-schema: exit %d", code)
	}
}

// TestOut writes the configuration of every scenario, and refuses to write it
// over what is there.
func TestOut(t *testing.T) {
	for _, file := range append(scenarios(t), "fleet.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "plan")
			code, _, stderr := runQuick(t, "", "-input", file, "-out", dir)
			if code != exitOK {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			var all bytes.Buffer
			err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				data, err := os.ReadFile(path)
				rel, _ := filepath.Rel(dir, path)
				all.WriteString("=== " + filepath.ToSlash(rel) + "\n")
				all.Write(data)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(all.String(), "=== plan.md\n") {
				t.Error("no plan.md")
			}
			golden.Check(t, filepath.Join("testdata", "golden", strings.TrimSuffix(filepath.Base(file), ".yaml")+".out"), all.Bytes())
			if code, _, _ := runQuick(t, "", "-input", file, "-out", dir); code != exitBadInput {
				t.Errorf("a second run into the same folder: exit %d", code)
			}
		})
	}
}
