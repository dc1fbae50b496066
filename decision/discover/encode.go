// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/sharing"
)

// WriteFleet writes the fleet file. A comment on each field names its source, and unknown fields are comments.
func (d *Discovery) WriteFleet(w io.Writer) error {
	root, err := d.fleetNode()
	if err != nil {
		return err
	}
	data, err := yamlnode.Encode([]string{"Written by discover, with the source of each field."}, root)
	if err != nil {
		return fmt.Errorf("discover: %w", err)
	}
	_, err = w.Write(data)
	return err
}

func (d *Discovery) fleetNode() (*yaml.Node, error) {
	e := encoder{of: d.Provenance, unknown: map[string]string{}}
	for _, u := range d.Unknown {
		parent, key := cutLast(u.Path, '.')
		e.unknown[parent] += "\n# unknown: " + key + ": " + oneLine(u.Why)
	}
	root := e.value("", reflect.ValueOf(d.Fleet), true)
	if e.err != nil {
		return nil, fmt.Errorf("discover: %w", e.err)
	}
	// An empty list means that nothing was found, where a missing one is refused.
	for _, key := range []string{"pools", "workloads"} {
		if !slices.ContainsFunc(root.Content, func(n *yaml.Node) bool { return n.Value == key }) {
			root.Content = append(root.Content, yamlnode.Text(key), &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq",
				Style: yaml.FlowStyle})
		}
	}
	return root, nil
}

// encoder writes values by their yaml tags, as internal/strictyaml reads them.
type encoder struct {
	of      map[string]Provenance
	unknown map[string]string // by the path of their mapping, as comments
	err     error
}

// value is the YAML node of v, nil where v is its type's zero value and not required.
func (e *encoder) value(path string, v reflect.Value, must bool) *yaml.Node {
	if !must && v.IsZero() {
		return nil
	}
	n := &yaml.Node{}
	var err error
	switch t := v.Interface().(type) {
	case interface{ Any() any }:
		return e.value(path, reflect.ValueOf(t.Any()), true)
	case decision.Replicas:
		if t.Min == 0 {
			return yamlnode.Value(t.Max)
		}
		n = yamlnode.Map("min", t.Min, "max", t.Max)
		n.Style = yaml.FlowStyle
		return n
	case layout.Node:
		return e.layoutNode(path, &t)
	case encoding.TextMarshaler:
		var text []byte
		text, err = t.MarshalText()
		n = yamlnode.Text(string(text))
	default:
		switch v.Kind() {
		case reflect.Pointer:
			return e.value(path, v.Elem(), true)
		case reflect.Slice:
			n = yamlnode.List()
			for i := range v.Len() {
				item := e.value(fmt.Sprintf("%s[%d]", path, i), v.Index(i), true)
				if item.Kind == yaml.ScalarNode {
					n.Style = yaml.FlowStyle
				}
				n.Content = append(n.Content, item)
			}
			return n
		case reflect.Struct:
			return e.mapping(path, v)
		}
		if err = n.Encode(v.Interface()); v.Kind() == reflect.Map {
			n.Style = yaml.FlowStyle
		}
	}
	if err != nil && e.err == nil {
		e.err = fmt.Errorf("%s: %w", path, err)
	}
	return n
}

// layoutNode writes a node of a layout on a line: devices that are alike once, with their number.
func (e *encoder) layoutNode(path string, n *layout.Node) *yaml.Node {
	data, err := n.MarshalJSON()
	docs, wrong := yamlnode.Parse(data)
	if err = cmp.Or(err, wrong); err != nil {
		e.err = cmp.Or(e.err, fmt.Errorf("%s: %w", path, err))
		return yamlnode.Map()
	}
	for i := 0; i < len(docs[0].Content); i += 2 {
		if v := docs[0].Content[i+1]; docs[0].Content[i].Value == "devices" {
			v.Content = e.alike(n.Devices, v.Content)
		}
	}
	return plainFlow(docs[0])
}

// alike merges identical devices, and leaves out values that the GPU table has.
func (e *encoder) alike(devices []layout.Device, nodes []*yaml.Node) (out []*yaml.Node) {
	texts := make([]string, len(nodes))
	for i, n := range nodes {
		if g := devices[i].GPU; *g == *layout.GPUOf(g.Name) {
			for k := len(n.Content) - 2; k >= 0; k -= 2 {
				if key := n.Content[k].Value; key == "memory" || key == "mig" {
					n.Content = slices.Delete(n.Content, k, k+2)
				}
			}
		}
		text, err := yaml.Marshal(n)
		texts[i], e.err = string(text), cmp.Or(e.err, err)
	}
	for i := 0; i < len(nodes); {
		same := i
		for same < len(nodes) && texts[same] == texts[i] {
			same++
		}
		if same > i+1 {
			nodes[i].Content = append(nodes[i].Content, yamlnode.Text("count"), yamlnode.Value(same-i))
		}
		out, i = append(out, nodes[i]), same
	}
	return out
}

