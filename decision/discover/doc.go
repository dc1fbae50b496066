// Package discover reads what a cluster or a machine says of its GPUs and
// workloads, and makes the fleet of it that package decision decides.
//
// A [Collector] takes files as they are: Kubernetes objects as `kubectl get ... -o json` writes them, what nvidia-smi
// prints (or NVML has, [Collector.AddInventory]), and usage over time. It finds each file's kind from its content and
// joins them by node, GPU UUID and pod. [Collector.Discover] gives a [Discovery]: the fleet, for every field of it
// where it comes from, what shares what today, contradictions, and what is not known, ranked by the money that hangs on
// it. Nothing unknown becomes a number: a field that no source has is left out.
//
// Kinds of workloads are guessed by the rules that [KindRules] lists, and [Hints]
// override them. [Prices] are given by the user; none is known here.
//
// Secrets are never looked into, environment variables are never read, and of labels, annotations and arguments
// only those that say something of GPUs are kept. Kubernetes objects are read one at a time, so that memory grows
// with the pods that use GPUs and not with the file. Nothing in the package does I/O of its own. A Collector is not
// safe for concurrent use.
//
// UPSTREAM.md lists what is read and written of other projects, at which of their versions.
//
// The package is experimental: its API may change between minor versions.
package discover
