//go:build nightly

package decision

// floorSample is how many random servers are tried for each GPU and mechanism.
const floorSample float64 = 40
