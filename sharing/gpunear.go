// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"cmp"
	"slices"
	"strings"
	"sync"

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

// sameModel reports whether two models are one but for a slip: a letter for a digit, a digit too often or too seldom in
// a row, another letter behind.
func sameModel(a, b string) bool {
	fold := func(s string) string {
		return strings.TrimRight(strings.NewReplacer("o", "0", "i", "1").Replace(s), gpuLetters)
	}
	once := func(s string) string { return string(slices.Compact([]byte(s))) }
	a, b = fold(a), fold(b)
	n := len(a) - len(b)
	return a == b || n*n == 1 && once(a) == once(b)
}

// gpuIndex maps folded names, folded aliases and PCI ids to rows of the table.
type gpuIndex struct {
	names   map[string]*GPU
	aliases map[string][]*GPU
	pci     map[string][]*GPU
	words   []gpuWord // every name and alias, for suggestions
}

var gpuByKey = sync.OnceValue(func() gpuIndex {
	x := gpuIndex{map[string]*GPU{}, map[string][]*GPU{}, map[string][]*GPU{}, nil}
	rows := gpuTable()
	for i := range rows {
		g := &rows[i]
		x.names[FoldGPUName(g.Name)] = g
		for _, word := range append([]string{g.Name}, g.Aliases...) {
			key := FoldGPUName(word)
			if word != g.Name {
				x.aliases[key] = append(x.aliases[key], g)
			}
			x.words = append(x.words, gpuWord{gpuParts(word), g})
		}
		for _, id := range g.PCIIDs {
			x.pci[id] = append(x.pci[id], g)
		}
	}
	return x
})

// LookupGPU finds a GPU by product name ("NVIDIA A100-SXM4-80GB"), alias ("A100-80GB") or PCI id. Names compare by
// FoldGPUName. A product name wins over an alias: "H200" is the SXM board, its name in NVML; "A100" fits four boards
// and gives an *AmbiguousGPUError. A short form that gives the memory size but no form factor ("A100-80GB",
// "V100-32GB", "H100-80GB") means the SXM board. PCI ids are "0x20B2" (device), "0x20B210DE" (device and vendor, as
// NVML and mig-parted write it, a ":subsystem" after it is ignored) or "10DE:20B2". A name with facts in parentheses,
// as DescribeGPU writes it, describes a GPU outside the table. Any other name gives ErrUnknownGPU.
//
// The GPU is shared and must not be modified.
func LookupGPU(name string) (*GPU, error) {
	if id, ok := pciKey(name); ok {
		return oneGPU(name, gpuByKey().pci[id])
	}
	key := FoldGPUName(name)
	if g := gpuByKey().names[key]; g != nil {
		return g, nil
	}
	if len(gpuByKey().aliases[key]) != 1 {
		if g := describedGPU(strings.TrimSpace(name)); g != nil {
			return g, nil
		}
	}
	return oneGPU(name, gpuByKey().aliases[key])
}

func oneGPU(name string, matches []*GPU) (*GPU, error) {
	switch len(matches) {
	case 0:
		return nil, &unknownGPUError{Name: name, Nearest: nearestGPUs(name)}
	case 1:
		return matches[0], nil
	}
	e := &AmbiguousGPUError{Name: name}
	for _, g := range matches {
		e.Matches = append(e.Matches, g.Name)
	}
	slices.Sort(e.Matches)
	return nil, e
}
