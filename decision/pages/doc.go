// Package pages makes pages of decisions: of a fleet's plan, of the change of what runs, of predictions against
// measurements, and of what sharing costs and isolates. GPUs are boxes, by node or pool, with tenants and slices to
// scale.
//
// Experimental: its API may change.
package pages
