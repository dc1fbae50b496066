// Package ledger keeps the accounts of a node's GPUs: each nanosecond of each
// GPU is in exactly one account, with its energy and its price.
//
// Divide divides a stretch of time on a shared GPU by what the mechanism lets anybody see: the driver's utilization
// of each process under time-slicing, each instance's own counters under MIG, bounds under MPS. A Ledger posts the
// parts. Whatever a posting does not give away is unattributed, so that the accounts of a GPU always add up to the
// time since it was first seen; time in which nobody looked is unattributed too.
//
// All amounts are integers: nanoseconds, microjoules and millionths of a currency. Sums are exact however time is
// cut up, and stay so over restarts: Changed gives the records to be stored, Restore reads them back, and a caller
// that stores before it exposes loses nothing and counts nothing twice.
//
// Rows by pod end a day after the pod did; where there are too many, new ones share
// the row Other. Totals by namespace and account are kept without end.
//
// It is experimental: its API may change between minor versions.
package ledger
