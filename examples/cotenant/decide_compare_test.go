// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/golden"
)

// TestDecideCompare: the plain answer next to others, and one error with every problem.
func TestDecideCompare(t *testing.T) {
	const seven = decideFleets + "seven-tenants.yaml"
	code, out, errs := program(t, "", "decide", "-compare", "confidence=0.8,allow=hami:allow=hami+mps:headroom=0.2", seven)
	if code != exitDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	golden.Check(t, decideGolden+"compare.txt", []byte(out))
	code, out, _ = program(t, "", "decide", "-confidence", "0.9", "-json", "-compare", "confidence=0.97", seven)
	var c decision.Comparison
	if err := json.Unmarshal([]byte(out), &c); err != nil || code != exitDone || len(c.Results) != 2 || c.Results[0].Confidence != 0.9 || c.Options[1] != "confidence=0.97" {
		t.Errorf("exit %d, %v: %s", code, err, out)
	}
	for _, c := range []struct {
		args string
		want []string
	}{
		{"-compare confidense=0.9,allow=foo,confidence=2:headroom=7,allow=exclusive,headroom=y,confidence=0,, " + seven, []string{
			"-compare confidense=0.9: no option; use confidence=C, headroom=H or allow=MECHANISM", `mechanism "foo"; known`, ": confidence: 2 is out of range",
			"headroom=7: headroom.fragmentation: 7", "nothing delivers exclusive", `"y" is no number`, "confidence=0: 0 is out of range", "-compare : no option"}},
		{"-compare allow=hami -explain t1 " + seven, []string{"leave -explain, -out, -report and -strict out"}},
		{"-compare allow=hami -strict " + seven, []string{"leave -explain"}},
		{"-compare allow=hami missing.yaml", []string{"missing.yaml"}},
	} {
		code, out, errs := program(t, "", append([]string{"decide"}, strings.Fields(c.args)...)...)
		for _, want := range c.want {
			if code != exitBadInput || out != "" || !strings.Contains(errs, want) {
				t.Errorf("%s: exit %d, without %q: %s%s", c.args, code, want, out, errs)
			}
		}
	}
}
