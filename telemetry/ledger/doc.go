// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps the accounts of a node's GPUs: each nanosecond of each GPU is in exactly one account, with its
// energy and its price.
//
// An Accountant is a telemetry.Sink. It finds the pod of each process (telemetry/container), divides each window of a
// GPU's time with Divide by the figures that the mechanism allows, and posts the parts. The kubelet lists the holders
// of GPUs.
//
// The rest of a posting is unattributed, so that the accounts of a GPU always add up to the time since it was first
// seen; time without observation is unattributed too. All amounts are integers: nanoseconds, microjoules and millionths
// of a currency.
//
// Store what Accountant.Changes returns before you show its view: then a kill at any moment takes no counter back.
// Rows by pod end a day after the pod did; where there are too many, new ones share the row Other. Totals by namespace
// and account are kept without end. It is experimental: its API may change between minor versions.
package ledger
