package page

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML reads the one document of a file strictly. The error names every problem
// with its line and a remedy; what could be read then stands in into, unless the
// text is no YAML. An empty file is an empty document.
func YAML(data []byte, into any) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var errs []error
	err := dec.Decode(into)
	if types := new(yaml.TypeError); errors.As(err, &types) {
		for _, problem := range types.Errors {
			errs = append(errs, errors.New(plain(problem)))
		}
	} else if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s (check the indentation and quoting there)", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if !errors.Is(dec.Decode(new(yaml.Node)), io.EOF) {
		errs = append(errs, errors.New("more than one document (split them into one file each)"))
	}
	return errors.Join(errs...)
}

var (
	unknownKey = regexp.MustCompile(`(?s)^(line \d+): field (.+) not found in type .+$`)
	wrongType  = regexp.MustCompile("(?s)^(line \\d+): cannot unmarshal (\\S*)(?: `(.*)`)? into (.+)$")
)

// plain says in a user's words what the decoder says in its own.
func plain(problem string) string {
	if m := unknownKey.FindStringSubmatch(problem); m != nil {
		return fmt.Sprintf("%s: unknown key %q (remove it, or correct its name)", m[1], m[2])
	}
	m := wrongType.FindStringSubmatch(problem)
	if m == nil {
		return problem
	}
	want, is := "a mapping of keys", fmt.Sprintf("%q", m[3])
	switch kind := strings.TrimLeft(m[4], "*"); {
	case strings.HasPrefix(kind, "[]"):
		want = "a list"
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		want = "a whole number"
	case strings.HasPrefix(kind, "float"):
		want = "a number"
	case kind == "bool":
		want = "true or false"
	case kind == "string":
		want = "a text"
	}
	switch m[2] {
	case "!!seq":
		is = "a list"
	case "!!map":
		is = "a mapping"
	}
	return fmt.Sprintf("%s: %s (write %s)", m[1], is, want)
}
