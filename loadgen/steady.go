package loadgen

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/optional"
)

// SteadyState is the verdict on whether the system was in one state throughout the window.
type SteadyState struct {
	// Verdict is "yes", "no" or "unknown" (too short to tell).
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	// TokenRateDrift and TTFTDrift are the change of the window's last third
	// against its first, as a fraction; absent when unknown.
	TokenRateDrift Optional[float64] `json:"token_rate_drift,omitzero"`
	TTFTDrift      Optional[float64] `json:"ttft_drift,omitzero"`
}

// The bounds of the steady-state check: the last third of the window may differ from the first by this much.
const (
	steadyTokenDrift = 0.10
	steadyTTFTDrift  = 0.25
	steadySeconds    = 6 // whole seconds below which there is no verdict
)

// steadyState compares the first and the last third of the window's whole seconds.
func steadyState(rows []TimelineRow, from, to int64) SteadyState {
	type sum struct {
		tokens float64
		ttft   float64
		ttftN  float64
	}
	inside := func(r TimelineRow) bool { return r.UnixNS >= from && r.UnixNS+1e9 <= to }
	seconds := map[int64]bool{}
	for _, r := range rows {
		if inside(r) {
			seconds[r.UnixNS] = true
		}
	}
	n := int64(len(seconds))
	if n < steadySeconds {
		return SteadyState{Verdict: "unknown",
			Reason: fmt.Sprintf("the window holds %d of the %d whole seconds needed", n, steadySeconds)}
	}
	first := slices.Min(slices.Collect(maps.Keys(seconds)))
	var early, late sum
	for _, r := range rows {
		if !inside(r) {
			continue
		}
		s := &early
		switch i := (r.UnixNS - first) / 1e9; {
		case i >= n-n/3:
			s = &late
		case i >= n/3:
			continue
		}
		s.tokens += float64(r.Tokens)
		if ttft, ok := r.TTFTP99.Get(); ok {
			s.ttft += float64(ttft)
			s.ttftN++
		}
	}
	if early.tokens == 0 {
		return SteadyState{Verdict: "unknown", Reason: "no tokens in the window's first third"}
	}
	out := SteadyState{Verdict: "yes", Reason: "first and last third of the window agree"}
	drift := late.tokens/early.tokens - 1
	out.TokenRateDrift = optional.Of(drift)
	var reasons []string
	if math.Abs(drift) > steadyTokenDrift {
		reasons = append(reasons, fmt.Sprintf("the token rate of the last third differs by %+.0f%% from the first's",
			100*drift))
	}
	if early.ttftN > 0 && late.ttftN > 0 {
		d := late.ttft/late.ttftN/(early.ttft/early.ttftN) - 1
		out.TTFTDrift = optional.Of(d)
		if d > steadyTTFTDrift {
			reasons = append(reasons, fmt.Sprintf("the per-second TTFT p99 of the last third is %.0f%% above the first's",
				100*d))
		}
	}
	if len(reasons) > 0 {
		out.Verdict, out.Reason = "no", strings.Join(reasons, "; ")
	}
	return out
}
