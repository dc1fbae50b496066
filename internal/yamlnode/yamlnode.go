// SPDX-License-Identifier: Apache-2.0

// Package yamlnode builds YAML documents whose keys stand in the order in
// which they are given, so that the same values give the same bytes.
package yamlnode

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/plaintext"
)

// Map builds a mapping from keys and values in turn. A value may be a *yaml.Node, string, bool, int, map of these or a
// list of any; a nil value, nil list or empty map leaves its key out. Another type, or a key that is no string, is a
// mistake of the program and gives a node that Encode refuses.
func Map(kv ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := 0; i+1 < len(kv); i += 2 {
		key, ok := kv[i].(string)
		if !ok {
			return bad("key %v", kv[i])
		}
		if v := Value(kv[i+1]); v != nil {
			n.Content = append(n.Content, Text(key), v)
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

// Some is a value of Map that leaves an empty text out.
func Some(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// List builds a sequence of nodes.
func List(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
}

// Value builds the node of v as Map describes, or nil to leave it out.
func Value(v any) *yaml.Node {
	switch v := v.(type) {
	case *yaml.Node:
		if v == nil || v.Kind == yaml.MappingNode && len(v.Content) == 0 && v.Style&yaml.FlowStyle == 0 {
			return nil
		}
		return v
	case []*yaml.Node:
		if len(v) == 0 {
			return nil
		}
		return List(v...)
	case string:
		return Text(v)
	}
	switch of := reflect.ValueOf(v); of.Kind() {
	case reflect.Invalid:
		return nil
	case reflect.Slice:
		if of.IsNil() {
			return nil
		}
		n := List()
		for i := range of.Len() {
			n.Content = append(n.Content, cmp.Or(Value(of.Index(i).Interface()), bad("nothing in a list")))
		}
		return n
	case reflect.Map, reflect.Bool, reflect.Int:
		n := &yaml.Node{}
		if of.Kind() == reflect.Map && of.Len() == 0 {
			return nil
		}
		if err := n.Encode(v); err != nil {
			return bad("%v", err)
		}
		return n
	}
	return bad("value of type %T", v)
}

func bad(format string, args ...any) *yaml.Node {
	return &yaml.Node{Kind: badKind, Value: fmt.Sprintf(format, args...)}
}

// badKind is no kind of the YAML library.
const badKind yaml.Kind = 1 << 30

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
		if err := check(d); err != nil {
			return nil, err
		}
		if err := enc.Encode(d); err != nil {
			return nil, err
		}
	}
	if err := enc.Close(); err != nil {
		return nil, err
	}
	return []byte(plaintext.Show(b.String())), nil
}

func check(n *yaml.Node) error {
	if n.Kind == badKind {
		return fmt.Errorf("yamlnode: %s has no YAML form", n.Value)
	}
	for _, c := range n.Content {
		if err := check(c); err != nil {
			return err
		}
	}
	return nil
}

// Empty builds a mapping that is written as {} even though it has no keys.
func Empty() *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
}

// ConfigMap builds a Kubernetes ConfigMap whose data are texts of several
// lines, keys in order. name and namespace are values as Map takes them.
func ConfigMap(name, namespace any, data map[string]string) *yaml.Node {
	texts := Empty()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		text := Text(data[key])
		text.Style = yaml.LiteralStyle
		texts.Style = 0
		texts.Content = append(texts.Content, Text(key), text)
	}
	return Map("apiVersion", "v1", "kind", "ConfigMap", "metadata", Map("name", name, "namespace", namespace), "data",
		texts)
}
