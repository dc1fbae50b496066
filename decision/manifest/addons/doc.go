// Package addons extends the folder of package manifest by documents for a program
// that only some clusters have: Kueue's queues.
//
// The package is experimental: its API may change between minor versions.
package addons
