package loadgen

import (
	_ "embed" // the definitions
	"encoding/json"
	"maps"
	"sync"

	"github.com/cotenant/cotenant/internal/enum"
)

// LatencyMetric names a distribution of a tenant.
type LatencyMetric uint8

// The metrics; see Definitions.
const (
	MetricTTFT LatencyMetric = iota
	MetricTTFTService
	MetricTTFV
	MetricTPOT
	MetricITL
	MetricChunkGap
	MetricE2E
	MetricE2EService
	MetricE2EClose
	MetricScheduleDelay
	MetricConnected // connection ready, from the actual start
	MetricWritten   // request written, from the actual start
	MetricFirstByte // answer's headers, from the actual start
	MetricPacingLag // pacer's wake-up after the intended start
	MetricSendLag   // actual start after the request could have started
	MetricReadLag   // read by the client after the kernel had received it
	metricCount     = int(MetricReadLag) + 1
)

var metricNames = enum.Of[LatencyMetric](ErrUnknownName, "metric", "ttft", "ttft_service", "ttfv", "tpot", "itl",
	"chunk_gap", "e2e", "e2e_service",
	"e2e_close", "schedule_delay", "connected", "written", "first_byte", "pacing_lag", "send_lag", "read_lag")

//go:embed definitions.json
var definitionsJSON []byte

// definitions are read once; a test holds that there is one for each metric.
var definitions = sync.OnceValue(func() (all map[string]string) {
	_ = json.Unmarshal(definitionsJSON, &all)
	return all
})

// Definitions returns what each figure of a summary means, by its name. It is written into every summary.
func Definitions() map[string]string { return maps.Clone(definitions()) }
