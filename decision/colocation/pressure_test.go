package colocation

import (
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

// The page has both sides of a load's pressure with their axes' names, and nothing of what was not measured.
func TestPressurePage(t *testing.T) {
	t.Parallel()
	p := must.Get(probe.MeasurePressure(t.Context(), &probe.SimulatedTenant{Kernels: 100, Kernel: 20 * time.Microsecond, SMs: 0.6}, nil))(t)
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
