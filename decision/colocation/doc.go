// Package colocation measures what workloads do to one another on a GPU, for
// decision/predict to learn from and to be held against: [ParsePlan] reads which
// loads to run on which servers, alone and side by side, [Record] makes one run
// with telemetry beside it, and [Recording.Row] puts what a load saw into a row of
// the co-location format. It starts no server and changes no GPU.
package colocation
