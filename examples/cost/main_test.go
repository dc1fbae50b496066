package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/golden"
)

func invoke(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"all.txt":          {},
		"help.txt":         {"-h"},
		"tenants-hami.txt": {"tenants", "-mechanism", "hami"},
		"nodes-own.txt":    {"nodes", "-before", "8", "-after", "3", "-gpu-price", "12.24 EUR", "-cpu-price", "0.2 EUR"},
		"sla-own.txt":      {"sla", "-added", "40ms", "-loss-per-100ms", "2%", "-revenue", "100000 USD"},
		"sla-free.txt":     {"sla", "-added", "-5ms"},
		"compare-mig.txt":  {"compare", "-a", "exclusive", "-b", "mig"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := invoke(args...)
			if code != 0 || errs != "" {
				t.Fatalf("exit %d, stderr %q", code, errs)
			}
			golden.Check(t, filepath.Join("testdata", "golden", name), []byte(out))
		})
	}
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"tenant"}, []string{`no calculator "tenant"`}},
		{[]string{"-frmat", "json"}, []string{"-frmat"}},
		{[]string{"-json"}, []string{"-json"}},
		{[]string{"tenants", "-price", "$3.50"}, []string{"-price", "number first"}},
		{[]string{"tenants", "-price", "-1 USD", "-gpus", "-1", "-tenants", "0", "-utilisation", "101%"}, []string{"price: ", "gpus: ", "tenants: ", "utilisation: "}},
		{[]string{"tenants", "-mechanism", "time-slice"}, []string{`did you mean "time-slicing"?`}},
		{[]string{"tenants", "-mechanism", "none"}, []string{"none is no way"}},
		{[]string{"tenants", "-mechanism", "exclusive"}, []string{"tenants: "}},
		{[]string{"tenants", "-mechanism", "mig", "-tenants", "8"}, []string{"tenants: mig takes at most 7"}},
		{[]string{"nodes", "-before", "-1", "-after", "-1", "-cpu-price", "-1 USD"}, []string{"before[0].count", "after[0].count", "after[1].price_per_hour"}},
		{[]string{"nodes", "-cpu-price", "1 EUR"}, []string{"different currencies"}},
		{[]string{"nodes", "-before", "0"}, []string{"before: "}},
		{[]string{"sla", "-loss-per-100ms", "101%"}, []string{"lossPer100ms"}},
		{[]string{"sla", "-revenue", "1 EUR"}, []string{"different currencies"}},
		{[]string{"compare", "-a", "none"}, []string{"none"}},
		{[]string{"compare", "-tenants", "0"}, []string{"tenants: "}},
	} {
		code, out, errs := invoke(c.args...)
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

func TestSays(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"tenants", "-gpus", "1000000", "-utilisation", "99.99%"}, "more work done:   2400.0 GPU-hours"},
		{[]string{"tenants", "-gpus", "10000000", "-tenants", "2"}, "need not be bought:  120000000.0 GPU-hours"},
		{[]string{"tenants", "-tenants", "3", "-utilisation", "50%"}, "need 150% of a GPU: they do not fit"},
		{[]string{"sla", "-saving", "0 USD"}, "at any revenue"},
		{[]string{"sla", "-saving", "-5 USD", "-added", "0s"}, "at any revenue"},
		{[]string{"sla", "-saving", "5 USD", "-added", "0s"}, "never"},
	} {
		if code, out, errs := invoke(c.args...); code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit %d, no %q in\n%s%s", c.args, code, c.want, out, errs)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestFailingOutput(t *testing.T) {
	var errs bytes.Buffer
	if code := run(nil, brokenPipe{}, &errs); code != 5 || !strings.Contains(errs.String(), "broken pipe") {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}

// TestNonsense gives random arguments: each run ends with output or one error, never both.
func TestNonsense(t *testing.T) {
	words := []string{"tenants", "nodes", "sla", "compare", "-h", "-price", "-gpus", "-tenants", "1e99", "NaN", "-1", "0", "3.25 USD", "-a", "-b", "mig", "\xff", "", "-added", "9999999h", "--", "-saving", "-revenue", "100%"}
	rng := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		args := make([]string, rng.IntN(6))
		for i := range args {
			args[i] = words[rng.IntN(len(words))]
		}
		code, out, errs := invoke(args...)
		if (code == 0) != (errs == "") || (code == 0) != (out != "") || code != 0 && code != 2 {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, code, out, errs)
		}
	}
}
