// SPDX-License-Identifier: Apache-2.0

// Package report compares and presents the results of loadgen runs.
//
// [CompareRuns] compares two groups of repeated runs and refuses claims that so few runs or requests cannot support:
//
//	base, other := []loadgen.Summary{ /* 5 runs */ }, []loadgen.Summary{ /* 5 runs */ }
//	c, err := report.CompareRuns(base, other, report.CompareOptions{}) // an error says why they must not be compared
//	err = c.WriteText(os.Stdout)
//
// [WriteInterference] compares co-located tenants with each in isolation; [Gate] checks a run against conditions.
// Stable.
package report
