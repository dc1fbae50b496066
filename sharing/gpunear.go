// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// gpuWord is a name or alias of the table.
type gpuWord struct {
	parts []string // as gpuParts splits it
	gpu   *GPU
}

// gpuParts splits a name into lower-case words, without "NVIDIA" and text in parentheses.
func gpuParts(name string) []string {
	name, _, _ = strings.Cut(strings.ToLower(name), "(")
	parts := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(" \t-_/.", r) })
	return slices.DeleteFunc(parts, func(p string) bool { return p == "nvidia" })
}

// nearestGPUs suggests at most three products, for a name that is one of theirs misspelt or cut short. A name with
// another model in it, as the A6000 is another than the 6000, is no typing error: it would be sent to a namesake.
func nearestGPUs(name string) []string {
	parts := gpuParts(name)
	if len(name) > 64 || len(parts) == 0 {
		return nil
	}
	var found []gpuWord
	for _, w := range gpuByKey().words {
		if misspelt(parts, w.parts) {
			found = append(found, w)
		}
	}
	// First those with the most words of the name, then those with the fewest others.
	slices.SortStableFunc(found, func(x, y gpuWord) int {
		return cmp.Or(cmp.Compare(lacking(parts, x.parts), lacking(parts, y.parts)), cmp.Compare(len(x.parts), len(y.parts)))
	})
	var near []string
	for _, w := range found {
		if !slices.Contains(near, w.gpu.Name) && len(near) < 3 {
			near = append(near, w.gpu.Name)
		}
	}
	return near
}

// lacking counts the words of a name that a product has not.
func lacking(name, product []string) (n int) {
	for _, word := range name {
		if !slices.Contains(product, word) {
			n++
		}
	}
	return n
}

// misspelt reports whether the words of a name can be meant for those of a product: its model is the product's but
// for a slip, and each further word is near one of the product's.
func misspelt(name, product []string) bool {
	model, other := modelOf(name), modelOf(product)
	if model != "" && (other == "" || !sameModel(model, other)) {
		return false
	}
	for _, word := range name {
		if word != model && !slices.Contains(product, word) && (len(word) < 3 || problem.Nearest(word, product) == "") {
			return false
		}
	}
	return true
}

const gpuDigits, gpuLetters = "0123456789", "abcdefghijklmnopqrstuvwxyz"

// modelOf is the first word with a digit: "a6000" of "RTX A6000".
func modelOf(parts []string) string {
	for _, p := range parts {
		if strings.ContainsAny(p, gpuDigits) {
			return p
		}
	}
	return ""
}

// sameModel reports whether two models are one but for a slip: a letter for a digit, a character too often or too
// seldom in a row, two that changed places, another letter behind.
func sameModel(a, b string) bool {
	slip := strings.NewReplacer("o", "0", "i", "1")
	a, b = slip.Replace(a), slip.Replace(b)
	if n := len(a) - len(b); a == b || n*n == 1 && once(a) == once(b) ||
		strings.TrimRight(a, gpuLetters) == strings.TrimRight(b, gpuLetters) {
		return true
	}
	for i := range len(a) - 1 {
		if a[:i]+a[i+1:i+2]+a[i:i+1]+a[i+2:] == b {
			return true
		}
	}
	return false
}

// once leaves of equal characters in a row the first.
func once(s string) string { return string(slices.Compact([]byte(s))) }
