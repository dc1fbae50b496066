// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

// The page has both sides of a load's pressure with their axes' names, and nothing of what was not measured.
func TestPressurePage(t *testing.T) {
	t.Parallel()
	p := &profile.Pressure{StepMS: 2, Waits: []profile.Wait{{KernelUS: 20, BesideMeanUS: 40}, {Wide: true, KernelUS: 2, AloneMeanUS: 6, BesideMeanUS: 9}},
		Presses: []profile.Press{{KernelUS: 10, StepMS: 3}, {Reads: true, KernelUS: 80, StepMS: 4}}}
	write := func(rep *Report) string {
		var b strings.Builder
		must.Do(t, rep.Page().Write(&b))
		return b.String()
	}
	html := write(&Report{Basis: sharing.BasisSimulated, Pressures: []loadPressure{{"a <b>", p}, {"none", &profile.Pressure{}}}})
	for _, want := range []string{"Simulated: embedded servers", "Launches beside a &lt;b&gt;", "length of the kernel launched (us)", "mean time to its end (us)",
		"median step (ms)", "a block on each SM", "reading memory"} {
		if !strings.Contains(html, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(html, "Launches beside none") || strings.Contains(write(&Report{}), "Launches beside") {
		t.Error("what was not measured is drawn")
	}
}
