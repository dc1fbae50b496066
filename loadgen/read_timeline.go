package loadgen

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
)

// ReadTimeline reads a timeline.csv, such as that of a run's directory. Columns
// are found by name. The error wraps ErrInput and names each bad line.
func ReadTimeline(r io.Reader) ([]TimelineRow, error) {
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
			into *time.Duration
			has  *bool
		}{{"ttft_p99_ms", &row.TTFTP99, &row.HasTTFT}, {"itl_p99_ms", &row.ITLP99, &row.HasITLP99}} {
			text := values[column[f.name]]
			if text == "" {
				continue
			}
			ms, err := strconv.ParseFloat(text, 64)
			if err != nil || !(ms >= 0 && ms*1e6 < math.MaxInt64) {
				l.Addf(fmt.Sprintf("line %d.%s", line, f.name), "write milliseconds, or nothing", "is %q", problem.Clip(text))
				continue
			}
			*f.into, *f.has = time.Duration(math.Round(ms*1e6)), true
		}
		rows = append(rows, row)
	}
	if err := l.Under(ErrInput); err != nil {
		return nil, err
	}
	return rows, nil
}

// ReadRun reads a run's directory: ReadResult with the timeline, where there is
// one.
func ReadRun(dir string) (*Result, error) {
	res, err := ReadResult(dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, ArtifactTimeline)
	f, err := os.Open(path)
	switch {
	case os.IsNotExist(err):
		return res, nil
	case err != nil:
		return nil, opError("open", path, err)
	}
	defer f.Close()
	if res.Timeline, err = ReadTimeline(f); err != nil {
		return nil, &OpError{Op: "read", Path: path, Err: err}
	}
	return res, nil
}

// ReadRuns reads run directories, and the run directories inside of others, in the
// order given and, inside a directory, in that of their time. The error names
// every one that cannot be read.
func ReadRuns(dirs ...string) ([]*Result, error) {
	var l problem.List
	var all []*Result
	for _, dir := range dirs {
		found, err := findRuns(dir)
		l.AddErr("", err)
		var here []*Result
		for _, d := range found {
			res, err := ReadRun(d)
			if err != nil {
				l.AddErr("", err)
				continue
			}
			here = append(here, res)
		}
		slices.SortStableFunc(here, func(a, b *Result) int { return cmp.Compare(a.Summary.Window.FromNS, b.Summary.Window.FromNS) })
		all = append(all, here...)
	}
	return all, l.Err()
}

// findRuns returns dir if it is a run's, else those of its entries that are.
func findRuns(dir string) ([]string, error) {
	isRun := func(d string) bool {
		_, err := os.Stat(filepath.Join(d, ArtifactSummary))
		return err == nil
	}
	if isRun(dir) {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var runs []string
	for _, e := range entries {
		if sub := filepath.Join(dir, e.Name()); e.IsDir() && isRun(sub) {
			runs = append(runs, sub)
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s: no %s in it, nor in a folder of it", dir, ArtifactSummary)
	}
	return runs, nil
}
