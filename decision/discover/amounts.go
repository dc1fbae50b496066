// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"math"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

// Numbers beyond these are mistakes.
const (
	mostPerNode  = 1024
	mostReplicas = 10_000
	mostPods     = 100_000
	mostMemory   = 16 * sharing.TiB
)

// count reads a number of devices; 0 where it is none.
func count(text string) int {
	if v := amountIn("", text); v <= 1<<20 {
		return int(v)
	}
	return 0
}

// amountOf reads a number of things, or an amount of memory as MiB.
func amountOf(text string) int {
	if v := count(text); v > 0 {
		return v
	}
	return int(quantity(text) >> 20)
}

// quantity reads an amount as Kubernetes writes it, 20Gi or 21474836480; 0 where it is none, or more than there can be.
func quantity(text string) int64 {
	if v := amountIn("", text); v <= int64(mostMemory) {
		return v
	}
	return 0
}

// amountIn reads an amount of a resource: thousandths of a CPU, bytes of memory or storage, a number of others; 0 where
// the text is no amount.
func amountIn(key, text string) int64 {
	end := strings.LastIndexAny(text, "0123456789.") + 1
	v, err := strconv.ParseFloat(text[:end], 64)
	if v *= quantityScales[text[end:]]; key == "cpu" {
		v *= 1000
	}
	if err != nil || !(v >= 0 && v < 1<<60) {
		return 0
	}
	return int64(math.Round(v))
}

// quantityScales are the suffixes of Kubernetes' quantities.
var quantityScales = map[string]float64{"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
	"P": 1e15, "E": 1e18, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}

// ECC takes up to 7% of a board's memory, and the GPU table has some boards with it and some without.
func near(got, known sharing.Bytes) bool {
	return float64(got) >= 0.9*float64(known) && float64(got) <= 1.08*float64(known)
}
