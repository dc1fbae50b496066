package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/golden"
)

// mostLines is how much the text of a small fleet may be, without its sources,
// and mostSources how much those may.
const mostLines, mostSources = 25, 10

// TestTextFitsAScreen: every scene takes at most 25 lines of 100 columns and ten
// sources, and what is explained stays within the columns too.
func TestTextFitsAScreen(t *testing.T) {
	for _, file := range append(scenarios(t), "fleet.yaml") {
		fleet, err := decision.LoadFleet(file)
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := runQuick(t, "", "-input", file)
		body, sources, _ := strings.Cut(text, "\nSOURCES\n")
		if n := strings.Count(body, "\n"); n > mostLines {
			t.Errorf("%s: %d lines:\n%s", file, n, body)
		}
		if n := strings.Count(sources, "\n"); n > mostSources {
			t.Errorf("%s: %d sources:\n%s", file, n, sources)
		}
		for _, w := range fleet.Workloads {
			code, explained, stderr := runQuick(t, "", "-input", file, "-explain", w.Name)
			if code != exitOK || stderr != "" {
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

// TestExplainAndWhy: their text, and what they refuse.
func TestExplainAndWhy(t *testing.T) {
	for name, args := range map[string][]string{
		"explain-chat":            {"-explain", "chat"},
		"why-trap":                {"-why", "mps-fault-spreads"},
		"why-source":              {"-why", "nvidia-mps-guide"},
		"explain-none":            {"-explain", "big", "-input", "testdata/llm-70b-on-l4.yaml"},
		"explain-with-profiles":   {"-explain", "chat", "-input", "testdata/measured.yaml", "-profiles", "../predict/testdata/h200-colocation.json"},
		"explain-with-migration":  {"-explain", "rag", "-input", "testdata/migration.yaml"},
		"explain-asked-otherwise": {"-explain", "finetune", "-input", "testdata/distributed-training.yaml"},
	} {
		code, text, stderr := runQuick(t, "", args...)
		if code != exitOK || stderr != "" {
			t.Errorf("%v: exit %d: %s", args, code, stderr)
		}
		golden.Check(t, filepath.Join("testdata", "golden", name+".txt"), []byte(text))
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-explain", "nobody"}, "the fleet has chat, embed"},
		{[]string{"-why", "nothing"}, "no trap and no source"},
		{[]string{"-why", "mps-fault-spreads", "-explain", "chat"}, "one question each"},
		{[]string{"-why", "mps-fault-spreads", "-format", "json"}, "-format json has everything"},
		{[]string{"-all"}, "-all"},
		{[]string{"-confidence", "0.4"}, "use 0.5 to 0.999"},
		{[]string{"-confidence", "0.9995"}, "use 0.5 to 0.999"},
		{[]string{"-confidence", "NaN"}, "use 0.5 to 0.999"},
		{[]string{"-confidence", "much"}, "confidence"},
	} {
		out := filepath.Join(t.TempDir(), "plan")
		code, stdout, stderr := runQuick(t, "", append(c.args, "-out", out)...)
		if code != exitBadInput || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit %d, %q, %q", c.args, code, stdout, stderr)
		}
		if _, err := os.Stat(out); !os.IsNotExist(err) {
			t.Errorf("%v: something was written: %v", c.args, err)
		}
	}
}

// TestConfidenceIsAskedFor: more of it never costs less, and the text says it.
func TestConfidenceIsAskedFor(t *testing.T) {
	for _, c := range []string{"0.5", "0.999"} {
		_, text, stderr := runQuick(t, "", "-confidence", c)
		want := map[string]string{"0.5": "at 50% confidence", "0.999": "at 99.9% confidence"}[c]
		if !strings.Contains(text, want) || stderr != "" {
			t.Errorf("%s: %s%s", c, text, stderr)
		}
	}
}

// TestColumns: $COLUMNS sets the width; what is no terminal has no colours.
func TestColumns(t *testing.T) {
	for _, n := range []int{60, 140} {
		t.Setenv("COLUMNS", fmt.Sprint(n))
		_, text, _ := runQuick(t, "", "-explain", "embed")
		body, _, _ := strings.Cut(text, "\nSOURCES\n")
		longest := 0
		for _, line := range strings.Split(body, "\n") {
			longest = max(longest, utf8.RuneCountInString(line))
		}
		if longest > n || longest < n-12 || strings.Contains(text, "\x1b") {
			t.Errorf("%d columns: the longest line has %d", n, longest)
		}
	}
}

func TestMain(m *testing.M) {
	os.Unsetenv("COLUMNS")
	os.Exit(m.Run())
}
