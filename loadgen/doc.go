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
// A [LoadPlan] names the tenants; [Run] drives them and returns a [Result] whose [Summary] has figures per tenant and
// in total, and a [ClientHealth] verdict on the client itself. With Options.Dir set, the run leaves a directory of
// artifacts (see [artifactSummary] and its neighbours), which [LoadResult] reads back. [Search] looks for the highest
// rate that keeps the tenants' SLOs, and [Study] makes the runs that show how tenants disturb one another.
//
// Package prompt reads and makes up prompts and traces, report compares groups of repeated runs, and loadgentest is a
// server with scripted timing and faults, and a simulated GPU.
//
// # What is measured
//
// Every metric has one definition, which [Definitions] returns and which is written into every summary. An open-loop
// request is timed from its scheduled start, so a server (or a client) that falls behind cannot look better than it
// is; the service figures count from the actual send. Only events that carry content, reasoning or a
// tool-call delta count as tokens; a role, a usage report, a finish reason and a comment never do. A request is ok
// only with HTTP 200, a terminator ([DONE] or a finish reason), no error event and at least one token.
//
// Without continuous usage from the server, itl spreads the request's tokens evenly over its events, while tpot counts
// the first event as one token, as other tools do: they differ a little when events carry several tokens.
//
// # Clocks
//
// On Linux the time of an event is the kernel's receive time of the segment that brought it (SO_TIMESTAMPNS read by
// recvmsg under the transport, TLS included), so that the client's own queueing is not counted as the server's latency;
// that queueing is reported as the read lag. Elsewhere, for connections that are not TCP, and with Options.ProcessTimes
// the time is taken after the read, and the summary reports that. Streams in plain HTTP are read by a poller (Linux).
// For others net/http takes chunks apart: an event that arrives with the size of the next chunk, but without its data,
// counts once the data has come. All times in the artifacts are Unix nanoseconds derived from one base of wall and
// monotonic clock.
//
// HTTP/1.1 is spoken, never HTTP/2: a stamp belongs to one stream only when a connection carries one stream. Stable.
package loadgen
