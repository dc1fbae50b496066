// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
)

// accounts is a view in which each pod has so many seconds of a GPU.
func accounts(seconds ...int) *view {
	v := &view{View: ledger.View{Observed: map[string]time.Duration{}}}
	for i, n := range seconds {
		a, pod := ledger.Amount{Time: time.Duration(n) * time.Second}, container.Pod{Namespace: fmt.Sprint("ns", i), Name: "p"}
		v.Rows = append(v.Rows, ledger.Row{Key: ledger.Key{GPU: "G", Pod: pod, Account: "tenant"}, Amount: a})
		v.Totals = append(v.Totals, ledger.Total{TotalKey: ledger.TotalKey{GPU: "G", Namespace: pod.Namespace, Account: "tenant"}, Amount: a})
		v.Observed["G"] += a.Time
	}
	return v
}

// TestNewSeriesBeginAtZero: a series is seen at 0 first for the time between two scrapes, the series that are shown add
// up at any time, and all are shown in the end, also over a kill.
func TestNewSeriesBeginAtZero(t *testing.T) {
	a := &shownAccounts{hold: 30 * time.Second}
	now, stored := time.Unix(0, 0), []byte(nil)
	born, last := map[string]time.Time{}, map[string]time.Duration{}
	look := func(v *view) {
		sum := time.Duration(0)
		for _, x := range v.Totals {
			at, seen := born[x.Namespace]
			if !seen {
				at, born[x.Namespace] = now, now
			}
			if x.Time > 0 && now.Sub(at) < a.hold || x.Time < last[x.Namespace] {
				t.Fatalf("at %v: %s was born at %v and is %v", now, x.Namespace, at, x.Time)
			}
			last[x.Namespace] = x.Time
			sum += x.Time
		}
		if v.Observed != nil && sum != v.Observed["G"] {
			t.Fatalf("at %v: %v of %v", now, sum, v.Observed["G"])
		}
	}
	counts := []int{}
	for i := range 600 {
		now = now.Add(time.Second)
		if i%50 == 0 && i < 450 {
			counts = append(counts, 7)
		}
		for k := range counts {
			counts[k]++
		}
		v := accounts(counts...)
		if i%97 == 96 { // killed and started again
			a = &shownAccounts{hold: a.hold}
			look(a.resume(v, stored, now))
			continue
		}
		show, zeros := a.take(v, now)
		if show != nil {
			look(show)
		}
		if zeros != nil {
			stored, _ = json.Marshal(zeros)
		}
	}
	if len(last) != 9 || last["ns8"] < 150*time.Second {
		t.Errorf("shown at the end: %v", last)
	}
}

// instances lists two MIG instances without counters, as an A100 does.
type instances struct{ telemetry.Reader }

func (instances) Devices(context.Context) ([]telemetry.Device, error) {
	return []telemetry.Device{{UUID: "GPU-1", MIG: sharing.AnswerYes}}, nil
}

func (instances) Read(_ context.Context, _ int, _ telemetry.Groups, r *telemetry.Reading) error {
	r.Instances = []telemetry.Instance{{ID: 1}, {ID: 2}}
	return nil
}

// TestDCGM: the activity of instances comes from dcgm-exporter's page, but not from another node's.
func TestDCGM(t *testing.T) {
	for _, c := range []struct {
		page string
		want string
	}{
		{dcgmActive + `{gpu="0",UUID="GPU-1",GPU_I_PROFILE="3g.40gb",GPU_I_ID="1"} 0.25` + "\n" + dcgmActive + `{gpu="0",UUID="GPU-1",GPU_I_ID="2"} 7` + "\n", "25 true, 0 false, yes"},
		{"# TYPE " + dcgmActive + " gauge\n" + dcgmActive + `{gpu="0",UUID="GPU-9",GPU_I_ID="1"} 0.25` + "\n", "0 false, 0 false, no"},
		{"<html>", "0 false, 0 false, no"},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, c.page) }))
		defer srv.Close()
		d, err := newDCGM(t.Context(), instances{}, srv.URL, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for d.state() == sharing.AnswerUnknown {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		d.watch(ctx, time.Minute)
		var r telemetry.Reading
		if err := d.Read(t.Context(), 0, telemetry.GroupGPM, &r); err != nil {
			t.Fatal(err)
		}
		one, ok := r.Instances[0].Get(telemetry.MetricGraphicsUtilPercent)
		two, has := r.Instances[1].Get(telemetry.MetricGraphicsUtilPercent)
		got := fmt.Sprintf("%v %v, %v %v, %s", one, ok, two, has, d.state())
		if got != c.want {
			t.Errorf("%q: %s, want %s", c.page, got, c.want)
		}
	}
}
