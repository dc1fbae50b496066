// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/optional"
)

type level int

func (l *level) UnmarshalText(b []byte) error {
	switch string(b) {
	case "low":
		*l = 1
	case "high":
		*l = 2
	default:
		return fmt.Errorf("unknown level %q", b)
	}
	return nil
}

// words reads a string or a list of strings.
type words []string

func init() { Register((*words).decode) }

func (w *words) decode(d *Decoder, path string, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		*w = words{n.Value}
		return
	}
	var s []string
	d.Value(path, n, &s)
	*w = s
}

type doc struct {
	Version string                  `yaml:"version,required"`
	Count   int                     `yaml:"count,nonzero"`
	Params  int64                   `yaml:"params"`
	Share   *float64                `yaml:"share"`
	Part    optional.Value[float64] `yaml:"part"`
	On      bool                    `yaml:"on"`
	Level   level                   `yaml:"level"`
	Levels  map[string]level        `yaml:"levels"`
	Items   []item                  `yaml:"items"`
	Item    item                    `yaml:"item,null"`
	Words   words                   `yaml:"words"`
	Free    any                     `yaml:"free"`
	Nums    map[string]float64      `yaml:"nums"`
}

type item struct {
	Name string `yaml:"name,required"`
	N    int    `yaml:"n"`
}

func TestDecode(t *testing.T) {
	share := 0.25
	for _, c := range []struct {
		in   string
		want doc
	}{
		{"version: v1\ncount: 3\nparams: 8e9\nshare: 0.25\non: true\nlevel: high\nlevels: {a: low}\nitems: [{name: x, n: 1}]\nwords: [a, b]\n",
			doc{Version: "v1", Count: 3, Params: 8e9, Share: &share, On: true, Level: 2, Levels: map[string]level{"a": 1},
				Items: []item{{"x", 1}}, Words: words{"a", "b"}}},
		{"version: v1\nparams: 8000000000.0\nwords: one\n", doc{Version: "v1", Params: 8e9, Words: words{"one"}}},
		{`{"version": "v1", "count": 0x10, "nums": {"a": 1}}`, doc{Version: "v1", Count: 16, Nums: map[string]float64{"a": 1}}},
		{"version: v1\npart: 0\n", doc{Version: "v1", Part: optional.Of(0.0)}},
		{"version: v1\npart: null\nitem: null\n", doc{Version: "v1"}},
		{"version: v1\nshare: null\nfree: {a: [1]}\n", doc{Version: "v1", Free: map[string]any{"a": []any{1}}}},
	} {
		var got doc
		if err := Decode([]byte(c.in), &got, Options{}); err != nil {
			t.Errorf("%q: %v", c.in, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.in, diff)
		}
	}
}

func TestDecodeProblems(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"empty", "", []string{"the document is empty"}},
		{"comment only", "# nothing\n", []string{"the document is empty"}},
		{"missing", "count: 1\n", []string{"version: is missing"}},
		{"all at once", "versoin: v1\ncount: 1.5\nitems:\n  - {nme: x}\n  - {name: 7}\nlevel: mid\n", []string{
			`versoin: unknown key (did you mean "version"?)`, "version: is missing", `count: must be a whole number that fits 64 bits, not "1.5" (write digits alone, for example 8 or 8e9)`,
			`items[0].nme: unknown key (did you mean "name"?)`, "items[0].name: is missing",
			`items[1].name: must be a string, not a number (quote it: "7")`, `level: unknown level "mid"`}},
		{"duplicate", "version: v1\ncount: 1\ncount: 2\n", []string{"count: duplicate key (first on line 2)"}},
		{"anchor", "version: &a v1\nwords: *a\n", []string{"version: anchors are not allowed", "words: aliases are not allowed"}},
		{"two documents", "version: v1\n---\nversion: v1\n", []string{"2 documents in one file"}},
		{"utf8", "version: \xff\n", []string{"invalid UTF-8 on line 1"}},
		{"syntax", "version: [v1\n", []string{"not valid YAML"}},
		{"nan", "version: v1\nshare: .nan\nnums: {a: .inf, b: 1e999}\n", []string{"share: must be a finite number", "nums.a: must be a finite", "nums.b: must be a finite"}},
		{"huge exponent", "version: v1\nparams: 1e999999999\n", []string{"params: must be a whole number"}},
		{"int overflow", "version: v1\nparams: 99999999999999999999\n", []string{"params: must be a whole number"}},
		{"zero", "version: v1\ncount: 0\n", []string{"count: must not be 0 (leave the key out for the default)"}},
		{"optional", "version: v1\npart: x\n", []string{`part: must be a finite number, not "x" (write digits alone, for example 0.25)`}},
		{"null", "version:\n", []string{"version: has no value"}},
		{"merge", "version: v1\nnums: {<<: {a: 1}}\n", []string{"a key must be a plain string"}},
		{"shape", "version: v1\nitems: {a: 1}\nnums: []\ncount: [1]\n", []string{"items: must be a list", "nums: must be a mapping", "count: must be a single value"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got doc
			err := Decode([]byte(c.in), &got, Options{})
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error lacks %q:\n%v", w, err)
				}
			}
			if n := len(strings.Split(err.Error(), "\n")); n != len(c.want) {
				t.Errorf("%d problems, want %d:\n%v", n, len(c.want), err)
			}
		})
	}
}

func TestSizeLimit(t *testing.T) {
	big := strings.Repeat("a", 100)
	if _, err := Read(strings.NewReader(big), Options{MaxBytes: 99}); err == nil {
		t.Error("Read took more than the limit")
	}
	if err := Decode([]byte(big), new(doc), Options{MaxBytes: 99}); err == nil {
		t.Error("Decode took more than the limit")
	}
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	if err := Decode([]byte(deep), new(doc), Options{}); err == nil {
		t.Error("a document 5,000 levels deep was taken")
	}
}

// TestReadFile: of a file that is far too large no more is read than tells it, and the error names it.
func TestReadFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "model.safetensors")
	must.Do(t, os.WriteFile(name, []byte("version: v1\n"), 0o600))
	if data, err := ReadFile(name, Options{}); err != nil || string(data) != "version: v1\n" {
		t.Errorf("%q, %v", data, err)
	}
	if err := os.Truncate(name, 1<<40); err != nil {
		t.Skip(err)
	}
	if data, err := ReadFile(name, Options{}); len(data) > 0 || err == nil || !strings.HasPrefix(err.Error(), name+": the input is larger than 8 MiB") {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{"version: v1\n", "a: &x [*x]", "{", "version: v1\nparams: 8e9", "- a\n- b", "? a\n: b", "!!int x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var d doc
		if err := Decode(data, &d, Options{MaxBytes: 1 << 16}); err == nil && d.Version == "" && !strings.Contains(string(data), "version") {
			t.Error("a document without the required key was taken")
		} else if err != nil && errors.Unwrap(err) == nil && err.Error() == "" {
			t.Error("an error without words")
		}
	})
}
