package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/decision"
)

// bubble runs the program on the simulation in simulated time, so that its
// figures are those of the simulated GPU and not of this machine's timers. It
// returns the report, the folder of the results and what was printed. edit
// changes the simulated machine behind the predictor's back.
func bubble(t *testing.T, args []string, edit func(*plan)) (*report, string, string, int) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "results")
	var stdout, stderr bytes.Buffer
	var code int
	synctest.Test(t, func(t *testing.T) {
		a := app{stdout: &stdout, stderr: &stderr, site: func(c *config, p *plan) (site, func() error, error) {
			c.userStamps = true
			real := *p
			if edit != nil {
				edit(&real)
			}
			return &simulation{plan: &real, pipe: true}, func() error { return nil }, nil
		}}
		code = a.run(t.Context(), append([]string{"-simulate", "-out", dir}, args...))
	})
	t.Logf("%s", stderr.String())
	b, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rep report
	if err := json.Unmarshal(b, &rep); err != nil {
		t.Fatal(err)
	}
	return &rep, dir, stdout.String(), code
}

func TestSimulationAgrees(t *testing.T) {
	began := time.Now()
	rep, _, out, code := bubble(t, nil, nil)
	t.Logf("%s took %v", out, time.Since(began))
	if code != exitOK {
		t.Fatalf("exit %d", code)
	}
	for _, a := range rep.Agreement {
		if a.Mode == nil && a.Metric == decision.TPOTP50 && a.Inside != a.Points {
			t.Errorf("%+v", a)
		}
	}
}
