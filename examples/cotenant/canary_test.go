package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/canary"
)

func callCanary(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = run(ctx, append([]string{"canary"}, args...), stdio{strings.NewReader(""), &out, &errs})
	return out.String(), errs.String(), code
}

// TestCanaryDay: the plan that is printed plays a day, the same each time.
func TestCanaryDay(t *testing.T) {
	text, _, code := callCanary(t.Context(), "-print-plan")
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(plan, []byte(text), 0o600); err != nil || code != 0 {
		t.Fatal(code, err)
	}
	day, errs, code := callCanary(t.Context(), "-plan", plan)
	if code != 0 || strings.Count(day, "promote ") != 5 || !strings.Contains(day, "Nothing here is measured") {
		t.Errorf("exit %d: %s\n%s", code, errs, day)
	}
	out, _, code := callCanary(t.Context(), "-plan", plan, "-json")
	var rep canary.DayReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil || code != 0 || rep.String() != day {
		t.Errorf("exit %d: %v\n%s", code, err, out)
	}
}

func TestCanaryRefuses(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	for name, c := range map[string]struct {
		plan string
		args []string
		code int
		want string
	}{
		"no plan":      {"", nil, exitBadInput, "no such file"},
		"keys":         {"tenant: 1\n", nil, exitBadInput, "tenant: unknown key"},
		"flags":        {"PLAN", []string{"-again"}, exitBadInput, "-again: is for -real only"},
		"deadline":     {"deadline: 1m\nPLAN", nil, exitBadInput, "the deadline is shorter than any test can take"},
		"no consent":   {"PLAN", []string{"-real"}, exitNo, `an owner has not agreed: a (owner "")`},
		"kill switch":  {"AGREED", []string{"-real", "-kill", "/"}, exitNo, "kill switch: /"},
		"bad address":  {"AGREED", []string{"-real", "-listen", "nowhere:x"}, exitBadInput, "-listen"},
		"interrupted":  {"AGREED", []string{"-real"}, exitInterrupted, "0s  keep looking"},
		"needs no log": {"AGREED", []string{"-real", "-audit", "/no/such/folder/log"}, exitBadInput, "-audit"},
	} {
		t.Run(name, func(t *testing.T) {
			plan := filepath.Join(t.TempDir(), "plan.yaml")
			tenant := "tenants:\n  - {name: a, page: '" + srv.URL + "', objectives: [{metric: ttft, limit: 1}]"
			text := strings.NewReplacer("PLAN", tenant+"}\n", "AGREED", tenant+", agreed: true}\n").Replace(c.plan)
			if text != "" {
				if err := os.WriteFile(plan, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
			defer cancel()
			if _, errs, code := callCanary(ctx, append([]string{"-plan", plan}, c.args...)...); code != c.code || !strings.Contains(errs, c.want) {
				t.Errorf("exit %d: %s", code, errs)
			}
		})
	}
}
