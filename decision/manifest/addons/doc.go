// Package addons extends the folder of package manifest by documents for programs
// that only some clusters have: Kueue's queues and NVIDIA's vGPU manager.
//
// The package is experimental: its API may change between minor versions.
package addons
