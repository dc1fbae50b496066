// SPDX-License-Identifier: Apache-2.0

// Package pages makes web pages of a fleet's plan, of a change to a running cluster, and of the cost and isolation of
// sharing. GPUs are drawn as boxes, by node or pool, with tenants and slices to scale. Experimental: its API may
// change.
package pages
