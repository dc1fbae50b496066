// SPDX-License-Identifier: Apache-2.0

package loadgen_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// slowSource takes a while for each prompt, as one of 27,000 tokens does.
type slowSource struct {
	n, of int
	err   error // after the last
}

func (s *slowSource) Next() (loadgen.Prompt, error) {
	if s.n++; s.n > s.of {
		return loadgen.Prompt{}, s.err
	}
	time.Sleep(5 * ms)
	return loadgen.Prompt{Text: "x"}, nil
}

// TestBurstOfLongPrompts: ten requests that are due at one instant are sent at that
// instant, however long their prompts take to make.
func TestBurstOfLongPrompts(t *testing.T) {
	var at []time.Duration
	for burst := range 6 {
		for range 10 {
			at = append(at, time.Duration(burst)*time.Second)
		}
	}
	res, _ := bubble(t, loadgentest.Always(loadgentest.Reply{TTFT: 10 * ms, Tokens: 1}), func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
		p.Tenants[0].Requests, p.Tenants[0].Prompts = len(at), &slowSource{of: len(at), err: io.EOF}
		p.Tenants[0].Load = loadgen.OfferedLoad{Schedule: loadgen.Timestamps(at, 0)}
	})
	if h := res.Summary.ClientHealth; res.Summary.Counts.OK != 60 || h.SendLag.Max != 0 || res.Summary.ScheduleDelay.Max != 0 {
		t.Errorf("%d ok, send lag %+v", res.Summary.Counts.OK, h.SendLag)
	}
	ids := map[int64]bool{}
	for _, r := range res.Records {
		ids[r.ID] = true
	}
	if len(ids) != 60 || !ids[0] || !ids[59] {
		t.Errorf("%d different ids", len(ids))
	}
}

// TestPromptsThatEnd: prompts made ahead end the run when it would have come to them, and not before.
func TestPromptsThatEnd(t *testing.T) {
	boom := errors.New("line 8: not JSON")
	for _, end := range []error{io.EOF, boom} {
		srv := serve(t, loadgentest.Options{Script: loadgentest.Always(loadgentest.Reply{Tokens: 1})})
		plan := planFor(loadgen.Endpoint{URL: srv.URL}, 0)
		plan.Tenants[0].Prompts, plan.Tenants[0].Load = &slowSource{of: 7, err: end}, loadgen.OfferedLoad{Schedule: loadgen.Constant(100)}
		res, err := loadgen.Run(t.Context(), plan, loadgen.Options{})
		if res == nil || res.Summary.Counts.OK != 7 || errors.Is(err, boom) != (end == boom) {
			t.Errorf("%v, %v", res, err)
		}
	}
}
