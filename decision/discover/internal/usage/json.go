package usage

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/go-faster/jx"

	"github.com/cotenant/cotenant/internal/problem"
)

// JSON reads answers of Prometheus' HTTP interface to queries and range queries (resultType matrix or vector), also
// without the envelope, as promtool prints them; several may follow one another. It keeps one sample at a time.
// Series without a name are those of the metric in the file's name ("DCGM_FI_DEV_FB_USED.json"), if there is one.
// The error names the problems of this source; what could be read counts.
func (r *Reader) JSON(name string, in io.Reader) error {
	src := r.begin(name, "prometheus json")
	j := &jsonReader{r: r, src: src, d: jx.Decode(in, 64<<10)}
	j.fallback, _ = inName(name)
	for first := true; ; first = false {
		err := j.answer()
		if errors.Is(err, io.EOF) && !first {
			break
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			src.problem(j.path(), "query again", "%s", problem.Clip(err.Error()))
			break
		}
	}
	return r.end(src)
}

type jsonReader struct {
	r        *Reader
	src      *Source
	d        *jx.Decoder
	fallback string // the metric of series without a name
	series   int    // that have begun
	depth    int
}

func (j *jsonReader) path() string { return fmt.Sprintf("result[%d]", max(0, j.series-1)) }

// answer reads one answer, an object or promtool's array.
func (j *jsonReader) answer() error {
	switch j.d.Next() {
	case jx.Array:
		return j.result()
	case jx.Object:
		return j.object()
	case jx.Invalid:
		if err := j.d.Skip(); err != nil {
			return err
		}
	}
	return ErrKind
}

// object reads the envelope, or the data in it.
func (j *jsonReader) object() error {
	if j.depth++; j.depth > 2 {
		return ErrKind
	}
	defer func() { j.depth-- }()
	return j.d.ObjBytes(func(d *jx.Decoder, key []byte) error {
		switch {
		case string(key) == "data" && d.Next() == jx.Object:
			return j.object()
		case string(key) == "result" && d.Next() == jx.Array:
			return j.result()
		case string(key) == "error" && d.Next() == jx.String:
			text, err := d.Str()
			if err == nil {
				j.src.problem("error", "query again", "Prometheus answers %s", problem.Clip(strconv.Quote(text)))
			}
			return err
		case string(key) == "warnings" && d.Next() == jx.Array:
			return d.Arr(func(d *jx.Decoder) error {
				if d.Next() != jx.String {
					return d.Skip()
				}
				text, err := d.Str()
				if err == nil {
					j.src.problem("warnings", "", "Prometheus warns %s", problem.Clip(strconv.Quote(text)))
				}
				return err
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
	if l["metric"] = cmp.Or(l["metric"], j.fallback); l["metric"] == "" {
		j.src.problem(j.path(), "query the metric itself, or name the file after it: DCGM_FI_DEV_GPU_UTIL.json",
			"a series without a name")
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
