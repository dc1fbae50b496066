// Package probe measures in under a minute what a GPU does when several
// processes share it: how long a time slice is and what a switch costs, what MPS
// costs a lone client, what its clients do to one another, how fast memory and
// copies are. A [Result] makes a [predict.Predictor] of that GPU and driver.
//
// Run takes the measurements on a Site and says what it could not measure, and
// why. Package cudaprobe has this machine's GPU, Simulated a simulated one. The
// analysis of what the processes recorded is ordinary Go, the same for both.
//
// A probe changes nothing on the machine: no compute mode, time-slice policy,
// MIG, clocks, power or persistence.
package probe
