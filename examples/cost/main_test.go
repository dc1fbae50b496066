package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/golden"
)

func invoke(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"all.txt":             {},
		"help.txt":            {"-h"},
		"tenants-hami.txt":    {"tenants", "-mechanism", "hami"},
		"tenants-own.json":    {"tenants", "-overhead", "3%", "-tenants", "7", "-utilisation", "10%", "-json"},
		"nodes-own.txt":       {"nodes", "-before", "8", "-after", "3", "-gpu-price", "12.24 EUR", "-cpu-price", "0.2 EUR"},
		"sla-own.txt":         {"sla", "-added", "40ms", "-loss-per-100ms", "2%", "-revenue", "100000 USD"},
		"sla-free.txt":        {"sla", "-added", "-5ms"},
		"compare-mig.txt":     {"compare", "-a", "exclusive", "-b", "mig", "-gpu", "L4"},
		"compare-hami.json":   {"compare", "-a", "hami", "-b", "time-slicing", "-json"},
		"attribute-idle.txt":  {"attribute", "-input", filepath.Join("testdata", "idle.yaml")},
		"attribute-idle.json": {"attribute", "-spread-idle", "-json", "-input", filepath.Join("testdata", "idle.yaml")},
		"attribute-mps.txt":   {"attribute", "-input", filepath.Join("testdata", "mps.json")},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := invoke("", args...)
			if code != 0 || errs != "" {
				t.Fatalf("exit %d, stderr %q", code, errs)
			}
			golden.Check(t, filepath.Join("testdata", "golden", name), []byte(out))
			if strings.HasSuffix(name, ".json") && !json.Valid([]byte(out)) {
				t.Error("not JSON")
			}
		})
	}
}

func TestJSON(t *testing.T) {
	code, out, errs := invoke("", "-json")
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(out), &all); code != 0 || errs != "" || err != nil || len(all) != len(calculators) {
		t.Errorf("exit %d, %s, %v, %d calculators", code, errs, err, len(all))
	}
}

func TestStdin(t *testing.T) {
	_, want, _ := invoke("", "attribute", "-input", filepath.Join("testdata", "idle.yaml"))
	code, got, errs := invoke(`{"price": "1 USD", "capacity": 4, "tenants": [{"tenant": "b", "allocated": 1}, {"tenant": "a", "allocated": 2}]}`, "attribute", "-input", "-")
	if code != 0 || got != want {
		t.Errorf("exit %d, %s\n%s\nwant\n%s", code, errs, got, want)
	}
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		stdin string
		args  []string
		want  []string
	}{
		{"", []string{"tenant"}, []string{`no calculator "tenant"`, "tenants, nodes"}},
		{"", []string{"-frmat", "json"}, []string{"-frmat"}},
		{"", []string{"-json", "tenants"}, []string{`"tenants"`}},
		{"", []string{"tenants", "-price", "$3.50"}, []string{"-price", "number first"}},
		{"", []string{"tenants", "-price", "-1 USD", "-gpus", "-1", "-tenants", "0", "-utilisation", "101%"}, []string{"price: ", "gpus: ", "tenants: ", "utilisation: "}},
		{"", []string{"tenants", "-mechanism", "time-slice"}, []string{`did you mean "time-slicing"?`}},
		{"", []string{"tenants", "-mechanism", "none"}, []string{"none is no way"}},
		{"", []string{"tenants", "-mechanism", "exclusive"}, []string{"tenants: "}},
		{"", []string{"tenants", "-mechanism", "mig", "-tenants", "8"}, []string{"tenants: mig takes at most 7"}},
		{"", []string{"compare", "-gpu", "A1000"}, []string{"A1000"}},
		{"", []string{"nodes", "-before", "-1", "-after", "-1", "-cpu-price", "-1 USD"}, []string{"before[0].count", "after[0].count", "after[1].price_per_hour"}},
		{"", []string{"nodes", "-cpu-price", "1 EUR"}, []string{"different currencies"}},
		{"", []string{"nodes", "-before", "0"}, []string{"before: "}},
		{"", []string{"sla", "-loss-per-100ms", "101%"}, []string{"lossPer100ms"}},
		{"", []string{"sla", "-revenue", "1 EUR"}, []string{"different currencies"}},
		{"", []string{"compare", "-a", "none"}, []string{"none"}},
		{"", []string{"compare", "-tenants", "0"}, []string{"tenants: "}},
		{"", []string{"attribute", "-input", filepath.Join("testdata", "no-such.yaml")}, []string{"no-such.yaml"}},
		{"", []string{"attribute", "-input", "-"}, []string{"standard input", "empty"}},
		{"price: 3\ntenants: [{tenant: a, allocated: many}, {allocated: 1}]\nextra: 1", []string{"attribute", "-input", "-"}, []string{"price: ", "tenants[0].allocated", "tenants[1].tenant", "extra"}},
		{"price: 3 USD\ntenants: [{tenant: a, allocated: -1}, {tenant: a, allocated: 1, used: -2}]", []string{"attribute", "-input", "-"}, []string{"tenants[0].allocated", "tenants[1].tenant", "tenants[1].used"}},
	} {
		code, out, errs := invoke(c.stdin, c.args...)
		if code != 2 || out != "" {
			t.Errorf("%v: exit %d, stdout %q", c.args, code, out)
		}
		for _, w := range c.want {
			if !strings.Contains(errs, w) {
				t.Errorf("%v: no %q in\n%s", c.args, w, errs)
			}
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestFailingOutput(t *testing.T) {
	var errs bytes.Buffer
	if code := run(nil, nil, brokenPipe{}, &errs); code != 5 || !strings.Contains(errs.String(), "broken pipe") {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}

// TestNonsense gives random arguments: each run ends with output or one error,
// never both.
func TestNonsense(t *testing.T) {
	words := []string{"tenants", "nodes", "sla", "compare", "attribute", "-h", "-price", "-gpus", "-tenants", "1e99", "NaN", "-1", "0", "3.25 USD", "-a", "-b", "mig", "\xff", "", "-added", "9999999h", "--", "-saving", "-input", "-revenue", "100%"}
	rng := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		args := make([]string, rng.IntN(6))
		for i := range args {
			args[i] = words[rng.IntN(len(words))]
		}
		code, out, errs := invoke("", args...)
		if (code == 0) != (errs == "") || (code == 0) != (out != "") || code != 0 && code != 2 {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, code, out, errs)
		}
	}
}
