// SPDX-License-Identifier: Apache-2.0

// Package loadgen puts load on OpenAI-compatible LLM endpoints, several tenants at once, and measures the latency and
// throughput of each.
//
//	res, err := loadgen.Run(ctx, loadgen.LoadPlan{
//		Duration: time.Minute,
//		Tenants: []loadgen.Tenant{{
//			Name: "chat", Model: "llama", MaxTokens: 128,
//			Endpoints: []loadgen.Endpoint{{URL: "http://localhost:8000"}},
//			Prompts:   loadgen.Texts("Why is the sky blue?"),
//			Load:      loadgen.OfferedLoad{Schedule: loadgen.Poisson(5)},
//			SLO:       loadgen.RequestSLO{TTFT: 500 * time.Millisecond},
//		}},
//	}, loadgen.Options{Dir: "runs/chat"})
//
// A [LoadPlan] names the tenants; [Run] drives them and returns a [Result] with a [Summary], per tenant and in total,
// and a [ClientHealth] verdict on the client itself. With Options.Dir set, the run leaves a directory of artifacts,
// which [LoadResult] reads back. [Search] finds the highest rate that meets the tenants' SLOs, and [Study] plans the
// runs that show how tenants disturb one another.
//
// Package prompt reads prompts and traces and generates prompts, report compares groups of repeated runs, and
// loadgentest has a server with scripted timing and faults, and a simulated GPU.
//
// # What is measured
//
// Every metric has one definition: [Definitions] returns it and every summary contains it. An open-loop request is
// timed from its scheduled start, so a server (or a client) that falls behind does not look better; the service figures
// count from the actual send. Only events that carry content, reasoning or a tool-call delta count as tokens; a role, a
// usage report, a finish reason and a comment never do. A request is ok only with HTTP 200, a terminator ([DONE] or a
// finish reason), no error event and at least one token.
//
// Without continuous usage from the server, itl spreads the request's tokens evenly over its events, while tpot counts
// the first event as one token, as other tools do: they differ slightly when events carry several tokens.
//
// # Clocks
//
// On Linux the time of an event is the kernel's receive time of the segment that brought it (SO_TIMESTAMPNS read by
// recvmsg under the transport, TLS included), so that the client's own queueing is not counted as the server's latency;
// that queueing is reported as the read lag. Elsewhere, for connections that are not TCP, and with Options.ProcessTimes
// the time is taken after the read, and the summary reports that. Streams in plain HTTP are read by a poller (Linux).
// Others are read by net/http: an event that arrives with the size of the next chunk, but without that chunk's data,
// counts when the data arrives. All times in the artifacts are Unix nanoseconds, derived from one pair of wall and
// monotonic clock readings.
//
// Connections use HTTP/1.1, never HTTP/2: a stamp must belong to one stream. Stable.
package loadgen
