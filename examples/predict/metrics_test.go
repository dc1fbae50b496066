package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
)

// Pages without times are of their files' times; what was made of them is read back as profiles.
func TestFromMetrics(t *testing.T) {
	dir := t.TempDir()
	args := []string{"-gpu", "H200", "-out", filepath.Join(dir, "p.json")}
	for i := range 3 {
		var page strings.Builder
		one := func(name, kind string, v float64) {
			fmt.Fprintf(&page, "# TYPE vllm:%[1]s %[2]s\nvllm:%[1]s{model_name=\"m\"} %[3]v\n", name, kind, v)
		}
		one("prompt_tokens_total", "counter", float64(9000*i))
		one("generation_tokens_total", "counter", float64(3000*i))
		for _, h := range []struct {
			name       string
			each, mean float64
		}{{"time_to_first_token_seconds", 30, 0.06}, {"inter_token_latency_seconds", 2970, 0.012}, {"e2e_request_latency_seconds", 30, 1.25}} {
			n := float64(i) * h.each
			fmt.Fprintf(&page, "# TYPE vllm:%[1]s histogram\nvllm:%[1]s_bucket{model_name=\"m\",le=\"%[2]v\"} %[3]v\nvllm:%[1]s_bucket{model_name=\"m\",le=\"+Inf\"} %[3]v\nvllm:%[1]s_sum{model_name=\"m\"} %[4]v\nvllm:%[1]s_count{model_name=\"m\"} %[3]v\n",
				h.name, 2*h.mean, n, n*h.mean)
		}
		file := filepath.Join(dir, fmt.Sprint(i))
		at := time.Unix(1_700_000_000+int64(60*i), 0)
		if err := os.WriteFile(file, []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-from-metrics", file)
	}
	code, out, errs := call(t, args...)
	if code != 0 || out != "" || !strings.Contains(errs, "not told: the server's slots") {
		t.Fatal(code, out, errs)
	}
	profiles, err := profile.LoadProfiles(filepath.Join(dir, "p.json"))
	if err != nil || profiles.Len() != 1 {
		t.Fatal(err)
	}
	solo, err := profiles.Solo(profile.Server{Model: "m"}, profile.Load{Rate: 0.5, Prompt: 300, Output: 100})
	if err != nil || solo.TimeSlicing.Engine != "vllm" || solo.TimeSlicing.GPU != "H200" || solo.TimeSlicing.Fit == nil {
		t.Errorf("%+v, %v", solo.TimeSlicing, err)
	}
	if code, _, errs := call(t, args[:6]...); code != 2 || !strings.Contains(errs, "1 pages") {
		t.Errorf("one page: %d, %s", code, errs)
	}
	if code, _, errs := call(t, append(args, "-profiles", "x")...); code != 2 || !strings.Contains(errs, "another run") {
		t.Errorf("both: %d, %s", code, errs)
	}
}
