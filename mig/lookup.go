package mig

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Models returns every GPU of the catalogue. The slice is the caller's, the
// models are shared.
func Models() []*Model {
	c, err := loaded()
	if err != nil {
		return nil
	}
	return slices.Clone(c.models)
}

// LookupError says that a name or PCI id is not that of exactly one GPU of the
// catalogue. It is an ErrUnknownGPU or an ErrAmbiguousGPU.
type LookupError struct {
	Name    string
	Matches []string // keys of the GPUs that match; empty when none does
	hint    string
}

// Error names the matches, or the nearest name, or says what is known of a GPU
// whose profiles are not.
func (e *LookupError) Error() string {
	if len(e.Matches) > 0 {
		return fmt.Sprintf("mig: ambiguous GPU %q: it may be %s; use one of these, or a PCI id with its subsystem", problem.Clip(e.Name), strings.Join(e.Matches, ", "))
	}
	return fmt.Sprintf("mig: unknown GPU %q; %s", problem.Clip(e.Name), cmp.Or(e.hint, "it is not in the catalogue (see Models)"))
}

// Is reports whether target is the sentinel of this error.
func (e *LookupError) Is(target error) bool {
	if len(e.Matches) > 0 {
		return target == ErrAmbiguousGPU
	}
	return target == ErrUnknownGPU
}

type lookupIndex struct {
	exact map[string][]*Model // folded key or product
	words []modelWords
	names []string
}

type modelWords struct {
	model *Model
	words [][]string // of each product name
}

func newLookupIndex(models []*Model) lookupIndex {
	ix := lookupIndex{exact: map[string][]*Model{}}
	add := func(key string, m *Model) {
		if !slices.Contains(ix.exact[key], m) {
			ix.exact[key] = append(ix.exact[key], m)
		}
	}
	for _, m := range models {
		mw := modelWords{model: m}
		add(sharing.FoldGPUName(m.Key), m)
		ix.names = append(ix.names, m.Key)
		mw.words = append(mw.words, gpuWords(m.Key))
		for _, p := range m.Products {
			add(sharing.FoldGPUName(p), m)
			ix.names = append(ix.names, trimProduct(p))
			mw.words = append(mw.words, gpuWords(p))
		}
		ix.words = append(ix.words, mw)
	}
	return ix
}

func trimProduct(p string) string { return strings.TrimPrefix(p, "NVIDIA ") }

// gpuWords are the words of a name in lower case, without "NVIDIA" and what
// follows a parenthesis.
func gpuWords(s string) []string {
	s = strings.ToLower(s)
	if i := strings.IndexByte(s, '('); i > 0 {
		s = s[:i]
	}
	words := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" -_\t/", r) })
	if len(words) > 0 && words[0] == "nvidia" {
		words = words[1:]
	}
	return words
}

// Lookup finds a GPU by product name ("NVIDIA A100-SXM4-80GB"), key
// ("a100-80gb") or PCI id ("0x2335", "0x233510DE", "0x2BB310DE:0x204D10DE",
// "10de:2335"). Names match loosely: case, "NVIDIA ", separators and a suffix
// in parentheses don't count, and words may be left out ("A100 80GB") as long
// as one GPU remains. The error is a *LookupError.
func Lookup(name string) (*Model, error) {
	c, err := loaded()
	if err != nil {
		return nil, err
	}
	folded := sharing.FoldGPUName(name)
	f, isPCI := parsePCI(name)
	for _, u := range c.unlisted {
		if isPCI && f.Vendor == nvidiaVendor && slices.Contains(u.PCI, fmt.Sprintf("0x%04X", f.Device)) || folded == sharing.FoldGPUName(u.Name) {
			return nil, &LookupError{Name: name, hint: fmt.Sprintf("no source gives the MIG profiles of %s: ask the device", u.Name)}
		}
	}
	if isPCI {
		return oneOf(name, f.among(c.models), nil)
	}
	if i := slices.IndexFunc(c.models, func(m *Model) bool { return sharing.FoldGPUName(m.Key) == folded }); i >= 0 {
		return c.models[i], nil
	}
	if m, err := c.byProduct(name); m != nil || err != nil {
		return m, err
	}
	matches := c.index.exact[folded]
	if words := gpuWords(name); len(matches) == 0 && len(words) > 0 {
		matches = c.index.byWords(words)
	}
	return oneOf(name, matches, c.index.names)
}

