// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
)

func textOf(t *testing.T, r *Result, opts TextOptions) []string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteText(&b, opts); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

func checkWidth(t *testing.T, what string, lines []string, width int) {
	t.Helper()
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > width {
			t.Errorf("%s: %d columns: %s", what, n, line)
		}
	}
}

// TestTextOfManyWorkloads: 800 workloads take at most 80 lines of 100 columns,
// however many pools they are on, and every workload is counted in them.
func TestTextOfManyWorkloads(t *testing.T) {
	t.Parallel()
	race.Long(t)
	for seed, pools := range []int{1, 6, 50}[:nightly.Cases(1, 3)] {
		f := randomFleet(rand.New(rand.NewPCG(uint64(seed), 9)), pools, 240)
		for i := range f.Pools {
			f.Pools[i].Count = 900 / pools
		}
		lines := textOf(t, decide(t, f), TextOptions{})
		checkWidth(t, fmt.Sprintf("%d pools", pools), lines, DefaultWidth)
		if len(lines) > 80 {
			t.Errorf("%d pools: %d lines:\n%s", pools, len(lines), strings.Join(lines, "\n"))
		}
		if text := strings.Join(lines, "\n"); !strings.Contains(text, "240 workloads: ") {
			t.Errorf("%d pools: the workloads are not counted:\n%s", pools, text)
		}
	}
}

// TestTextWraps at any width, down to the narrowest, in every mode.
func TestTextWraps(t *testing.T) {
	f := randomFleet(rand.New(rand.NewPCG(4, 9)), 3, 12)
	r := decide(t, f)
	for _, width := range []int{narrowest, 60, 100, 160} {
		modes := []TextOptions{{}}
		for _, w := range f.Workloads {
			modes = append(modes, TextOptions{Explain: w.Name})
		}
		for _, opts := range modes {
			opts.Width = width
			lines := textOf(t, r, opts)
			if at := indexOf(lines, "SOURCES"); at >= 0 {
				lines = lines[:at] // their lines are of 100 columns
			}
			checkWidth(t, fmt.Sprintf("%+v", opts), lines, width)
		}
	}
}

func indexOf(lines []string, want string) int {
	for i, line := range lines {
		if line == want {
			return i
		}
	}
	return -1
}

// TestTextOfWhatThereIsNot: an unknown workload is an error that names the known ones, and nothing is written.
func TestTextOfWhatThereIsNot(t *testing.T) {
	r := decide(t, randomFleet(rand.New(rand.NewPCG(4, 9)), 1, 2))
	var b bytes.Buffer
	if err := r.WriteText(&b, TextOptions{Explain: "nobody"}); err == nil || !strings.Contains(err.Error(), "w0, w1") || b.Len() > 0 {
		t.Errorf("%v, %q", err, b.String())
	}
}

// TestTextOfAnIdleShare: nothing is busy "0% (0 to 0)".
func TestTextOfAnIdleShare(t *testing.T) {
	f, err := ParseFleet([]byte(`
version: v1
pools: [{name: a, gpu: A100-SXM4-80GB, count: 1}]
workloads:
- {name: w, kind: online-inference, replicas: 2, isolation: {memory: hardware}, model: {parameters: 1e9, weights: fp16, kv_cache: 1GiB},
   load: {requests_per_s: 0.01, input_tokens: 100, output_tokens: 10}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := decide(t, f).WriteText(&b, TextOptions{}); err != nil || !strings.Contains(b.String(), "keeps up, under 1% busy") {
		t.Errorf("%v: %s", err, b.String())
	}
}
