package loadgen

import (
	"cmp"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"regexp"
	"time"
)

// The files of a run's directory. Only ArtifactConfig and ArtifactSummary are always there.
const (
	ArtifactConfig     = "config.json"    // the resolved plan, seeds, versions, host
	ArtifactSummary    = "summary.json"   // a Summary
	ArtifactRequests   = "requests.jsonl" // a Record a line, in the order in which requests ended
	ArtifactHistograms = "hist.jsonl"     // a histogram a line: tenant, metric, HDR V2 base64
	ArtifactTimeline   = "timeline.csv"   // a TimelineRow a line
	ArtifactTelemetry  = "telemetry.csv"  // written by the caller: package telemetry's CSV
	ArtifactServerLog  = "server.log"     // written by the caller
	partialSuffix      = ".partial"       // of requests.jsonl while the run lasts
)

// newRunID returns an id such as "20260102T150405Z-mps-50-0a1b2c": the time in UTC, the scenario with everything
// but letters, digits, dots and dashes turned into dashes, and six random hex digits.
func newRunID(now time.Time, scenario string, rng *rand.Rand) string {
	clean := cmp.Or(notInRunID.ReplaceAllString(scenario, "-"), "run")
	return fmt.Sprintf("%s-%s-%06x", now.UTC().Format("20060102T150405Z"), clean, bits.ReverseBytes32(rng.Uint32())>>8)
}

var notInRunID = regexp.MustCompile(`[^a-zA-Z0-9.-]`)

// TenantHistograms are one tenant's distributions.
type TenantHistograms struct {
	Tenant   string
	Probe    bool
	ByMetric map[LatencyMetric]*Histogram
	// ByAdapter holds those of [AdapterSummary], by the adapter's name.
	ByAdapter map[string]map[LatencyMetric]*Histogram
}
