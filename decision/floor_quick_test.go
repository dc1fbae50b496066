//go:build !nightly

package decision

// floorSample is how many random servers are tried for each GPU and mechanism, in the mean.
const floorSample float64 = 0.15
