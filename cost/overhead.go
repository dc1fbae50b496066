package cost

import "github.com/cotenant/cotenant/sharing"

// OverheadRange returns a sharing.Overhead's bracket for use with money, its
// ends rounded to parts per million, and false where it is not known: that no
// source gives a figure does not mean that there is no overhead.
// sharing.InfoFor(m).Overhead is the bracket to plan with until you measure.
func OverheadRange(o sharing.Overhead) (low, high PPM, ok bool) {
	if !o.Known {
		return 0, 0, false
	}
	low, err := PPMFromFloat(o.Low)
	if err != nil {
		return 0, 0, false
	}
	high, err = PPMFromFloat(o.High)
	if err != nil || low < 0 || high < low {
		return 0, 0, false
	}
	return low, high, true
}
