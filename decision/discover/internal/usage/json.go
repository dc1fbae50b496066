// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/decision/discover/internal/stream"
	"github.com/cotenant/cotenant/internal/problem"
)

// JSON reads the answer of Prometheus' HTTP interface to a query or a range query (resultType vector or matrix), one
// series at a time. The error lists the problems of this source; readable samples count.
func (r *Reader) JSON(name string, in io.Reader) error {
	src := r.begin(name)
	j := &jsonReader{r: r, src: src, d: json.NewDecoder(in)}
	if err := stream.Object(j.d, j.field); err != nil {
		src.problem(j.path(), "query again", "%s", problem.Clip(err.Error()))
	}
	return r.end(src)
}

type jsonReader struct {
	r      *Reader
	src    *Source
	d      *json.Decoder
	series int // that have begun
}

func (j *jsonReader) path() string { return fmt.Sprintf("result[%d]", max(0, j.series-1)) }

// field reads a field of the answer, or of its data.
func (j *jsonReader) field(key string) error {
	var text string
	var texts []string
	var skipped json.RawMessage
	switch key {
	case "data":
		return stream.Object(j.d, j.field)
	case "result":
		return stream.Array(j.d, j.result)
	case "error":
		err := j.d.Decode(&text)
		if err == nil {
			j.src.problem("error", "query again", "Prometheus answers %s", problem.Clip(strconv.Quote(text)))
		}
		return err
	case "warnings":
		err := j.d.Decode(&texts)
		for _, text := range texts {
			j.src.problem("warnings", "", "Prometheus warns %s", problem.Clip(strconv.Quote(text)))
		}
		return err
	}
	err := j.d.Decode(&skipped)
	if kind := string(skipped); key == "resultType" && (kind == `"scalar"` || kind == `"string"`) {
		return fmt.Errorf("a %s (query a metric, not a number)", strings.Trim(kind, `"`))
	}
	return err
}

// result reads a series.
func (j *jsonReader) result() error {
	j.series++
	var s struct {
		Metric map[string]string
		Values []Point
		Value  *Point // of a vector
	}
	err := j.d.Decode(&s)
	if s.Value != nil {
		s.Values = append(s.Values, *s.Value)
	}
	if err == nil {
		j.take(s.Metric, s.Values)
	}
	return err
}

// take hands the samples of a series over, if its metric is read.
func (j *jsonReader) take(metric map[string]string, points []Point) {
	if serves.MatchString(metric["__name__"]) && j.r.Serving != nil {
		j.src.Series++
		j.r.Serving(metric, points)
		return
	}
	l := labels{}
	for _, name := range slices.Sorted(maps.Keys(metric)) { // as Prometheus writes them
		if of := labelOf[name]; of != "" {
			l[of] = metric[name]
		}
	}
	if l["metric"] == "" {
		j.src.problem(j.path(), "query the metric itself", "a series without a name")
		return
	}
	t, to := j.r.series(j.src, l)
	for _, p := range points {
		switch {
		case t == nil:
		case !p.ok:
			j.src.problem(j.path(), "query again", `a sample that is not [time, "value"]`)
		default:
			j.r.sample(j.src, t, to.figure, p.MS, p.Value*to.scale)
		}
	}
}

// serves matches the names of series of model servers, which recording rules may prefix.
var serves = regexp.MustCompile(`^(\w+[:_])?(vllm|sglang|llamacpp)[:_]`)

// Point is a sample as Prometheus writes it: [seconds, "value"].
type Point struct {
	MS    int64
	Value float64
	ok    bool
}

// UnmarshalJSON reads a sample. One of another form is not ok.
func (p *Point) UnmarshalJSON(data []byte) error {
	at, value, _ := bytes.Cut(bytes.Trim(data, "[] \t\r\n"), []byte(","))
	s, err1 := strconv.ParseFloat(string(bytes.TrimSpace(at)), 64)
	v, err2 := strconv.ParseFloat(string(bytes.Trim(value, `" `)), 64)
	p.Value, p.ok = v, err1 == nil && (err2 == nil || errors.Is(err2, strconv.ErrRange))
	if p.MS = int64(math.Round(s * 1000)); !(math.Abs(s) < 1e14) {
		p.MS = math.MaxInt64 // no clock
	}
	return nil
}
