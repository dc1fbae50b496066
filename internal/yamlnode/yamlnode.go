// Package yamlnode builds YAML documents whose keys stand in the order in
// which they are given, so that the same values give the same bytes.
package yamlnode

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Map builds a mapping from keys and values in turn. A value may be a
// *yaml.Node, string, bool, int, []string, map[string]string, a list of nodes,
// a pointer to a bool, int or string, or an optional.Value; a nil pointer, nil
// node, nil list or missing value leaves its key out. Another type, or a key that is no string, is a mistake
// of the program and gives a node that Encode refuses.
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

// Struct builds a mapping of the fields of v, a struct or a pointer to one, that have a yaml tag. What is zero is left
// out; a nil pointer gives nil.
func Struct(v any) *yaml.Node {
	of := reflect.Indirect(reflect.ValueOf(v))
	if !of.IsValid() {
		return nil
	}
	n := Map()
	for _, f := range reflect.VisibleFields(of.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if field := of.FieldByIndex(f.Index); name != "" && !field.IsZero() {
			n.Content = append(n.Content, Text(name), reflected(field))
		}
	}
	return n
}

func reflected(v reflect.Value) *yaml.Node {
	if _, ok := v.Interface().(interface{ Any() any }); ok {
		return Value(v.Interface())
	}
	switch v.Kind() {
	case reflect.Struct:
		return Struct(v.Interface())
	case reflect.Slice:
		n := List()
		for i := range v.Len() {
			n.Content = append(n.Content, reflected(v.Index(i)))
		}
		return n
	}
	return Value(v.Interface())
}

// Text builds a string node, quoted where a reader of YAML 1.1 or 1.2 would
// take it for something else. Kubernetes tools still read YAML 1.1.
func Text(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	if oldBool(s) || s != "" && strings.Trim(s, "0123456789:.+-_") == "" {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// Quoted builds a string node in double quotes.
func Quoted(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
}

func oldBool(s string) bool {
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off":
		return true
	}
	return false
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
	case nil:
		return nil
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
	case *string:
		if v == nil {
			return nil
		}
		return Text(*v)
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}
	case *bool:
		if v == nil {
			return nil
		}
		return Value(*v)
	case int:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(v)}
	case *int:
		if v == nil {
			return nil
		}
		return Value(*v)
	case interface{ Any() any }:
		return Value(v.Any())
	case []string:
		if v == nil {
			return nil
		}
		n := List()
		for _, s := range v {
			n.Content = append(n.Content, Text(s))
		}
		return n
	case map[string]string:
		if len(v) == 0 {
			return nil
		}
		n := &yaml.Node{}
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
		if line == "" {
			b.WriteString("#\n")
			continue
		}
		b.WriteString("# " + line + "\n")
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
	return b.Bytes(), nil
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
