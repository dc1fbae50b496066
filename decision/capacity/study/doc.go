// Package study answers a capacity question as an operator asks it: a trace in one of the published formats,
// objectives and prices as text, and a file of profiles become a [capacity.Plan]; its result becomes a table, a
// page or JSON; and the best arrangements can be run as load, on simulated servers or on real ones.
//
//	s, err := study.Read(study.Options{Trace: "requests.jsonl", SLO: "ttft_p99=2s", GPUs: []string{"L40S=0.90"}})
//	if err != nil {
//		return err
//	}
//	report, err := s.Search(ctx)
//	if err != nil {
//		return err
//	}
//	return report.WriteText(os.Stdout)
//
// REPORT-2026-11.md in decision/capacity holds what such predictions were worth on real servers.
//
// The package is experimental: its API may change between minor versions.
package study
