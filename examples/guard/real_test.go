package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// A server's own metrics and the device's process list name the neighbour that
// was switched on, and nobody before.
func TestWatch(t *testing.T) {
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
	const quiet = 4 * time.Second
	figures := func(util float64) map[telemetry.Metric]float64 {
		return map[telemetry.Metric]float64{telemetry.MetricGPUUtilPercent: util, telemetry.MetricPowerWatts: 100 + 4*util}
	}
	processes := func(batch float64) []telemetry.Process {
		return []telemetry.Process{{PID: 1, Name: "server", SMUtilPercent: telemetry.Some(30.0)}, {PID: 2, Name: "job", SMUtilPercent: telemetry.Some(batch)}}
	}
	reader, err := telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: []telemetrytest.Phase{
		{For: quiet, Figures: figures(50), Processes: processes(20)},
		{Figures: figures(95), Processes: processes(65)},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := predict.NewProfiles()
	if err != nil {
		t.Fatal(err)
	}
	predictor := predict.NewPredictor()
	s := &setup{gpus: []gpu{{Name: "GPU 0", Mechanism: sharing.MechanismTimeSlicing}}, profiles: profiles, predictor: &predictor,
		tenants: []tenant{
			{Name: "a/chat", Kind: decision.KindOnlineInference, Expect: telemetry.Some(predict.Interval{Value: 10, Low: 9, High: 11})},
			{Name: "b/job", Kind: decision.KindBatch}},
		sources: []fileTenant{{PIDs: []uint32{1}, Metrics: srv.URL}, {Command: "nightly"}}}
	r := defaultRules(500 * time.Millisecond)
	w := &watch{setup: s, rules: r, procs: func(pid uint32) string { return map[uint32]string{2: "python nightly.py"}[pid] }}
	g := newGuard(r, s.gpus, s.tenants, s.profiles, s.predictor)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var got *proposal
	found := errors.New("found")
	judged := 0
	err = w.run(ctx, reader, func(o observation) error {
		if o.At >= quiet {
			noisy.Store(true)
		}
		if _, ok := o.Tenants[0].TPOT.Get(); ok {
			judged++
		}
		for _, p := range g.step(o) {
			if p.Victim != "" {
				got = &p
				return found
			}
		}
		return nil
	})
	if !errors.Is(err, found) || got.Target != "b/job" || got.Victim != "a/chat" || got.At < quiet || judged < 5 {
		t.Fatalf("%v after %d windows with figures: %+v", err, judged, got)
	}
}
