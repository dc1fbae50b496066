// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"errors"
	"math"
	"testing"
)

func parsePPM(s string) (p PPM, err error) {
	err = p.UnmarshalText([]byte(s))
	return p, err
}

func TestPPMText(t *testing.T) {
	for in, want := range map[string]PPM{"8%": 80_000, "46.4286%": 464_286, "-0.5%": -5_000, "0%": 0, "100%": Whole, " 101.47% ": 1_014_700} {
		p, err := parsePPM(in)
		if err != nil || p != want {
			t.Errorf("parsePPM(%q) = %d, %v; want %d", in, p, err, want)
		}
	}
	for _, bad := range []string{"", "%", "8", "0.08", "8 %%", "1e2%", "8.00001%", "99999999999999999999%", "NaN%", "8％"} {
		if p, err := parsePPM(bad); !errors.Is(err, errInput) || p != 0 {
			t.Errorf("parsePPM(%q) = %v, %v; want errInput", bad, p, err)
		}
	}
	for p, want := range map[PPM]string{80_000: "8%", 464_286: "46.4286%", -5_000: "-0.5%", 1: "0.0001%", Whole: "100%", math.MinInt64: "-922337203685477.5808%"} {
		if p.String() != want {
			t.Errorf("%d prints as %s, want %s", int64(p), p, want)
		}
	}
}

func TestPPMRounding(t *testing.T) {
	for _, c := range []struct {
		p        PPM
		decimals int
		rounded  string
	}{
		{1_014_778, 1, "101.5%"}, {-503_668, 1, "-50.4%"}, {464_286, 1, "46.4%"}, {500_000, 1, "50%"},
		{5_000, 0, "1%"}, {-5_000, 0, "-1%"}, {4_999, -1, "0%"}, {1, 9, "0.0001%"},
		{math.MaxInt64, 0, "922337203685477%"}, {math.MinInt64, 0, "-922337203685477%"},
	} {
		if r := c.p.RoundPercent(c.decimals).String(); r != c.rounded {
			t.Errorf("%d to %d decimals: %s; want %s", int64(c.p), c.decimals, r, c.rounded)
		}
	}
}
func FuzzParsePPM(f *testing.F) {
	for _, s := range []string{"8%", "46.4286%", "-0.5%", "-0.0001%", "%", "8", "100%", "922337203685477.5807%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePPM(s)
		if err != nil {
			if p != 0 {
				t.Errorf("value %v with error %v", p, err)
			}
			return
		}
		if back, err := parsePPM(p.String()); err != nil || back != p {
			t.Errorf("%q -> %v -> %v, %v", s, p, back, err)
		}
	})
}
