// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// Bytes is an amount of memory in bytes. Its text form is binary: "18GiB".
type Bytes int64

// Units of memory.
const (
	KiB Bytes = 1024
	MiB       = 1024 * KiB
	GiB       = 1024 * MiB
	TiB       = 1024 * GiB
)

var byteUnits = []struct {
	name string
	size int64
}{
	{"TiB", int64(TiB)}, {"GiB", int64(GiB)}, {"MiB", int64(MiB)}, {"KiB", int64(KiB)},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1},
	{"Ti", int64(TiB)}, {"Gi", int64(GiB)}, {"Mi", int64(MiB)}, {"Ki", int64(KiB)},
}

// String formats b in its largest binary unit, rounded to two decimals: "18GiB", "79.65GiB". MarshalText is exact.
func (b Bytes) String() string {
	neg, u := "", uint64(b)
	if b < 0 {
		neg, u = "-", uint64(-(b+1))+1
	}
	for _, unit := range byteUnits[:4] {
		if size := uint64(unit.size); u >= size {
			decimal := strings.TrimRight(fmt.Sprintf("%.2f", float64(u)/float64(size)), "0")
			return neg + strings.TrimRight(decimal, ".") + unit.name
		}
	}
	return fmt.Sprintf("%s%dB", neg, u)
}

// GiB returns b in gibibytes.
func (b Bytes) GiB() float64 { return float64(b) / float64(GiB) }

// MiB returns b in whole mebibytes, rounded down.
func (b Bytes) MiB() int64 { return int64(b / MiB) }

// MarshalText writes b exactly: in a binary unit where that is whole, else in bytes.
func (b Bytes) MarshalText() ([]byte, error) {
	for _, unit := range byteUnits[:4] {
		if b != 0 && int64(b)%unit.size == 0 {
			return fmt.Appendf(nil, "%d%s", int64(b)/unit.size, unit.name), nil
		}
	}
	return fmt.Appendf(nil, "%dB", int64(b)), nil
}

// UnmarshalText reads an amount with a unit: "18GiB", "1.5 GiB", "512Mi", "80GB" (decimal), "1024B". A bare number
// other than 0 is refused, since its unit would be a guess; so are negative amounts.
func (b *Bytes) UnmarshalText(text []byte) error {
	t := strings.TrimSpace(string(text))
	if t == "0" {
		*b = 0
		return nil
	}
	num := strings.TrimRight(t, "TGMKkiB")
	unit := t[len(num):]
	var size int64
	for _, u := range byteUnits {
		if u.name == unit {
			size = u.size
		}
	}
	num = strings.TrimSpace(num)
	bad := func(why string) error {
		return fmt.Errorf("sharing: %q is not an amount of memory: %s", problem.Clip(string(text)), why)
	}
	switch {
	case size == 0 && unit == "":
		return bad(`add a unit, for example "18GiB"`)
	case size == 0 && slices.Contains([]string{"T", "G", "M", "K", "k"}, unit):
		binary := strings.TrimSpace(num) + strings.ToUpper(unit)
		return bad(fmt.Sprintf("write %q (binary) or %q (decimal)", binary+"i", binary+"B"))
	case size == 0:
		return bad("use B, KiB, MiB, GiB, TiB (or kB, MB, GB, TB)")
	}
	whole, frac, _ := strings.Cut(num, ".")
	if len(num) > 30 || whole+frac == "" || strings.Trim(whole+frac, "0123456789") != "" {
		return bad("write a plain decimal number and a unit")
	}
	part := int64(0) // of the decimals, by Horner's rule from the last one, rounded down
	for _, digit := range slices.Backward([]byte(frac)) {
		part = (int64(digit-'0')*size + part) / 10
	}
	n, err := strconv.ParseUint("0"+whole, 10, 64)
	hi, lo := bits.Mul64(n, uint64(size))
	if err != nil || hi > 0 || lo > math.MaxInt64-uint64(part) {
		return bad("it does not fit 63 bits")
	}
	*b = Bytes(lo) + Bytes(part)
	return nil
}
