// SPDX-License-Identifier: Apache-2.0

// Package cost does the arithmetic of sharing a GPU: the cost of a workload's part of a GPU, the saving of sharing
// and the point at which it ends, and the division of a shared hour among its tenants.
//
//	hour, err := cost.ParsePrice("3.25 USD")
//	month, err := cost.Monthly(hour)
//	parts := cost.Apportion(month.Micros(), []int64{700, 200, 100}) // by GPU-seconds
//
// Money is exact: integer micro-units with a currency. Where a result is not a whole number of micro-units it is
// rounded once, at the end, half away from zero. Fractions that multiply money are [PPM], parts per million; a measured
// float64 (a rate, a tenant's use) enters as its exact binary value, so a result never depends on the machine.
//
// [Apportion] divides an amount by weights so that the parts add up to it to the last micro-unit; telemetry/ledger
// makes the bills of a shared GPU with it.
//
// This package does not know a mechanism's own overhead: sharing.InfoFor(m).Overhead is the bracket to start from, with
// its source, and [OverheadRange] makes it ready for money.
//
// Comments point out the errors of the latency article (https://myitbasics.com/gpu-sharing-amazon-eks/) and of the
// economics article (https://asleekgeek.com/articles/gpu-sharing-fundamentals). The tests reproduce both calculators.
//
// All functions are safe for concurrent use. It is stable: its API changes incompatibly only with a new major version.
package cost
