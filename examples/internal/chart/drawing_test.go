package chart

import (
	"bytes"
	"encoding/xml"
	"io"
	"regexp"
	"strings"
	"testing"
)

// elements reads a document strictly: whatever is not closed, not in its order or
// not escaped is an error.
func elements(t *testing.T, name string, data []byte) []xml.StartElement {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(data))
	dec.Entity = xml.HTMLEntity
	var all []xml.StartElement
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if e, ok := tok.(xml.StartElement); ok {
			all = append(all, e.Copy())
		}
	}
}

var (
	svgColour = regexp.MustCompile(`(?:fill|stroke):(#[^;"]*)`)
	colour    = regexp.MustCompile(`^#([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$`)
)

// checkDrawing wants a drawing that is well-formed, has colours that exist and
// refers to nothing.
func checkDrawing(t *testing.T, name string, data []byte) {
	t.Helper()
	all := elements(t, name, data)
	if len(all) == 0 || all[0].Name.Local != "svg" {
		t.Fatalf("%s is no SVG", name)
	}
	for _, e := range all {
		for _, attr := range e.Attr {
			if attr.Name.Local == "href" || strings.Contains(attr.Value, "url(") {
				t.Errorf("%s: <%s> refers to %s", name, e.Name.Local, attr.Value)
			}
		}
	}
	for _, c := range svgColour.FindAllSubmatch(data, -1) {
		if !colour.Match(c[1]) {
			t.Errorf("%s: %s is no colour", name, c[1])
		}
	}
}
