package usage

import (
	"fmt"
	"io"

	dto "github.com/prometheus/client_model/go"

	"github.com/cotenant/cotenant/internal/promtext"
)

// Text reads pages in Prometheus' text format, as dcgm-exporter serves them;
// several pages may follow one another. Samples without a time stamp count
// without one. The error names the problems of this source; what could be read counts.
func (r *Reader) Text(name string, in io.Reader) error {
	src, before := r.begin(name, "prometheus text"), r.probs.Len()
	err := promtext.Read(in, func(p promtext.Page) {
		r.page++
		for _, f := range p.Families {
			if _, ok := metrics[f.GetName()]; ok {
				r.family(src, f)
			}
		}
	})
	r.problems(src, err)
	return r.end(src, before)
}

func (r *Reader) family(src *Source, f *dto.MetricFamily) {
	for i, m := range f.Metric {
		l := labels{metric: f.GetName()}
		for _, p := range m.Label {
			if field := l.field(p.GetName()); field != nil {
				*field = p.GetValue()
			}
		}
		v, ok := promtext.Value(m)
		if !ok {
			r.problem(src, fmt.Sprintf("%s[%d]", f.GetName(), i), "", "a histogram or summary, where a figure is expected")
			continue
		}
		t, to := r.series(src, &l)
		if t == nil {
			continue
		}
		when := int64(noTime)
		if m.TimestampMs != nil {
			when = m.GetTimestampMs()
		}
		r.sample(src, t, to.figure, when, v*to.scale)
	}
}
