// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// escape writes a label's value as a page has it.
var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Series is one series of Prometheus' answer to a range query.
type Series struct {
	Metric map[string]string
	Values [][2]any // seconds, figure as text
}

// ParseRange reads Prometheus' answer to a range query (/api/v1/query_range) for a server's series, such as
// {__name__=~"vllm:.*"}: the readings of each time in order, with At set. Otherwise it is as Parse.
func ParseRange(in io.Reader) ([]Reading, error) {
	var answer struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     []Series
		}
	}
	if err := json.NewDecoder(in).Decode(&answer); err != nil {
		return nil, fmt.Errorf("serving: no answer of Prometheus: %w", err)
	}
	if answer.Status != "success" || answer.Data.ResultType != "matrix" {
		return nil, fmt.Errorf("serving: Prometheus answered %.20q %.20q with a %.20q: ask /api/v1/query_range",
			answer.Status, answer.Error, answer.Data.ResultType)
	}
	return Range(answer.Data.Result)
}

// Range reads the series of an answer as ParseRange does.
func Range(all []Series) ([]Reading, error) {
	histogram := map[string]bool{}
	for _, s := range all {
		if base, ok := strings.CutSuffix(s.Metric["__name__"], "_bucket"); ok {
			histogram[base] = true
		}
	}
	pages := map[float64]map[string]*strings.Builder{} // by time and family
	for _, s := range all {
		name, labels := s.Metric["__name__"], []string{}
		for _, l := range slices.Sorted(maps.Keys(s.Metric)) {
			if l != "__name__" {
				labels = append(labels, l+`="`+escape.Replace(s.Metric[l])+`"`)
			}
		}
		family, kind := name, "untyped"
		for _, end := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, end); ok && histogram[base] {
				family, kind = base, "histogram"
			}
		}
		for _, v := range s.Values {
			at, ok := v[0].(float64)
			text, ok2 := v[1].(string)
			if !ok || !ok2 {
				return nil, fmt.Errorf("serving: %s: a value that is no pair of seconds and text", name)
			}
			if pages[at] == nil {
				pages[at] = map[string]*strings.Builder{}
			}
			b := pages[at][family]
			if b == nil {
				b = &strings.Builder{}
				fmt.Fprintf(b, "# TYPE %s %s\n", family, kind)
				pages[at][family] = b
			}
			fmt.Fprintf(b, "%s{%s} %s\n", name, strings.Join(labels, ","), text)
		}
	}
	var out []Reading
	for _, at := range slices.Sorted(maps.Keys(pages)) {
		var page strings.Builder
		for _, family := range slices.Sorted(maps.Keys(pages[at])) {
			page.WriteString(pages[at][family].String())
		}
		readings, err := Parse(strings.NewReader(page.String()))
		if err != nil {
			return out, fmt.Errorf("serving: at %v: %w", at, err)
		}
		for i := range readings {
			readings[i].At = time.UnixMilli(int64(at * 1e3)).UTC()
		}
		out = append(out, readings...)
	}
	if len(out) == 0 {
		return nil, errNone
	}
	return out, nil
}
