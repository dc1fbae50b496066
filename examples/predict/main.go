// Command predict says from profiles of workloads alone what each will see
// beside the others on one GPU, under time-slicing and MPS, and how sure that
// is. Where the outcomes were measured it compares. It needs no GPU.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }
