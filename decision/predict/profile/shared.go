package profile

import (
	"bytes"
	_ "embed"
	"fmt"
	"regexp"

	"github.com/cotenant/cotenant/internal/problem"
)

//go:embed rows.schema.json
var rowSchema []byte

// RowSchema returns the JSON Schema (2020-12) of a file of rows, measured ones and those of canaries.
func RowSchema() []byte { return bytes.Clone(rowSchema) }

// private matches what a row that is given to others must not say.
var private = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"an address", regexp.MustCompile(`\w://|\b\d{1,3}(\.\d{1,3}){3}\b|\b([0-9a-fA-F]{0,4}:){3,}[0-9a-fA-F]{0,4}\b`)},
	{"a host's name", regexp.MustCompile(`(?i)\b[\w-]+(\.[\w-]+)*\.` +
		`(com|net|org|io|ai|dev|cloud|internal|local|svc|corp|lan)\b`)},
	{"a mail address", regexp.MustCompile(`\S@\S+\.\w`)},
	{"a path", regexp.MustCompile(`(^|\s)(/[\w.-]+){2,}|[A-Za-z]:\\`)},
	{"a GPU's UUID", regexp.MustCompile(`(GPU|MIG)-[0-9a-f]{8}-`)},
	{"a pod's name", regexp.MustCompile(`-[a-f0-9]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)},
}

// CheckShared names in one error what must be left out of rows before they are given to others, and what is missing
// for others to use them: names of hosts and pods, addresses, paths, and rows without engine or GPU. Nil is none.
func (rows Rows) CheckShared() error {
	var list problem.List
	path := func(i int, field string) string { return fmt.Sprintf("[%d].%s", i, field) }
	for i := range rows {
		r := &rows[i]
		for _, f := range [][2]string{{"case", r.Case}, {"series", r.Series}, {"engine", r.Engine}, {"gpu_name", r.GPUName},
			{"slice", r.Slice}, {"server.model", r.Server.Model}, {"server.variant", r.Server.Variant}} {
			for _, p := range private {
				list.If(p.pattern.MatchString(f[1]), path(i, f[0]), "leave it out, or write a name of your own choice",
					"%q looks like %s", problem.Clip(f[1]), p.what)
			}
		}
		list.If(r.GPUName == "", path(i, "gpu_name"), "write the product's name", "is missing: others can't use the row")
		list.If(r.Kind == KindServer && r.Engine == "", path(i, "engine"), "write version: 2 and the engine",
			"is missing: others can't use the row")
	}
	return list.Err()
}
