// Package usage reads what GPUs and their tenants used over time, and reduces it to statistics while it reads: the
// Prometheus text of dcgm-exporter, the JSON of Prometheus' range queries, and our own telemetry CSV.
//
// Memory grows with the number of tenants, not with the samples: percentiles come from HDR histograms with two
// digits once a figure has more than 512 samples (exact before), so that they are at most 1/128 above the truth and
// never below it. Means, extremes and counts are exact.
//
// A sample that cannot be is refused and counted: negative, above 100 percent, no number, by a clock that
// disagrees, or not after the one before. What the sources do not have is missing, never zero.
package usage
