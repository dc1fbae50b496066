package usage

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/go-faster/jx"

	"github.com/cotenant/cotenant/internal/problem"
)

// JSON reads the answer of Prometheus' HTTP interface to a query or a range query (resultType vector or matrix), one
// sample at a time. The error names the problems of this source; what could be read counts.
func (r *Reader) JSON(name string, in io.Reader) error {
	src := r.begin(name)
	j := &jsonReader{r: r, src: src, d: jx.Decode(in, 64<<10)}
	if err := j.answer(); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		src.problem(j.path(), "query again", "%s", problem.Clip(err.Error()))
	}
	return r.end(src)
}

type jsonReader struct {
	r      *Reader
	src    *Source
	d      *jx.Decoder
	series int // that have begun
}

func (j *jsonReader) path() string { return fmt.Sprintf("result[%d]", max(0, j.series-1)) }

// answer reads the envelope.
func (j *jsonReader) answer() error {
	if next := j.d.Next(); next != jx.Object && next != jx.Invalid {
		return ErrKind
	}
	text := func(path, remedy, format string) error {
		t, err := j.d.Str()
		if err == nil {
			j.src.problem(path, remedy, format, problem.Clip(strconv.Quote(t)))
		}
		return err
	}
	return j.d.ObjBytes(func(d *jx.Decoder, key []byte) error {
		switch {
		case string(key) == "data" && d.Next() == jx.Object:
			return d.ObjBytes(func(d *jx.Decoder, key []byte) error {
				if string(key) == "result" && d.Next() == jx.Array {
					return j.result()
				}
				return d.Skip()
			})
		case string(key) == "error" && d.Next() == jx.String:
			return text("error", "query again", "Prometheus answers %s")
		case string(key) == "warnings" && d.Next() == jx.Array:
			return d.Arr(func(d *jx.Decoder) error {
				if d.Next() != jx.String {
					return d.Skip()
				}
				return text("warnings", "", "Prometheus warns %s")
			})
		}
		return d.Skip()
	})
}

func (j *jsonReader) result() error {
	return j.d.Arr(func(d *jx.Decoder) error {
		j.series++
		if d.Next() != jx.Object {
			if j.series <= 2 { // a scalar: [time, "value"]
				j.src.problem(j.path(), "query a metric, not a number", "no series")
			}
			return d.Skip()
		}
		return j.one()
	})
}

// one reads a series, whose labels Prometheus writes before the samples.
func (j *jsonReader) one() error {
	var (
		t     *tenant
		to    source
		ready bool
	)
	return j.d.ObjBytes(func(d *jx.Decoder, key []byte) error {
		switch {
		case string(key) == "metric" && d.Next() == jx.Object:
			var err error
			t, to, err = j.labels()
			ready = true
			return err
		case (string(key) == "values" || string(key) == "value") && !ready:
			j.src.problem(j.path(), "query again", "a series without labels before its samples")
		case string(key) == "values" && d.Next() == jx.Array && t != nil: // else a metric that is not read
			return d.Arr(func(*jx.Decoder) error { return j.pair(t, to) })
		case string(key) == "value" && d.Next() == jx.Array && t != nil:
			return j.pair(t, to)
		}
		return d.Skip()
	})
}

// labels reads a series' labels and finds its tenant: nil where the metric is not read.
func (j *jsonReader) labels() (*tenant, source, error) {
	l := labels{}
	err := j.d.ObjBytes(func(d *jx.Decoder, key []byte) (err error) {
		of := labelOf[string(key)]
		if of == "" || d.Next() != jx.String {
			return d.Skip()
		}
		l[of], err = d.Str()
		return err
	})
	if err != nil {
		return nil, source{}, err
	}
	if l["metric"] == "" {
		j.src.problem(j.path(), "query the metric itself", "a series without a name")
		return nil, source{}, nil
	}
	t, to := j.r.series(j.src, l)
	return t, to, nil
}

// pair reads [time, "value"].
func (j *jsonReader) pair(t *tenant, to source) error {
	var (
		ms int64
		v  float64
		i  int
		ok = true
	)
	err := j.d.Arr(func(d *jx.Decoder) error {
		i++
		switch next := d.Next(); {
		case i == 1 && next == jx.Number:
			s, err := d.Float64()
			if ms = int64(math.Round(s * 1000)); err == nil && !(math.Abs(s) < 1e14) {
				ms = math.MaxInt64 // no clock
			}
			return err
		case i == 2 && next == jx.String:
			text, err := d.StrBytes()
			if err != nil {
				return err
			}
			v, err = strconv.ParseFloat(string(text), 64)
			ok = ok && (err == nil || errors.Is(err, strconv.ErrRange))
			return nil
		case i == 2 && next == jx.Number:
			var err error
			v, err = d.Float64()
			return err
		}
		ok = false
		return d.Skip()
	})
	switch {
	case err != nil:
		return err
	case !ok || i != 2:
		j.src.problem(j.path(), "query again", `a sample that is not [time, "value"]`)
	default:
		j.r.sample(j.src, t, to.figure, ms, v*to.scale)
	}
	return nil
}
