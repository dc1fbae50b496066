// Package pages makes pages of decisions: of a fleet's plan, of the change of what runs, and of predictions against
// measurements. GPUs are boxes, by node or pool, with tenants and slices to scale.
//
// Experimental: its API may change.
package pages
