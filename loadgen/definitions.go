package loadgen

import (
	"maps"

	"github.com/cotenant/cotenant/internal/enum"
)

// Metric names a distribution of a tenant.
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

var definitions = map[string]string{
	"symbols": "t_i intended send, t_s actual send of the first attempt, c_k arrival of content event k " +
		"(k=1..m), n output tokens, n_1 tokens of the first event (1 unless continuous usage says otherwise), d [DONE] or " +
		"end of the answer.",
	"content_event": "An event that carries non-empty content, text, reasoning_content, reasoning, a refusal, speech or " +
		"its transcript, or a tool-call delta; of the Responses API, any delta but a summary of reasoning. Role-only, " +
		"usage-only and finish-only events and comments never count.",
	"schedule_delay": "t_s - t_i.",
	"ttft":           "c_1 - t_i in open loop and trace replay; in closed loop t_i = t_s.",
	"ttft_service":   "c_1 - t_s.",
	"ttfv":           "First content event that is not reasoning, minus t_i.",
	"tpot":           "(c_m - c_1)/(n - n_1) per request; undefined, not 0, when n <= n_1 or c_m = c_1.",
	"chunk_gap":      "c_k - c_(k-1), pooled over requests.",
	"itl": "Chunk gap spread over the tokens of the chunk, each token counted; events that arrive at " +
		"one instant are one chunk. Tokens of a chunk: continuous usage when the server sends it, else n spread evenly " +
		"over the events (tpot still counts the first event as n_1), else one token an event; itl_basis says which: " +
		"usage, even or event.",
	"e2e": "c_m - t_i: usage and finish events are not in it. Without streaming: end of the answer - " +
		"t_i.",
	"e2e_service": "c_m - t_s.",
	"e2e_close":   "d - t_i.",
	"stall": "Share of chunk gaps longer than factor x their median (gaps of 0, between events that " +
		"arrive together, left out of the median), with the p99.9 and the longest gap.",
	"user_tokens_per_s": "1/tpot.",
	"prompt_cache": "cached_tokens of the server's usage (prompt_tokens_details), over the ok requests that " +
		"report it: hit_rate is cached tokens over prompt tokens, of these requests; hits counts those with any.",
	"output_tokens": "Tokens of ok requests whose events lie in the window. Server usage first, else the " +
		"caller's tokenizer, else events; one source for all of a tenant's requests: the best that all its ok requests have.",
	"output_tokens_failed": "Tokens that failed requests had delivered, by the server's running count where it sent " +
		"one, else one an event.",
	"output_tokens_per_s": "output_tokens / duration_s.",
	"reasoning_tokens":    "Reasoning of ok requests by the server's usage (completion_tokens_details), sent or not.",
	"implausible_counts": "Ok requests whose output tokens contradict what was streamed by more than a tenth: fewer " +
		"than content events, or more than bytes of their data, or, where only events tell them, more than were asked for.",
	"refusals": "Ok requests that the model declined to answer, in a refusal of its own and not in plain text.",
	"audio_events": "Content events of ok requests that carry speech or its transcript; audio_tokens is the part of " +
		"output_tokens that the server's usage calls so.",
	"short_answers": "Ok requests whose output tokens, hidden ones included, are known by usage or tokenizer to be " +
		"fewer than were asked for; short_ignoring_eos are those of them that set ignore_eos, which no server that " +
		"knows it has.",
	"hidden_tokens": "The part of reasoning_tokens that the server counts and does not send; it is in no other figure, " +
		"so that tpot and itl are over what was streamed.",
	"duration_s": "First scheduled start to last end, cut by the window.",
	"goodput": "Ok requests that keep every bound of the SLO, per second of the window and as a share of " +
		"all requests; failures are misses. Unknown where a request cannot show what is bounded. Its output_tokens are " +
		"those of output_tokens that belong to requests that keep it.",
	"ok": "HTTP 200 and ([DONE] or a finish reason) and no error event, no finish reason abort, error, failed or " +
		"cancelled, and n >= 1. Failed requests stay out of the latency figures.",
	"failures_infinite": "The same percentiles with every request that is not ok counted as +Inf.",
	"connected": "Connection ready (dial and TLS, or taken from the pool) - t_s. Retried requests are left " +
		"out, here and in written and first_byte.",
	"written":    "Request written - t_s.",
	"first_byte": "Headers of the answer - t_s.",
	"pacing_lag": "Pacer's wake-up - t_i.",
	"send_lag": "t_s - the moment from which the request could be sent (t_i, or a free place under " +
		"max_in_flight).",
	"read_lag": "Time of the client's read - the kernel's receive time. Not part of any latency when stamps " +
		"are the kernel's.",
	"percentile": "Nearest rank: the smallest value with at least p of the samples at or below it. Exact from " +
		"all samples, or from an HDR histogram (1 us to 1 h, 3 significant digits) where method says hdr.",
}

// Definitions returns what each figure of a summary means, by its name. It is written into every summary.
func Definitions() map[string]string { return maps.Clone(definitions) }
