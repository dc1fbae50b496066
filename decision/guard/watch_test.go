// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// TestOwnersByArguments distinguishes processes by whole arguments.
func TestOwnersByArguments(t *testing.T) {
	w := &watcher{
		pods: container.NewResolver(fstest.MapFS{}),
		tenants: []Tenant{
			{Command: []string{"--port", "8001"}}, {Command: []string{"jupyter"}}, {PIDs: []uint32{7}},
			{Command: []string{"train.py"}}, {Command: []string{"--fast"}},
		},
	}
	for _, c := range []struct {
		args string
		pid  uint32
		want int
	}{
		{"vllm serve --port 8001", 1, 0}, {"vllm serve --port 80012", 1, -1}, {"vllm serve --port=8001", 1, -1},
		{"/usr/bin/jupyter lab", 1, 1}, {"vim jupyter.txt", 1, -1}, {"anything", 7, 2},
		{"python /home/a/train.py", 1, 3}, {"python train.py --fast", 1, shared}, {"", 1, -1},
	} {
		w.procs = func(uint32) []string { return strings.Fields(c.args) }
		if got, _ := w.owner(telemetry.Process{PID: c.pid}, 0); got != c.want {
			t.Errorf("%q: %d, want %d", c.args, got, c.want)
		}
	}
}

// A server's own metrics and the device's process list name the neighbour that was switched on, and no other before.
func TestRun(t *testing.T) {
	var noisy atomic.Bool
	var count, sum float64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		step := 0.010
		if noisy.Load() {
			step = 0.030
		}
		count, sum = count+50, sum+50*step
		fmt.Fprintf(w, "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{model_name=\"m\",engine=\"0\"} %g\n"+
			"# TYPE vllm:inter_token_latency_seconds histogram\nvllm:inter_token_latency_seconds_bucket{model_name=\"m\",engine=\"0\",le=\"+Inf\"} %g\n"+
			"vllm:inter_token_latency_seconds_sum{model_name=\"m\",engine=\"0\"} %g\nvllm:inter_token_latency_seconds_count{model_name=\"m\",engine=\"0\"} %g\n",
			count, count, sum, count)
	}))
	defer srv.Close()
	const quiet = 2 * time.Second
	figures := func(util float64) map[telemetry.Metric]float64 {
		return map[telemetry.Metric]float64{telemetry.MetricGPUUtilPercent: util, telemetry.MetricPowerWatts: 100 + 4*util}
	}
	processes := func(batch float64) []telemetry.Process {
		return []telemetry.Process{{PID: 1, Name: "server", SMUtilPercent: sharing.Some(30.0)}, {PID: 2, Name: "job", SMUtilPercent: sharing.Some(batch)}}
	}
	reader, err := telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: []telemetrytest.Phase{
		{For: quiet, Figures: figures(50), Processes: processes(20)},
		{Figures: figures(95), Processes: processes(65)},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	c := &Config{GPUs: []layout.Device{{Mode: sharing.MechanismTimeSlicing}}, Tenants: []Tenant{
		{Name: "a/chat", Kind: decision.KindOnlineInference, PIDs: []uint32{1}, Metrics: srv.URL,
			Expect: sharing.Some(profile.Interval{Value: 10, Low: 9, High: 11})},
		{Name: "b/job", Kind: decision.KindBatch, PIDs: []uint32{2}},
	}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var got *Proposal
	found := errors.New("found")
	evaluated := 0
	err = Run(ctx, reader, DefaultRules(200*time.Millisecond), c, &Actor{}, func(o Observation, list []Proposal) error {
		if o.At >= quiet {
			noisy.Store(true)
		}
		if _, ok := o.Tenants[0].TPOT.Get(); ok {
			evaluated++
		}
		for _, p := range list {
			if p.Victim != "" {
				got = &p
				return found
			}
		}
		return nil
	})
	if !errors.Is(err, found) || got.Target != "b/job" || got.Victim != "a/chat" || got.At < quiet || evaluated < 5 {
		t.Fatalf("%v after %d windows with figures: %+v", err, evaluated, got)
	}
}
