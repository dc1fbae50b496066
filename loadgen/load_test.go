// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/optional"
)

var timelineHead = strings.Join(timelineHeader, ",") + "\n"

func TestTimelineRoundTrip(t *testing.T) {
	rows := []TimelineRow{
		{UnixNS: 1_700_000_000_000_000_000, Tenant: "a,\"b\"", Offered: 5, Sent: 4, Done: 3, Failed: 1, InFlight: 2, Tokens: 99, TTFTP99: optional.Of(52500 * time.Microsecond)},
		{UnixNS: 1_700_000_001_000_000_000, Tenant: "c", ITLP99: optional.Of(20 * time.Millisecond)},
	}
	got, err := readTimeline(bytes.NewReader(timelineCSV(rows)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadTimelineErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                                     "EOF",
		"a,b\n":                                "line 1: the columns are not unix_ns,tenant",
		timelineHead + "x,t,1,1,1,1,1,1,,\n":   `line 2: unix_ns is "x"`,
		timelineHead + "1,t,1,1,1,1,1,1,-3,\n": `line 2: ttft_p99_ms is "-3"`,
		timelineHead + "1,t\n":                 "wrong number of fields",
	} {
		got, err := readTimeline(strings.NewReader(in))
		if got != nil || !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func FuzzReadTimeline(f *testing.F) {
	f.Add([]byte(timelineHead + "1,t,1,1,1,1,1,1,2.5,\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := readTimeline(bytes.NewReader(data))
		if err != nil {
			if rows != nil {
				t.Fatal("a value and an error")
			}
			return
		}
		again, err := readTimeline(bytes.NewReader(timelineCSV(rows)))
		if err != nil || len(again) != len(rows) {
			t.Fatalf("%v", err)
		}
	})
}
