package sharing

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Citations collects the sources that an output names, so that it can end with a list of them. The zero value is
// empty and ready for use; it is not safe for concurrent use.
type Citations struct {
	// IDs are the sources in the order in which they were first cited.
	IDs []SourceID
	// Rest says how to see those that WriteText leaves out, for example
	// "-json has all". Empty: WriteText only counts them.
	Rest string
}

// Add cites sources. Empty ids and those that are cited already change nothing.
func (c *Citations) Add(ids ...SourceID) {
	for _, id := range ids {
		if id != "" && !slices.Contains(c.IDs, id) {
			c.IDs = append(c.IDs, id)
		}
	}
}

// AddKnown cites text if it is the id of a source: for fields that hold an id, or words of the user's own.
func (c *Citations) AddKnown(text string) {
	if _, ok := SourceByID(SourceID(text)); ok {
		c.Add(SourceID(text))
	}
}

// Ref cites id and returns it as text refers to it, " [nvidia-mps-guide]"; it returns nothing for an empty id.
func (c *Citations) Ref(id SourceID) string {
	if id == "" {
		return ""
	}
	c.Add(id)
	return " [" + string(id) + "]"
}

// The list that WriteText writes: at most citationLines lines of at most citationColumns columns.
const citationLines, citationColumns = 10, 100

// WriteText writes the cited sources under the heading SOURCES, a line each: id and locator, a commit cut to 12
// digits and a long path to its end. It writes at most ten lines; the last one says how to see the rest. Nothing
// cited, nothing written.
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

// locatorLine leaves out what a line has no room for of a locator's folders,
// and of the start of its file's name if that alone is too long.
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

// UnmarshalJSON reads what MarshalJSON writes; the ids come sorted.
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

// IsZero answers whether nothing is cited; a field with the option omitzero is then left out of JSON.
func (c Citations) IsZero() bool { return len(c.IDs) == 0 }
