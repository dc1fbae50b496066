// SPDX-License-Identifier: Apache-2.0

package page

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func ExampleFold() {
	fmt.Print(Fold("  8%  0.945 USD  73%  by the article, which does not say how it was found, nor on which GPU, nor with how many tenants\n"))
	fmt.Print(Fold("It multiplies a loss per 100 ms by milliseconds, of a base latency of 100 ms that it assumes for everybody.\n"))
	// Output:
	//   8%  0.945 USD  73%  by the article, which does not say how it was found, nor on which GPU, nor
	//                       with how many tenants
	// It multiplies a loss per 100 ms by milliseconds, of a base latency of 100 ms that it assumes for
	// everybody.
}

func ExampleCheck() {
	run := func() (code int) {
		stdout, done := Check("demo", full{}, os.Stdout)
		defer done(&code)
		fmt.Fprintln(stdout, "figures")
		return 0
	}
	fmt.Println(run())
	// Output:
	// demo: no space left on device
	// 5
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func FuzzFold(f *testing.F) {
	f.Add("  a  b\tc d\n\n" + strings.Repeat("word ", 60) + "\n")
	f.Add(strings.Repeat("x", 130) + " y  " + strings.Repeat("ü ", 90))
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			t.Skip()
		}
		folded := Fold(text)
		if strings.Join(strings.Fields(text), "") != strings.Join(strings.Fields(folded), "") {
			t.Fatalf("%q became %q", text, folded)
		}
		for line := range strings.Lines(folded) {
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(line) > Width && !longWord(line) && len(line)-len(strings.TrimLeft(line, " ")) < Width/2 {
				t.Fatalf("%q has a line of %d columns", folded, utf8.RuneCountInString(line))
			}
		}
	})
}

// longWord reports whether a line has a word that no line has room for.
func longWord(line string) bool {
	for w := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == ' ' || r == ',' }) {
		if utf8.RuneCountInString(w) >= leastRoom-1 {
			return true
		}
	}
	return false
}

// TestNamed: the ending of a name selects the format; that of a device means nothing.
func TestNamed(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{"x.html": "", "x.HTML": "", "x.pdf": "name a file that ends in .html or .htm", "x": "ends in .html", "no/x.html": "there is no folder",
		"": "name a file"} {
		path := ""
		at := filepath.Join(dir, name)
		if name == "" {
			at = ""
		}
		err := Named(&path, ".html", ".htm")(at)
		if want == "" && (err != nil || path != at) || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: %q, %v, want %q", name, path, err, want)
		}
	}
	path := ""
	if err := Named(&path, ".html")(os.DevNull); err != nil || path != os.DevNull {
		t.Errorf("a device: %q, %v", path, err)
	}
}

// TestFailNames the file of every problem, at any depth, and a heading once.
func TestFailNames(t *testing.T) {
	two := errors.Join(errors.New("a.b: is missing"), errors.New("c: is wrong: write for example\n  c: 1"))
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("fleet.yaml: %w", two), "x: fleet.yaml: a.b: is missing\nx: fleet.yaml: c: is wrong: write for example\nx:   c: 1\n"},
		{errors.Join(fmt.Errorf("plan: %w", fmt.Errorf("1.yaml: %w", two)), BadInput(fmt.Errorf("%w: 2.yaml: %w", io.EOF, errors.New("is empty")))),
			"x: plan: 1.yaml: a.b: is missing\nx: plan: 1.yaml: c: is wrong: write for example\nx:   c: 1\nx: EOF: 2.yaml: is empty\n"},
		{fmt.Errorf("can't be decided:\n%w", two), "x: can't be decided:\nx: a.b: is missing\nx: c: is wrong: write for example\nx:   c: 1\n"},
		{fmt.Errorf("%w\nsee -h", two), "x: a.b: is missing\nx: c: is wrong: write for example\nx:   c: 1\nx: see -h\n"},
		{&os.PathError{Op: "open", Path: "y", Err: os.ErrNotExist}, "x: open y: file does not exist\n"},
	} {
		var b strings.Builder
		Fail("x", &b, c.err)
		if b.String() != c.want {
			t.Errorf("%q is shown as\n%swant\n%s", c.err, &b, c.want)
		}
	}
}
