package loadgen

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
)

// readTimeline reads a timeline.csv, such as that of a run's directory. Columns
// are found by name. The error wraps ErrInput and names each bad line.
func readTimeline(r io.Reader) ([]TimelineRow, error) {
	cr := csv.NewReader(r)
	header, err := cr.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: timeline: %w", ErrInput, err)
	}
	var l problem.List
	column := map[string]int{}
	for _, name := range strings.Split(strings.TrimSpace(timelineHeader), ",") {
		if column[name] = slices.Index(header, name); column[name] < 0 {
			l.Addf("header", "give a timeline.csv of this package", "no column %q", name)
		}
	}
	if err := l.Under(ErrInput); err != nil {
		return nil, err
	}
	var rows []TimelineRow
	for l.Len() <= problem.Enough {
		values, err := cr.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			l.Addf("", "", "%v", err)
			break
		}
		line, _ := cr.FieldPos(0)
		row := TimelineRow{Tenant: values[column["tenant"]]}
		for _, f := range []struct {
			name string
			into *int64
		}{
			{"unix_ns", &row.UnixNS}, {"offered", &row.Offered}, {"sent", &row.Sent}, {"done", &row.Done}, {"failed", &row.Failed},
			{"in_flight", &row.InFlight}, {"tokens", &row.Tokens},
		} {
			v, err := strconv.ParseInt(values[column[f.name]], 10, 64)
			if err != nil {
				l.Addf(fmt.Sprintf("line %d.%s", line, f.name), "write a whole number", "is %q", problem.Clip(values[column[f.name]]))
			}
			*f.into = v
		}
		for _, f := range []struct {
			name string
			into *Optional[time.Duration]
		}{{"ttft_p99_ms", &row.TTFTP99}, {"itl_p99_ms", &row.ITLP99}} {
			text := values[column[f.name]]
			if text == "" {
				continue
			}
			ms, err := strconv.ParseFloat(text, 64)
			if err != nil || !(ms >= 0 && ms*1e6 < math.MaxInt64) {
				l.Addf(fmt.Sprintf("line %d.%s", line, f.name), "write milliseconds, or nothing", "is %q", problem.Clip(text))
				continue
			}
			*f.into = optional.Of(time.Duration(math.Round(ms * 1e6)))
		}
		rows = append(rows, row)
	}
	if err := l.Under(ErrInput); err != nil {
		return nil, err
	}
	return rows, nil
}
