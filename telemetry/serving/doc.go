// Package serving reads the metrics pages of model servers, of vLLM, SGLang and llama.cpp, into one form: what runs and
// waits, how full the KV cache is, and the distributions of latencies and lengths. Of servers that speak no tokens
// (Text Embeddings Inference, Triton, Infinity and others on FastAPI) it reads the times of a request:
// [Reading.Service].
//
//	readings, err := serving.NewClient().Fetch(ctx, "http://llm.chat:8000/metrics")
//
// The counters and histograms count since the server started. [Reading.Since] gives what happened between two
// pages; that is what a profile or an alarm should use. A histogram knows its percentiles only to the bucket:
// [Histogram.Quantile] answers with an [Interval].
//
// What a server does not export is missing: SGLang exports nothing without --enable-metrics, and a figure's name
// depends on the version (Parse lists them). Prompts and other contents never stand on these pages.
//
// It is experimental: its API may change between minor versions.
package serving
