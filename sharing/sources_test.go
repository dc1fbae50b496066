// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/race"
)

// What a locator may be, besides a file of this repository.
var locators = regexp.MustCompile(`^(https://[a-z0-9.-]+\.[a-z]+/\S+|github\.com/[\w.-]+/[\w.-]+@[0-9a-f]{40}:\S+|arXiv:\d{4}\.\d{4,5}|doi:10\.\d+/\S+)$`)

func TestSources(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	date := regexp.MustCompile(`^2\d{3}-\d{2}-\d{2}$`)
	seen := map[SourceID]bool{}
	for _, s := range sources() {
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
		if line := locatorLine(s.ID, 31, s.Locator); utf8.RuneCountInString(line) > citationColumns {
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

// walkCode visits the module's Go files that are no tests, mig's catalogue, the constants of predictions, the table of
// rollouts, the sentences of gates, the tables of scores and this package's tables.
func walkCode(visit func(path string, code []byte)) error {
	return filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name != ".." && name[0] == '.'):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"), name == "catalogue.json", name == "constants.json", name == "warnings.yaml", name == "words.json", name == "tables.json",
			filepath.Dir(path) == filepath.Join("..", "sharing", "data"):
			code, err := os.ReadFile(path)
			visit(path, code)
			return err
		}
		return nil
	})
}

// TestSourcesAreCited looks for each source in the module's code and data.
func TestSourcesAreCited(t *testing.T) {
	race.Long(t)
	var text strings.Builder
	must.Do(t, walkCode(func(path string, code []byte) {
		if filepath.Base(path) != "sources.json" {
			text.Write(code)
		}
	}))
	cited := map[string]bool{}
	for _, word := range regexp.MustCompile(`[\w-]+`).FindAllString(text.String(), -1) {
		cited[word] = true
	}
	for _, s := range sources() {
		if !cited[string(s.ID)] {
			t.Errorf("nothing cites %s", s.ID)
		}
	}
}

// TestLiteralsResolve looks every text up that the module's code converts to a SourceID, or that it or a table gives a
// field named Source.
func TestLiteralsResolve(t *testing.T) {
	race.Long(t)
	literal := regexp.MustCompile(`(?:\bSourceID\(|\bSource:\s*|"source":\s*)"([a-z0-9-]*)"`)
	found := 0
	err := walkCode(func(path string, code []byte) {
		for _, m := range literal.FindAllSubmatch(code, -1) {
			found++
			if _, ok := SourceByID(SourceID(m[1])); !ok && len(m[1]) > 0 {
				t.Errorf("%s: %q is no source", path, m[1])
			}
		}
	})
	if err != nil || found < 100 {
		t.Errorf("%d texts were looked at, %v", found, err)
	}
}
