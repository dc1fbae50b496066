// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// SourceID is the key of a source, for example "nvidia-mps-guide". SourceByID resolves it; the package documentation
// describes the form of ids.
type SourceID string

// Source is the origin of a statement or figure: a document that anyone can open.
type Source struct {
	ID    SourceID `json:"-"`
	Title string   `json:"title"` // for people
	Basis Basis    `json:"basis"` // kind of evidence
	// Locator is a URL, a repository at a commit with a path
	// ("github.com/NVIDIA/k8s-device-plugin@<commit>:README.md"), a paper ("arXiv:2604.08451",
	// "doi:10.1145/3764944.3764952") or a file of this repository, from its root.
	Locator string `json:"locator"`
	// Section is the relevant part: a section of a page, rows of a file, the machine and driver of a measurement. It may
	// be empty.
	Section string `json:"section,omitempty"`
	// Date is the day when a page was read or a measurement made, as "2026-11-21"; empty for documents that do not change.
	Date string `json:"date,omitempty"`
}

// sourceRow is a row of the table, which has the id that a Source's own JSON leaves out.
type sourceRow struct {
	ID SourceID
	Source
}

var sourceRows = table[sourceRow]("sources.json")

// sources lists every source that a SourceID may name, by publisher. The slice is the caller's.
func sources() []Source {
	var out []Source
	for _, r := range sourceRows() {
		r.Source.ID = r.ID
		out = append(out, r.Source)
	}
	return out
}

var sourceIndex = sync.OnceValue(func() map[SourceID]Source {
	index := map[SourceID]Source{}
	for _, s := range sources() {
		index[s.ID] = s
	}
	return index
})

// SourceByID returns the source of an id, and whether there is one.
func SourceByID(id SourceID) (Source, bool) {
	s, ok := sourceIndex()[id]
	return s, ok
}

// Cell is a value that may be unknown, with its source. The zero Cell is unknown; ignore Value unless Known is true.
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

// The package's tables. A file is a list of rows with the fields of the row's type; a missing field is
// unknown, or empty.
//
//go:embed data
var data embed.FS

// table returns a function that reads a file of rows when it is first called. A test holds that every file can be
// read; of a damaged one there would be no rows.
func table[T any](file string) func() []T {
	return sync.OnceValue(func() []T {
		rows, _ := readTable[T](file)
		return rows
	})
}

func readTable[T any](file string) ([]T, error) {
	text, err := data.ReadFile("data/" + file)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var rows []T
	if err := dec.Decode(&rows); err != nil {
		return nil, fmt.Errorf("sharing: data/%s: %w", file, err)
	}
	return rows, nil
}

// Citations collects the sources that an output names, so that it can end with a list of them. The zero value is
// empty and ready for use; it is not safe for concurrent use.
type Citations struct {
	// IDs are the sources in the order in which they were first cited.
	IDs []SourceID
	// Rest tells readers how to see the sources that WriteText leaves out, for example "-json has all". If it is empty,
	// WriteText only counts them.
	Rest string
}

// Add cites sources. Empty ids and ids already cited are ignored.
func (c *Citations) Add(ids ...SourceID) {
	for _, id := range ids {
		if id != "" && !slices.Contains(c.IDs, id) {
			c.IDs = append(c.IDs, id)
		}
	}
}

// Ref cites id and returns the reference to print in text, " [nvidia-mps-guide]"; for an empty id it returns "".
func (c *Citations) Ref(id SourceID) string {
	if id == "" {
		return ""
	}
	c.Add(id)
	return " [" + string(id) + "]"
}

// The list that WriteText writes: at most citationLines lines of at most citationColumns columns.
const citationLines, citationColumns = 10, 100

// WriteText writes the cited sources under the heading SOURCES, a line each: id and locator, a commit cut to 12 digits
// and a long path to its end. It writes at most ten lines; the last one says how to see the rest. Without citations it
// writes nothing.
func (c Citations) WriteText(w io.Writer) error {
	if len(c.IDs) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("SOURCES\n")
	shown := c.IDs
	if len(shown) > citationLines {
		shown = shown[:citationLines-1]
	}
	width := 0
	for _, id := range shown {
		width = max(width, len(id))
	}
	for _, id := range shown {
		locator := "not a source of this version"
		if s, ok := SourceByID(id); ok {
			locator = s.Locator
		}
		b.WriteString(locatorLine(id, width, locator) + "\n")
	}
	if left := len(c.IDs) - len(shown); left > 0 {
		fmt.Fprintf(&b, "  and %d more", left)
		if c.Rest != "" {
			b.WriteString(": " + c.Rest)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// locatorLine shortens a locator to the width of a line: its folders first, then the start of its file's name.
func locatorLine(id SourceID, width int, locator string) string {
	head, tail := "", strings.TrimPrefix(locator, "https://")
	if repo, rest, ok := strings.Cut(tail, "@"); ok {
		commit, path, _ := strings.Cut(rest, ":")
		head, tail = repo+"@"+commit[:min(len(commit), 12)]+":", path
	} else if host, path, ok := strings.Cut(tail, "/"); ok {
		head, tail = host+"/", path
	}
	if len(head) > citationColumns-width-16 {
		width = 0
	}
	line := fmt.Sprintf("  %-*s  %s", width, id, head)
	room := citationColumns - utf8.RuneCountInString(line)
	for utf8.RuneCountInString(tail) > room {
		_, rest, ok := strings.Cut(strings.TrimPrefix(tail, "…/"), "/")
		if !ok {
			cut := []rune(tail)
			return line + "…" + string(cut[len(cut)-max(room-1, 0):])
		}
		tail = "…/" + rest
	}
	return line + tail
}

// MarshalJSON writes an object of the cited sources, by id.
func (c Citations) MarshalJSON() ([]byte, error) {
	sources := make(map[SourceID]Source, len(c.IDs))
	for _, id := range c.IDs {
		sources[id], _ = SourceByID(id)
	}
	return json.Marshal(sources)
}

// UnmarshalJSON is the inverse of MarshalJSON; the ids come sorted.
func (c *Citations) UnmarshalJSON(b []byte) error {
	var sources map[SourceID]json.RawMessage
	if err := json.Unmarshal(b, &sources); err != nil {
		return err
	}
	c.IDs = nil
	for id := range sources {
		c.IDs = append(c.IDs, id)
	}
	slices.Sort(c.IDs)
	return nil
}

// IsZero reports whether nothing is cited; the JSON option omitzero then leaves the field out.
func (c Citations) IsZero() bool { return len(c.IDs) == 0 }