// byProduct finds the GPU through the product table of package sharing, so
// that both mean the same board by a name. It finds nothing, without an error,
// where that table knows no such name or the catalogue no such board.
func (c *catalogue) byProduct(name string) (*Model, error) {
	products := []string{}
	g, err := sharing.LookupGPU(name)
	var ambiguous *sharing.AmbiguousGPUError
	switch {
	case err == nil:
		products = append(products, g.Name)
	case errors.As(err, &ambiguous):
		products = ambiguous.Matches
	}
	var matches []*Model
	for _, product := range products {
		g, err := sharing.LookupGPU(product)
		if err != nil {
			continue
		}
		exact := c.index.exact[sharing.FoldGPUName(product)]
		for _, id := range g.PCIIDs {
			f, ok := parsePCI(id)
			if !ok {
				continue
			}
			for _, m := range f.among(c.models) {
				// Boards that share a PCI id are told apart by name.
				if !slices.Contains(matches, m) && (len(f.among(c.models)) == 1 || slices.Contains(exact, m)) {
					matches = append(matches, m)
				}
			}
		}
	}
	if len(matches) == 0 {
		return nil, nil
	}
	slices.SortFunc(matches, func(a, b *Model) int {
		return cmp.Compare(slices.Index(c.models, a), slices.Index(c.models, b))
	})
	return oneOf(name, matches, nil)
}

func oneOf(name string, matches []*Model, names []string) (*Model, error) {
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		e := &LookupError{Name: name}
		if near := problem.Nearest(name, names); near != "" {
			e.hint = fmt.Sprintf("did you mean %q?", near)
		}
		return nil, e
	}
	e := &LookupError{Name: name}
	for _, m := range matches {
		e.Matches = append(e.Matches, m.Key)
	}
	return nil, e
}

func (ix *lookupIndex) byWords(query []string) []*Model {
	var matches []*Model
	for _, mw := range ix.words {
		if slices.ContainsFunc(mw.words, func(words []string) bool {
			return !slices.ContainsFunc(query, func(w string) bool { return !slices.Contains(words, w) })
		}) {
			matches = append(matches, mw.model)
		}
	}
	return matches
}

// Profile returns the profile of a name. Aliases and the prefix "MIG " are
// accepted, and the name of a compute instance ("1c.3g.40gb") gives the
// profile of its GPU instance. The error is an ErrUnknownProfile with the
// nearest names.
func (m *Model) Profile(name string) (*Profile, error) {
	if p := m.byName[name]; p != nil {
		return p, nil
	}
	n, err := ParseName(name)
	if err != nil {
		var bad *invalidError
		if errors.As(err, &bad) {
			bad.unknownProfile = true
		}
		return nil, err
	}
	if p := m.byName[n.gpuInstance().String()]; p != nil {
		return p, nil
	}
	return nil, m.unknownProfile(name)
}

// ProfileByConst returns the profile of an NVML constant
// (NVML_GPU_INSTANCE_PROFILE_*), or nil when the GPU has none.
func (m *Model) ProfileByConst(nvmlConst int) *Profile {
	for _, p := range m.Profiles {
		if p.Const == nvmlConst {
			return p
		}
	}
	return nil
}

func (m *Model) unknownProfile(name string) error {
	if len(m.Profiles) == 0 {
		return &invalidError{fmt.Errorf("the catalogue has no profiles of %s; ask the device", m.Key), true}
	}
	msg := fmt.Sprintf("%s has no profile %q", m.Key, problem.Clip(name))
	if near := m.nearest(name); near != "" {
		return &invalidError{fmt.Errorf("%s; did you mean %q?", msg, near), true}
	}
	return &invalidError{fmt.Errorf("%s (it has %s)", msg, strings.Join(m.ProfileNames(), ", ")), true}
}

// nearest returns the profile of the same slices and attributes whose memory is
// nearest, or the name that is nearest in letters, or "".
func (m *Model) nearest(name string) string {
	n, err := ParseName(name)
	if err != nil {
		return problem.Nearest(name, m.ProfileNames())
	}
	best, distance := "", 0
	for _, p := range m.Profiles {
		q := p.parsed
		d := max(q.GB-n.GB, n.GB-q.GB)
		if q.Slices == n.Slices && slices.Equal(q.Attributes, n.Attributes) && slices.Equal(q.Without, n.Without) && (best == "" || d < distance) {
			best, distance = p.Name, d
		}
	}
	return best
}

// ProfileNames returns the canonical names of the model's profiles in the
// catalogue's order.
func (m *Model) ProfileNames() []string {
	names := make([]string, len(m.Profiles))
	for i, p := range m.Profiles {
		names[i] = p.Name
	}
	return names
}

// String returns the model's key.
func (m *Model) String() string {
	if m == nil {
		return "no GPU"
	}
	return m.Key
}
