package predict

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/costs"
)

// SliceSlowdown returns the factor by which work is slower on a slice with shares of a GPU's SMs and memory
// bandwidth than on the whole of it, and that of decoding, which is bound by bandwidth; priors.
func SliceSlowdown(sms, bandwidth float64) (other, decoding float64) {
	return costs.OnSlice(costs.Medians[costs.SliceOther], sms),
		math.Pow(1/bandwidth, costs.Medians[costs.SliceDecoding])
}
