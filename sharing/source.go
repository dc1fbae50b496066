package sharing

import "encoding/json"

// SourceID is the key of a source or of a row of the facts, for example "A10"
// (a table), "F4" (a flow), "T13" (a trap), "MOLD" (a document), "H200" (our
// measurements). SourceByID resolves it.
type SourceID string

// Source is where a statement or figure comes from.
type Source struct {
	ID    SourceID
	Title string // what it is, in words
	Basis Basis  // what kind of evidence it is
	// Locator says where to find it: a page name, a repository at a commit, an
	// arXiv number, a file of measurements. It may be empty.
	Locator string
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

// UnmarshalJSON reads what MarshalJSON writes.
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
