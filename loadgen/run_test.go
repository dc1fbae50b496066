// SPDX-License-Identifier: Apache-2.0

package loadgen_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

const ms = time.Millisecond

// bubble runs a plan against a scripted server inside a synctest bubble, where
// every time is exact. edit may change tenant and options.
func bubble(t *testing.T, script loadgentest.Script, edit func(*loadgen.LoadPlan, *loadgentest.Options, *loadgen.Options)) (res *loadgen.Result, served []loadgentest.Served) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		so := loadgentest.Options{Script: script, Pipe: true}
		plan := loadgen.LoadPlan{Tenants: []loadgen.Tenant{{
			Name: "t", Model: "m", Prompts: loadgen.Texts("hello there"), MaxTokens: 10, Requests: 1,
			Load: loadgen.OfferedLoad{Concurrency: 1},
		}}}
		opts := loadgen.Options{ProcessTimes: true, KeepRecords: true}
		if edit != nil {
			edit(&plan, &so, &opts)
		}
		srv, err := loadgentest.NewServer(so)
		if err != nil {
			t.Fatal(err)
		}
		for i := range plan.Tenants {
			if len(plan.Tenants[i].Endpoints) == 0 {
				plan.Tenants[i].Endpoints = []loadgen.Endpoint{{URL: srv.URL, Dial: srv.Dial}}
			}
		}
		res, err = loadgen.Run(context.Background(), plan, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := srv.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		served = srv.Served()
	})
	return res, served
}

func TestExactLatencies(t *testing.T) {
	res, _ := bubble(t, loadgentest.Always(loadgentest.Reply{TTFT: 50 * ms, Interval: 20 * ms, Tokens: 10}), nil)
	s := &res.Summary
	if s.Counts.OK != 1 || s.TTFT.P50 != 50 || s.TPOT.P50 != 20 || s.E2E.P50 != 230 || s.ChunkGap.Count != 9 || s.ITL.P50 != 20 {
		t.Errorf("%+v", s.Measures)
	}
	t.Logf("%+v", res.Records)
}
