// SPDX-License-Identifier: Apache-2.0

// Package yamlnode builds YAML documents with keys in the given order, and formats those written by templates, so that
// the same values give the same bytes.
package yamlnode

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/plaintext"
)

// Map builds a mapping from alternating keys and values. A value is a *yaml.Node, string, bool, int or map of these; a
// nil value or node and an empty map leave their key out.
func Map(kv ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := 0; i+1 < len(kv); i += 2 {
		if v := Value(kv[i+1]); v != nil {
			n.Content = append(n.Content, Text(fmt.Sprint(kv[i])), v)
		}
	}
	return n
}

// Text builds a string node, quoted where a reader of YAML 1.1 or 1.2 would
// take it for something else. Kubernetes tools still read YAML 1.1.
func Text(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	oldBool := slices.Contains([]string{"y", "n", "yes", "no", "on", "off"}, strings.ToLower(s))
	if oldBool || s != "" && strings.Trim(s, "0123456789:.+-_") == "" {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// Quoted builds a string node in double quotes.
func Quoted(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
}

// List builds a sequence of nodes.
func List(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
}

// Value builds the node of v as Map describes, or nil to leave it out.
func Value(v any) *yaml.Node {
	n := &yaml.Node{}
	switch v := v.(type) {
	case *yaml.Node:
		n = v
	case string:
		return Text(v)
	default:
		_ = n.Encode(v) // these have a form
	}
	if n == nil || n.Tag == "!!null" || n.Kind == yaml.MappingNode && len(n.Content) == 0 && n.Style&yaml.FlowStyle == 0 {
		return nil
	}
	return n
}

// Encode writes the documents, divided by "---". header, which may be empty,
// goes before the first as a comment: one line each, without the "#".
func Encode(header []string, docs ...*yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	for _, line := range header {
		b.WriteString(strings.TrimRight("# "+line, " ") + "\n")
	}
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	for _, d := range docs {
		if err := enc.Encode(d); err != nil {
			return nil, err
		}
	}
	if err := enc.Close(); err != nil {
		return nil, err
	}
	return []byte(plaintext.Show(b.String())), nil
}

// Empty builds a mapping that is written as {} even though it has no keys.
func Empty() *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
}

// Parse reads documents in any layout, which Encode then writes in one: keys without a value are left out, a key with
// the value ~ is written as null, and texts are quoted only where they must be.
func Parse(text []byte) (docs []*yaml.Node, err error) {
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc yaml.Node
		switch err := dec.Decode(&doc); {
		case err == io.EOF:
			return docs, nil
		case err != nil:
			return nil, err
		}
		tidy(doc.Content[0])
		docs = append(docs, doc.Content[0])
	}
}

// tidy reports whether a node has a value.
func tidy(n *yaml.Node) bool {
	n.Style, n.Line, n.Column = 0, 0, 0
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			explicit := n.Value == "~"
			n.Value = "null"
			return explicit
		}
		if strings.Contains(n.Value, "\n") {
			n.Style = yaml.LiteralStyle
		} else if n.Tag == "!!str" {
			n.Style = Text(n.Value).Style
		}
		return true
	case yaml.MappingNode:
		kept := n.Content[:0]
		for i := 0; i < len(n.Content); i += 2 {
			if tidy(n.Content[i]) && tidy(n.Content[i+1]) {
				kept = append(kept, n.Content[i:i+2]...)
			}
		}
		n.Content = kept
	default:
		n.Content = slices.DeleteFunc(n.Content, func(item *yaml.Node) bool { return !tidy(item) })
	}
	return len(n.Content) > 0
}
