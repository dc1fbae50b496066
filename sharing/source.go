package sharing

import (
	"encoding/json"
	"sync"
)

// SourceID is the key of a source, for example "nvidia-mps-guide". SourceByID
// resolves it, the package's documentation says how ids are formed.
type SourceID string

// Source is the origin of a statement or figure: something that a stranger can open.
type Source struct {
	ID    SourceID `json:"-"`
	Title string   `json:"title"` // what it is, in words
	Basis Basis    `json:"basis"` // what kind of evidence it is
	// Locator says where to find it: a URL, a repository at a commit with a path
	// ("github.com/NVIDIA/k8s-device-plugin@<commit>:README.md"), a paper ("arXiv:2604.08451",
	// "doi:10.1145/3764944.3764952") or a file of this repository, from its root.
	Locator string `json:"locator"`
	// Section says which part of it: a section of a page, rows of a file, the
	// machine and driver of a measurement. It may be empty.
	Section string `json:"section,omitempty"`
	// Date is the day when a page was read or a measurement made, as "2026-11-21"; empty for what does not change.
	Date string `json:"date,omitempty"`
}

// sourceRow is a row of the table, which has the id that a Source's own JSON leaves out.
type sourceRow struct {
	ID SourceID
	Source
}

var sourceRows = table[sourceRow]("sources.json")

// Sources lists every source that a SourceID may name, by publisher. The slice is the caller's.
func Sources() []Source {
	var out []Source
	for _, r := range sourceRows() {
		r.Source.ID = r.ID
		out = append(out, r.Source)
	}
	return out
}

var sourceIndex = sync.OnceValue(func() map[SourceID]Source {
	index := map[SourceID]Source{}
	for _, s := range Sources() {
		index[s.ID] = s
	}
	return index
})

// SourceByID returns the source of an id, and whether there is one.
func SourceByID(id SourceID) (Source, bool) {
	s, ok := sourceIndex()[id]
	return s, ok
}

// Cell is a value that may be unknown, with the source that gives it. The
// zero Cell is unknown; Value means nothing unless Known is true.
type Cell[T any] struct {
	Value  T
	Known  bool
	Source SourceID
}

// Get returns the value and whether it is known.
func (c Cell[T]) Get() (T, bool) { return c.Value, c.Known }

// KnownCell returns a known cell.
func KnownCell[T any](v T, src SourceID) Cell[T] { return Cell[T]{Value: v, Known: true, Source: src} }

type cellJSON[T any] struct {
	Value  T        `json:"value"`
	Source SourceID `json:"source"`
}

// MarshalJSON writes {"value": ..., "source": ...}, and null for an unknown
// cell. A field with the option omitzero leaves an unknown cell out.
func (c Cell[T]) MarshalJSON() ([]byte, error) {
	if !c.Known {
		return []byte("null"), nil
	}
	return json.Marshal(cellJSON[T]{c.Value, c.Source})
}

func (c *Cell[T]) UnmarshalJSON(b []byte) error {
	var v *cellJSON[T]
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*c = Cell[T]{}
	if v != nil {
		*c = KnownCell(v.Value, v.Source)
	}
	return nil
}
