// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"encoding"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
)

// Decoder walks nodes into Go values and collects problems.
type Decoder struct {
	list problem.List
}

// Err returns the problems found so far, joined, or nil.
func (d *Decoder) Err() error { return d.list.Err() }

// Addf records a problem at a node.
func (d *Decoder) Addf(path string, n *yaml.Node, remedy, format string, args ...any) {
	line := 0
	if n != nil {
		line = n.Line
	}
	d.list.Add(&problem.Problem{Path: path, Line: line, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

var duration = reflect.TypeFor[time.Duration]()

// Value decodes n into v, a non-nil pointer.
func (d *Decoder) Value(path string, n *yaml.Node, v any) {
	d.value(path, n, reflect.ValueOf(v).Elem())
}

func (d *Decoder) value(path string, n *yaml.Node, v reflect.Value) {
	var to any
	if v.CanAddr() {
		to = v.Addr().Interface()
	}
	if decode := registered[v.Type()]; decode != nil && to != nil {
		decode(to, d, path, n)
		return
	}
	if at, ok := optional.Fill(to); ok {
		if isNull(n) {
			v.SetZero()
		} else {
			d.value(path, n, reflect.ValueOf(at).Elem())
		}
		return
	}
	if v.Kind() == reflect.Pointer {
		if !isNull(n) {
			v.Set(reflect.New(v.Type().Elem()))
			d.value(path, n, v.Elem())
		}
		return
	}
	if isNull(n) {
		d.Addf(path, n, "give a value or leave the key out", "has no value")
		return
	}
	if text, ok := to.(encoding.TextUnmarshaler); ok {
		if n.Kind != yaml.ScalarNode {
			d.Addf(path, n, "", "must be a single value, not %s", kindName(n))
		} else if err := text.UnmarshalText([]byte(n.Value)); err != nil {
			d.Addf(path, n, "", "%v", err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.object(path, n, v)
	case reflect.Map:
		d.mapping(path, n, v)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			d.Addf(path, n, "", "must be a list, not %s", kindName(n))
			return
		}
		s := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
		for i, c := range n.Content {
			d.value(fmt.Sprintf("%s[%d]", path, i), c, s.Index(i))
		}
		v.Set(s)
	case reflect.Interface:
		var x any
		if err := n.Decode(&x); err != nil {
			d.Addf(path, n, "", "%v", err)
			return
		}
		if x != nil {
			v.Set(reflect.ValueOf(x))
		}
	default:
		d.scalar(path, n, v)
	}
}

type field struct {
	index    []int
	required bool
	nonzero  bool
	null     bool
}

func fieldsOf(t reflect.Type) (map[string]field, []string) {
	fields := map[string]field{}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		tag, ok := f.Tag.Lookup("yaml")
		if !ok || !f.IsExported() {
			continue
		}
		name, rest, _ := strings.Cut(tag, ",")
		if name == "" || name == "-" {
			continue
		}
		options := strings.Split(rest, ",")
		fields[name] = field{index: f.Index, required: slices.Contains(options, "required"), nonzero: slices.Contains(options,
			"nonzero"), null: slices.Contains(options, "null")}
		names = append(names, name)
	}
	return fields, names
}

func (d *Decoder) object(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.Addf(path, n, "", "must be a mapping of keys, not %s", kindName(n))
		return
	}
	fields, names := fieldsOf(v.Type())
	present := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, c := n.Content[i], n.Content[i+1]
		f, ok := fields[k.Value]
		if !ok {
			remedy := problem.Meant(k.Value, names, "known keys: "+strings.Join(names, ", "))
			d.Addf(problem.Join(path, k.Value), k, remedy, "unknown key")
			continue
		}
		present[k.Value] = true
		if f.null && isNull(c) {
			continue
		}
		before := d.list.Len()
		d.value(problem.Join(path, k.Value), c, v.FieldByIndex(f.index))
		if f.nonzero && d.list.Len() == before && v.FieldByIndex(f.index).IsZero() {
			d.Addf(problem.Join(path, k.Value), c, "leave the key out for the default", "must not be %s", problem.Clip(c.Value))
		}
	}
	for _, name := range names {
		if fields[name].required && !present[name] {
			remedy := "add the key"
			if name == "version" { // of every document there is it is the first
				remedy = "write version: v1"
				if v.FieldByIndex(fields[name].index).CanInt() {
					remedy = "give the number of the form that the file has"
				}
			}
			d.Addf(problem.Join(path, name), n, remedy, "is missing")
		}
	}
}

func (d *Decoder) mapping(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.Addf(path, n, "", "must be a mapping of keys, not %s", kindName(n))
		return
	}
	m := reflect.MakeMapWithSize(v.Type(), len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		at := problem.Join(path, n.Content[i].Value)
		key := reflect.New(v.Type().Key()).Elem()
		if _, text := key.Addr().Interface().(encoding.TextUnmarshaler); key.Kind() == reflect.String && !text {
			key.SetString(n.Content[i].Value)
		} else {
			d.value(at, n.Content[i], key)
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(at, n.Content[i+1], elem)
		m.SetMapIndex(key, elem)
	}
	v.Set(m)
}

func (d *Decoder) scalar(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		d.Addf(path, n, "", "must be a single value, not %s", kindName(n))
		return
	}
	if v.Type() == duration {
		t, err := time.ParseDuration(n.Value)
		if err != nil {
			d.Addf(path, n, "write e.g. 1.5s", "%q is not a duration", problem.Clip(n.Value))
		}
		v.SetInt(int64(t))
		return
	}
	switch v.Kind() {
	case reflect.String:
		if n.Tag != "!!str" {
			d.Addf(path, n, fmt.Sprintf("quote it: %q", n.Value), "must be a string, not %s", kindName(n))
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		if n.Tag != "!!bool" {
			d.Addf(path, n, "write true or false", "must be true or false, not %q", problem.Clip(n.Value))
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int16, reflect.Int8:
		i, err := parseInt(n)
		if err != nil || v.OverflowInt(i) {
			d.Addf(path, n, "write digits alone, for example 8 or 8e9", "must be a whole number that fits %d bits, not %q",
				v.Type().Bits(), problem.Clip(n.Value))
			return
		}
		v.SetInt(i)
	case reflect.Uint64, reflect.Uint32:
		i, err := parseInt(n)
		if err != nil || i < 0 || v.OverflowUint(uint64(i)) {
			d.Addf(path, n, "", "must be a whole number of 0 or more that fits %d bits, not %q", v.Type().Bits(),
				problem.Clip(n.Value))
			return
		}
		v.SetUint(uint64(i))
	case reflect.Float64:
		f, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
		if n.Tag != "!!int" && n.Tag != "!!float" || err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			d.Addf(path, n, "write digits alone, for example 0.25", "must be a finite number, not %q", problem.Clip(n.Value))
			return
		}
		v.SetFloat(f)
	default:
		d.Addf(path, n, "", "cannot be read into %s", v.Type())
	}
}

// parseInt accepts every exact spelling of an integer: 8, 0x8, 8e9, 8.0.
func parseInt(n *yaml.Node) (int64, error) {
	s := strings.ReplaceAll(n.Value, "_", "")
	switch n.Tag {
	case "!!int":
		return strconv.ParseInt(s, 0, 64)
	case "!!float":
		_, exponent, _ := strings.Cut(strings.ToLower(s), "e")
		if len(exponent) > 3 {
			return 0, strconv.ErrRange
		}
		if r, ok := new(big.Rat).SetString(s); ok && r.IsInt() && r.Num().IsInt64() {
			return r.Num().Int64(), nil
		}
	}
	return 0, strconv.ErrSyntax
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		switch n.Tag {
		case "!!null":
			return "nothing"
		case "!!int", "!!float":
			return "a number"
		case "!!bool":
			return "true or false"
		}
		return "a string"
	}
	return "this"
}

// Options tune Decode. The zero value is the documented default.
type Options struct {
	// MaxBytes bounds the input; 0 means 8 MiB.
	MaxBytes int
}

// registered holds the functions of Register.
var registered = map[reflect.Type]func(to any, d *Decoder, path string, n *yaml.Node){}

// Register has a package's init name the function that decodes its type T, for values with several shapes (a string or
// a list, say). It reports problems through d at path and must not panic on any node.
func Register[T any](decode func(to *T, d *Decoder, path string, n *yaml.Node)) {
	registered[reflect.TypeFor[T]()] = func(to any, d *Decoder, path string, n *yaml.Node) {
		decode(to.(*T), d, path, n)
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func (o Options) maxBytes() int {
	if o.MaxBytes > 0 {
		return o.MaxBytes
	}
	return defaultMaxBytes
}

const (
	defaultMaxBytes = 8 << 20
	maxDepth        = 64
	maxNodes        = 4 << 20
)
