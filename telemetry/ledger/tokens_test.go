// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/serving"
)

var still = Clock{Name: "t", Now: func() time.Duration { return 0 }}

// TestTokensCounted: tokens are the work of servers while their pages were read, over restarts of servers.
func TestTokensCounted(t *testing.T) {
	a := New(Options{Clock: still, Servers: map[container.Pod]string{shop: ""}})
	for i, c := range []struct{ prompt, generated, wantPrompt, want float64 }{
		{-1, 1000, -1, 0}, // work before the first page is not counted
		{500, 1300, 500, 300},
		{700, 40, 700, 340}, // restarted
		{700, 40, 700, 340},
	} {
		r := serving.Reading{GenerationTokens: telemetry.Some(c.generated)}
		if c.prompt >= 0 {
			r.PromptTokens = telemetry.Some(c.prompt)
		}
		a.servers.note(shop, []serving.Reading{r}, nil)
		if got := a.View().Tokens[shop]; got.Prompt.Or(-1) != c.wantPrompt || got.Generated.Or(-1) != c.want {
			t.Errorf("page %d: %v", i, got)
		}
	}
}

// TestTokensOfAWorkload: a server is known by what owns its pod, over rollouts; of two pods it may be either's.
func TestTokensOfAWorkload(t *testing.T) {
	s := newServers(map[container.Pod]string{shop: ""}, slog.New(slog.DiscardHandler))
	pod := func(name string) Claim {
		return Claim{Pod: container.Pod{Namespace: "shop", Name: name, Container: "c"}, Resident: true}
	}
	for i, claims := range [][]Claim{{pod("web-7d4b9-x2k4z")}, {pod("web-55c6f-bcdfg"), pod("website-55c6f-bcdfg")}, {pod("web-55c6f-bcdfg"), pod("web-55c6f-hjklm")}} {
		s.note(shop, []serving.Reading{{GenerationTokens: telemetry.Some(float64(100 * i))}}, nil)
		s.tokens("GPU-1", claims, time.Minute)
		if n, told := claims[0].Tokens.Get(); told != (i == 1) || told && n != 100 {
			t.Errorf("%d: %v tokens, %v", i, n, told)
		}
	}
	s.note(shop, []serving.Reading{{GenerationTokens: telemetry.Some(350.0)}}, nil)
	if got := s.all(); len(got) != 1 || got[pod("web-55c6f-bcdfg").Pod].Generated.Or(0) != 250 { // the first window's stay its predecessor's
		t.Error(got)
	}
}

// TestABadRecordIsSetAside starts on a state with records that cannot be read:
// they are named, kept under other names, and all others count on.
func TestABadRecordIsSetAside(t *testing.T) {
	var log strings.Builder
	options := Options{
		Clock: still, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Records: []Record{{`gpu "g"`, []byte(`{"observed_ns":-2}`)}, {"tokens a/b/c", []byte("1 2 - - -")}, {`row {"gpu"`, []byte("{}")}},
	}
	a := New(options)
	for _, name := range []string{`gpu \"g`, "tokens a/b/c", `row {\"gpu`} {
		if !strings.Contains(log.String(), name) {
			t.Errorf("%s is not named: %s", name, log.String())
		}
	}
	_, records, _, err := a.Changes()
	if err != nil || len(records) != 6 {
		t.Errorf("%q, %v", records, err)
	}
	log.Reset()
	options.Records = slices.DeleteFunc(records, func(r Record) bool { return r.Value == nil })
	if New(options); log.Len() > 0 {
		t.Error(log.String())
	}
}
