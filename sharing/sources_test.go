package sharing

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// What a locator may be, besides a file of this repository.
var locators = regexp.MustCompile(`^(https://[a-z0-9.-]+\.[a-z]+/\S+|github\.com/[\w.-]+/[\w.-]+@[0-9a-f]{40}:\S+|arXiv:\d{4}\.\d{4,5}|doi:10\.\d+/\S+)$`)

func TestSources(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	date := regexp.MustCompile(`^2\d{3}-\d{2}-\d{2}$`)
	seen := map[SourceID]bool{}
	for _, s := range Sources() {
		if !form.MatchString(string(s.ID)) || seen[s.ID] || s.Title == "" || s.Basis == BasisUnknown {
			t.Errorf("malformed, or not the first of its id: %+v", s)
		}
		seen[s.ID] = true
		if got, ok := SourceByID(s.ID); !ok || got != s {
			t.Errorf("SourceByID(%s) = %+v, %v", s.ID, got, ok)
		}
		if !locators.MatchString(s.Locator) {
			if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(s.Locator))); err != nil || strings.Contains(s.Locator, ":") {
				t.Errorf("%s: locator %q is no URL, no repository at a commit, no paper and no file here", s.ID, s.Locator)
			}
		}
		if strings.HasPrefix(s.Locator, "https://") && !date.MatchString(s.Date) {
			t.Errorf("%s: a page needs the date when it was read", s.ID)
		}
		if line := citationLine(s.ID); utf8.RuneCountInString(line) > citationColumns {
			t.Errorf("a line of %d columns: %s", utf8.RuneCountInString(line), line)
		}
		if own := strings.HasPrefix(string(s.ID), "cotenant-"); own && locators.MatchString(s.Locator) {
			t.Errorf("%s: ours, and not in this repository", s.ID)
		}
	}
	if _, ok := SourceByID("A10"); ok {
		t.Error("A10 resolves")
	}
}

// TestSourcesAreCited looks for each source in the module's code and data.
func TestSourcesAreCited(t *testing.T) {
	var text strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name != ".." && name[0] == '.'):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && name != "sourcedata.go", name == "catalogue.json":
			b, err := os.ReadFile(path)
			text.Write(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	code := text.String()
	for _, s := range Sources() {
		if !regexp.MustCompile(`(^|[^\w-])` + string(s.ID) + `($|[^\w-])`).MatchString(code) {
			t.Errorf("nothing cites %s", s.ID)
		}
	}
}
