// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps the accounts of a node's GPUs: each nanosecond of each GPU is in exactly one account, with its
// energy and its price.
//
// An Accountant is a telemetry.Sink. It finds the pod of each process (telemetry/container), divides each window of a
// GPU's time with Divide, by the figures available under the mechanism, and posts the parts. The kubelet lists the
// holders of GPUs.
//
// The remainder, and time without observation, is unattributed, so that the accounts of a GPU always add up to the time
// since it was first seen. All amounts are integers: nanoseconds, microjoules and millionths of a currency.
//
// Store the records of Accountant.Changes before you publish its view: then no crash makes a counter go back. Rows of a
// pod are removed a day after its end; if there are too many, new ones share the row Other. Totals by namespace and
// account are kept forever. It is experimental: its API may change between minor versions.
package ledger
