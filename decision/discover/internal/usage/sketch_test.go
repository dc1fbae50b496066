package usage

import (
	"math"
	"slices"
)

// nearestRank is the smallest value that so many of all do not exceed.
func nearestRank(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(int(math.Ceil(q*float64(len(sorted)))), 1)-1]
}
