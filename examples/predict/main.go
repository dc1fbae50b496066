// Command predict predicts the latencies of workloads that share a GPU under
// time-slicing and MPS, with intervals, from profiles of each alone. Where the outcomes
// were measured it compares. It needs no GPU.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }
