// SPDX-License-Identifier: Apache-2.0

// Package serving reads the metrics pages of model servers, of vLLM, SGLang and llama.cpp, into one form: running and
// waiting requests, use of the KV cache, and the distributions of latencies and lengths. Of servers without tokens
// (Text Embeddings Inference, Triton, Infinity, others on FastAPI) it reads a request's times: [Reading.Service].
//
//	readings, err := serving.NewClient().Fetch(ctx, "http://llm.chat:8000/metrics")
//
// The counters and histograms count since the server started. [Reading.Since] gives the difference between two pages;
// use it for a profile or an alarm. A histogram determines percentiles only to the bucket: [Histogram.Quantile] returns
// an [Interval].
//
// A figure that a server does not export is missing: SGLang exports nothing without --enable-metrics, and a figure's
// name depends on the version (Parse lists them). Prompts and other contents are never on these pages.
// It is experimental: its API may change between minor versions.
package serving
