// SPDX-License-Identifier: Apache-2.0

//go:build browser

package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestCalculator: the page's arithmetic is that of package cost, for 1,000 random inputs, and its form answers.
func TestCalculator(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var lines bytes.Buffer
	var inputs [][5]int64
	for range 1000 {
		in := [5]int64{rng.Int64N(5000), 1 + rng.Int64N(50_000_000), 1 + rng.Int64N(64), rng.Int64N(1_000_001), rng.Int64N(900_000)}
		inputs = append(inputs, in)
		if err := json.NewEncoder(&lines).Encode(in); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "cost.html")
	run := func(args ...string) []byte {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Stdin = root, &lines
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return out
	}
	var want, got [][5]any
	if err := json.Unmarshal(run("run", "./tools/browser/testdata/figures.go"), &want); err != nil {
		t.Fatal(err)
	}
	run("run", "./examples/cotenant", "cost", "-report", file)
	tab := open(t)
	all, err := json.Marshal(inputs)
	if err != nil {
		t.Fatal(err)
	}
	var verdicts []string
	if err := chromedp.Run(tab, chromedp.Navigate("file://"+file), chromedp.Evaluate(fmt.Sprintf(`%s.map(([g, m, t, u, o]) => {
		const f = calculate(g, m, t, u / 1e6, o);
		return [String(f.each), String(f.fraction), f.capacity, f.work, f.needed];
	})`, all), &got), chromedp.Evaluate(`[["25", "time-slicing"], ["60", "mps"], ["25", "vgpu"], ["x", "mps"]].map(([use, m]) => {
		form.elements.use.value = use; form.elements.mechanism.value = m;
		form.dispatchEvent(new Event("input"));
		return document.getElementById("verdict").textContent.split(":")[0];
	})`, &verdicts)); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if !reflect.DeepEqual(want[i], got[i]) {
			t.Fatalf("%v: the page has %v, the package %v", inputs[i], got[i], want[i])
		}
	}
	if len(got) != 1000 || !reflect.DeepEqual(verdicts, []string{"yes", "no", "unknown", "give a number for"}) {
		t.Errorf("%d figures, %q", len(got), verdicts)
	}
}
