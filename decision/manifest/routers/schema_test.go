package routers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// schema lists every path that a document may have, with the type of its
// value: "[]" stands for any index, "*" for any key. A "!" behind the type
// makes the path required where its parent is there. The tables are written by
// hand from the upstream APIs.
type schema map[string]string

func meta(prefix string) schema {
	return schema{
		prefix + "metadata": "map!", prefix + "metadata.name": "str!", prefix + "metadata.namespace": "str",
		prefix + "metadata.labels": "map", prefix + "metadata.labels.*": "str", prefix + "metadata.annotations": "map", prefix + "metadata.annotations.*": "str",
	}
}

func merge(ss ...schema) schema {
	out := schema{}
	for _, s := range ss {
		for k, v := range s {
			out[k] = v
		}
	}
	return out
}

func (s schema) check(t *testing.T, file, kind string, n *yaml.Node) {
	t.Helper()
	var walk func(path, at string, n *yaml.Node)
	walk = func(path, at string, n *yaml.Node) {
		if path != "" {
			typ := strings.TrimSuffix(s[path], "!")
			if typ == "any" {
				return
			}
			got := map[yaml.Kind]string{yaml.MappingNode: "map", yaml.SequenceNode: "list", yaml.ScalarNode: strings.TrimPrefix(n.Tag, "!!")}[n.Kind]
			if typ == "" {
				t.Errorf("%s: %s: %s is no field", file, kind, at)
				return
			}
			if got != typ {
				t.Errorf("%s: %s: %s is a %s, not a %s", file, kind, at, got, typ)
			}
		}
		switch n.Kind {
		case yaml.SequenceNode:
			for i, c := range n.Content {
				walk(path+"[]", fmt.Sprintf("%s[%d]", at, i), c)
			}
		case yaml.MappingNode:
			dot := path
			if dot != "" {
				dot += "."
			}
			var keys []string
			for i := 0; i < len(n.Content); i += 2 {
				k := n.Content[i].Value
				keys = append(keys, k)
				p := dot + k
				if _, anyKey := s[dot+"*"]; anyKey {
					p = dot + "*"
				}
				walk(p, strings.TrimPrefix(at+"."+k, "."), n.Content[i+1])
			}
			for p, typ := range s {
				rest, under := strings.CutPrefix(p, dot)
				if under && strings.HasSuffix(typ, "!") && !strings.ContainsAny(rest, ".[") && !slices.Contains(keys, rest) {
					t.Errorf("%s: %s: %s.%s is missing", file, kind, at, rest)
				}
			}
		}
	}
	walk("", "", n)
}

func field(n *yaml.Node, path ...string) *yaml.Node {
	for _, p := range path {
		if n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		var next *yaml.Node
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Value == p {
				next = n.Content[i+1]
			}
		}
		n = next
	}
	return n
}

func text(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	return n.Value
}
