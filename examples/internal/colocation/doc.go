// Package colocation is what the examples share that run workloads side by
// side: servers on simulated GPUs, load with telemetry beside it, the figures
// of a run in the co-location format, and the predictor that knows the simulated
// GPU's constants.
package colocation
