// SPDX-License-Identifier: Apache-2.0

// Package strictyaml decodes YAML and JSON documents strictly: unknown and duplicate keys, anchors, wrong types,
// invalid UTF-8 and oversized input are problems, each with its path, and all of them are reported at once.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/problem"
)

// Strings is a list of strings, of which a single one may be written as a string.
type Strings []string

func init() { Register((*Strings).decode) }

// decode reads a string as a list of one.
func (s *Strings) decode(d *Decoder, path string, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		*s = make(Strings, 1)
		d.Value(path, n, &(*s)[0])
		return
	}
	d.Value(path, n, (*[]string)(s))
}

// Read reads at most the allowed number of bytes from r, for Decode.
func Read(r io.Reader, opts Options) ([]byte, error) {
	limit := opts.maxBytes()
	data, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > limit {
		return nil, tooLarge(limit)
	}
	return data, nil
}

// ReadFile is Read of a file.
func ReadFile(path string, opts Options) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := Read(f, opts)
	if large := new(problem.Problem); errors.As(err, &large) {
		large.Path = path
	}
	return data, err
}

// Load reads and parses a file of at most 16 MiB; the error of parse names it.
func Load[T any](path string, parse func([]byte) (T, error)) (T, error) {
	data, err := ReadFile(path, Options{MaxBytes: 16 << 20})
	if err != nil {
		var none T
		return none, err
	}
	v, err := parse(data)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return v, err
}

// Decode decodes exactly one document into v, a pointer to a struct, map or slice. Struct fields are matched by
// their yaml tag; a field with the option "required" must be present, one with "nonzero" must not be written as
// zero (absent means its default), one with "null" may be null, as if absent. A time.Duration is written as in
// Go, "1.5s". The error joins one *problem.Problem for each thing wrong; v must not be used when it is not nil.
func Decode(data []byte, v any, opts Options) error {
	docs, err := Parse(data, opts)
	if err != nil {
		return err
	}
	switch len(docs) {
	case 0:
		return &problem.Problem{Message: "the document is empty", Remedy: "write at least the required keys"}
	case 1:
	default:
		return &problem.Problem{Line: docs[1].Line, Message: fmt.Sprintf("%d documents in one file", len(docs)),
			Remedy: "split them into one file each"}
	}
	var d Decoder
	d.Value("", docs[0], v)
	return d.Err()
}

// Parse returns the root node of each non-empty document after the checks that need no target: size, UTF-8, syntax,
// anchors, aliases, tags, merge keys, duplicate and non-string keys, depth.
func Parse(data []byte, opts Options) ([]*yaml.Node, error) {
	if len(data) > opts.maxBytes() {
		return nil, tooLarge(opts.maxBytes())
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	n := 0
	for line := range bytes.Lines(data) {
		if n++; !utf8.Valid(line) {
			return nil, &problem.Problem{Line: n, Message: fmt.Sprintf("invalid UTF-8 on line %d", n),
				Remedy: "save the file as UTF-8"}
		}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var docs []*yaml.Node
	for {
		var doc yaml.Node
		err := decodeDocument(dec, &doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, &problem.Problem{Message: "not valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: "),
				Remedy: "check the indentation and quoting there"}
		}
		if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 || isNull(doc.Content[0]) {
			continue
		}
		docs = append(docs, doc.Content[0])
	}
	var d Decoder
	count := 0
	for i, n := range docs {
		path := ""
		if len(docs) > 1 {
			path = fmt.Sprintf("document[%d]", i)
		}
		d.check(path, n, 0, &count)
	}
	return docs, d.Err()
}

// decodeDocument turns a panic of the parser on hostile input into an error.
func decodeDocument(dec *yaml.Decoder, doc *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return dec.Decode(doc)
}

func (d *Decoder) check(path string, n *yaml.Node, depth int, count *int) {
	if *count++; *count > maxNodes || depth > maxDepth {
		d.Addf("", nil, "", "the document is nested deeper than %d levels or has more than %d values", maxDepth, maxNodes)
		return
	}
	if n.Anchor != "" {
		d.Addf(path, n, "write the value out", "anchors are not allowed")
	}
	switch n.Kind {
	case yaml.AliasNode:
		d.Addf(path, n, "write the value out", "aliases are not allowed")
		return
	case yaml.ScalarNode:
		if n.Style&yaml.TaggedStyle != 0 {
			d.Addf(path, n, "remove "+n.Tag, "tags are not allowed")
		}
	case yaml.MappingNode:
		seen := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
				d.Addf(path, k, "write the keys out", "a key must be a plain string")
				continue
			}
			if first, dup := seen[k.Value]; dup {
				d.Addf(problem.Join(path, k.Value), k, "keep one of them", "duplicate key (first on line %d)", first)
			} else {
				seen[k.Value] = k.Line
			}
			d.check(problem.Join(path, k.Value), v, depth+1, count)
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			d.check(fmt.Sprintf("%s[%d]", path, i), c, depth+1, count)
		}
	}
}

func tooLarge(limit int) error {
	return &problem.Problem{Message: fmt.Sprintf("the input is larger than %d MiB", limit>>20),
		Remedy: "split it, or check that this is the right file"}
}
