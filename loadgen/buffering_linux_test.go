// SPDX-License-Identifier: Apache-2.0

package loadgen_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/internal/wire"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// TestBufferingServer: a server or a proxy that sends several events in one write, or the whole answer, spoils no run.
func TestBufferingServer(t *testing.T) {
	for _, together := range []int{8, 1000} {
		for _, receive := range []wire.Mode{wire.ModePolled, wire.ModeStamped} {
			srv := serve(t, loadgentest.Options{Script: loadgentest.Always(loadgentest.Reply{TTFT: 20 * ms, Interval: 20 * ms, Tokens: 24, EventsPerWrite: together})})
			plan := planFor(loadgen.Endpoint{URL: srv.URL}, 8)
			var res *loadgen.Result
			var h loadgen.ClientHealth
			for range 5 { // the figures are useless while the machine itself reads late
				var err error
				if res, err = loadgen.Run(context.Background(), plan, loadgen.Receiving(receive, loadgen.Options{})); err != nil {
					t.Fatal(err)
				}
				if h = res.Summary.ClientHealth; !strings.Contains(strings.Join(h.Reasons, ";"), "read lag") {
					break
				}
			}
			if strings.Contains(strings.Join(h.Reasons, ";"), "merged") || h.MergedBy != "server" || res.Summary.Counts.OK != 8 || h.MergedReads*2 < h.Reads {
				t.Errorf("%d in a write, %v: %+v", together, receive, h)
			}
		}
	}
}
