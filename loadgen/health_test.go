// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"strings"
	"testing"
	"time"
)

// TestMergedReads: events that come together spoil a run only where the client was
// late enough to have merged them itself.
func TestMergedReads(t *testing.T) {
	for _, tc := range []struct {
		name            string
		lag, gap50, gap Millis
		e2e             Millis
		merged          int64
		spoiled         bool
		by              string
	}{
		{"none merged", 30, 20, 20, 2000, 0, false, ""},
		{"eight events in a write every 160 ms", 1.5, 0, 20, 2000, 1000, false, "server"},
		{"the same read 16 ms late", 16, 0, 20, 2000, 1000, true, ""},
		{"a whole answer in a write", 1.5, 0, 0, 300, 1000, false, "server"},
		{"a whole answer read very late", 100, 0, 0, 300, 1000, true, ""},
		{"gaps of 1 ms read late", 0.9, 0, 1, 1000, 400, true, ""},
		{"a few merged by chance", 30, 20, 20, 2000, 10, false, ""},
	} {
		h := ClientHealth{ReadLag: Figures{Count: 1000, P99: tc.lag}, ReadCounts: ReadCounts{Reads: 1000, MergedReads: tc.merged}}
		m := &Measures{ChunkGap: Figures{Count: 9000, P50: tc.gap50, Mean: tc.gap}, TTFT: Figures{Count: 100, P50: min(tc.e2e, tc.e2e-90*tc.gap)}, E2E: Figures{Count: 100, P50: tc.e2e}}
		h.evaluate(HealthLimits{}, m, time.Second)
		if h.Valid == tc.spoiled || h.MergedBy != tc.by || tc.spoiled != strings.Contains(strings.Join(h.Reasons, ""), "were merged") {
			t.Errorf("%s: %+v", tc.name, h)
		}
	}
}