// plainFlow writes a node and all below it on one line, with quotes only where they are needed.
func plainFlow(n *yaml.Node) *yaml.Node {
	if n.Style = yaml.FlowStyle; n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, c := range n.Content {
		plainFlow(c)
	}
	return n
}

func (e *encoder) mapping(path string, v reflect.Value) *yaml.Node {
	n := yamlnode.Map()
	if strings.Contains(path, ".") {
		n.Style = yaml.FlowStyle
	}
	for i := range v.NumField() {
		key, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if key == "" || key == "-" {
			continue
		}
		below := strings.TrimPrefix(path+"."+key, ".")
		must := strings.Contains(options, "required") && v.Field(i).Kind() != reflect.Slice
		field := e.value(below, v.Field(i), must)
		if p, ok := v.Interface().(decision.Pool); ok && p.Standalone && key == "delivery" {
			field = yamlnode.Text("none")
		}
		if field == nil {
			continue
		}
		if from, ok := e.of[below]; ok {
			comment := "# " + oneLine(from.String())
			if field.Kind == yaml.SequenceNode && field.Style != yaml.FlowStyle {
				field.HeadComment = comment
			} else {
				field.LineComment = comment
			}
		}
		n.Content = append(n.Content, yamlnode.Text(key), field)
	}
	if path != "" && len(n.Content) > 0 {
		n.Content[len(n.Content)-2].HeadComment = strings.TrimPrefix(e.unknown[path], "\n")
	}
	return n
}

// MarshalJSON writes the fleet's pools and workloads in the form of a fleet file, and everything else by the names of
// the fields.
func (d *Discovery) MarshalJSON() ([]byte, error) {
	root, err := d.fleetNode()
	if err != nil {
		return nil, err
	}
	type others Discovery
	all := struct {
		Fleet map[string]any `json:"fleet"`
		others
	}{others: others(*d)}
	if err := root.Decode(&all.Fleet); err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err = enc.Encode(all)
	return out.Bytes(), err
}

// WriteText writes the fleet file after comments with a summary: the present sharing of GPUs with its isolation, and
// the findings. Unknown values are marked in the fleet file.
func (d *Discovery) WriteText(w io.Writer) error {
	var out bytes.Buffer
	line := func(format string, args ...any) {
		for text := range strings.SplitSeq(plaintext.Wrap(fmt.Sprintf(format, args...), decision.DefaultWidth-2, 2), "\n") {
			fmt.Fprintln(&out, "# "+text)
		}
	}
	gpus := 0
	for i := range d.Fleet.Pools {
		gpus += d.Fleet.Pools[i].Count
	}
	line("%s in %s, %s", plaintext.Count(gpus, "GPU"), plaintext.Count(len(d.Fleet.Pools), "pool"),
		plaintext.Count(len(d.Fleet.Workloads), "workload"))
	for i := range d.Today {
		line("%s", d.sharing(&d.Today[i]))
	}
	for _, f := range d.Findings {
		line("%s %s: %s: %s [%s]", f.Severity, f.Code, f.Object, f.Message, f.Source)
	}
	if err := d.WriteFleet(&out); err != nil {
		return err
	}
	_, err := out.WriteTo(w)
	return err
}

func (d *Discovery) sharing(s *Sharing) string {
	text := fmt.Sprintf("%s %v: %s, %s", s.Pool, s.Mechanism, plaintext.Count(s.GPUs, "GPU"),
		plaintext.Count(s.Tenants, "tenant"))
	for k := range d.Fleet.Pools {
		v := &d.Fleet.Pools[k]
		if v.Name != s.Pool || s.Mechanism == sharing.MechanismExclusive {
			continue
		}
		if len(s.Inside) > 0 {
			text += "; between instances"
		}
		text += "; isolation: " + isolation(v, s.Mechanism)
		for _, in := range s.Inside {
			text += fmt.Sprintf("; each %s is shared by %s among %d pods, isolation between them: %s", in.Profile,
				plain(in.Mechanism), in.Pods, isolation(v, in.Mechanism))
		}
	}
	return text
}

func isolation(v *decision.Pool, m sharing.Mechanism) string {
	c, err := score.CompilePool(v)
	if err != nil {
		return "not known"
	}
	var parts []string
	for a := range sharing.AxisCount {
		i := c.Target().Isolation(m, sharing.Axis(a))
		parts = append(parts, fmt.Sprintf("%v %v", i.Axis, i.Level))
	}
	return strings.Join(parts, ", ")
}
