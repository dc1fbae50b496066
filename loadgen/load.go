// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
)

// LoadResult reads a run's summary, histograms and timeline, if there is one, from its directory.
func LoadResult(dir string) (*Result, error) {
	res := &Result{Dir: dir}
	path := filepath.Join(dir, artifactSummary)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, opError("read", path, err)
	}
	if err := json.Unmarshal(data, &res.Summary); err != nil {
		return nil, opError("decode", path, err)
	}
	if v := res.Summary.SchemaVersion; v != schemaVersion {
		return nil, opError("read", path,
			fmt.Errorf("schema version %d; this version of the library reads %d", v, schemaVersion))
	}
	path = filepath.Join(dir, artifactHistograms)
	if res.Histograms, err = loadFile(path, readHistograms); err != nil {
		return nil, err
	}
	path = filepath.Join(dir, artifactTimeline)
	if res.Timeline, err = loadFile(path, readTimeline); errors.Is(err, os.ErrNotExist) {
		return res, nil
	}
	return res, err
}

func loadFile[T any](path string, read func(io.Reader) (T, error)) (v T, err error) {
	f, err := os.Open(path)
	if err != nil {
		return v, opError("open", path, err)
	}
	defer f.Close()
	if v, err = read(f); err != nil {
		return v, opError("read", path, err)
	}
	return v, nil
}

func readHistograms(r io.Reader) (map[string]map[LatencyMetric]*Histogram, error) {
	out := map[string]map[LatencyMetric]*Histogram{}
	var l problem.List
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 4<<20)
	for n := 1; scan.Scan(); n++ {
		at := fmt.Sprintf("line %d", n)
		var line histogramLine
		var h *Histogram
		err := json.Unmarshal(scan.Bytes(), &line)
		if err == nil {
			h, err = line.decode()
		}
		if err != nil {
			l.Addf(at, "", "%v", err)
			continue
		}
		if out[line.Tenant] == nil {
			out[line.Tenant] = map[LatencyMetric]*Histogram{}
		}
		l.If(out[line.Tenant][line.Metric] != nil, at, "", "second histogram of %v of tenant %q", line.Metric, line.Tenant)
		out[line.Tenant][line.Metric] = h
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	return out, l.Err()
}

// readTimeline reads the timeline.csv of a run's directory. The error wraps ErrInput and names the first bad line.
func readTimeline(r io.Reader) (rows []TimelineRow, err error) {
	cr := csv.NewReader(r)
	bad := func(format string, args ...any) ([]TimelineRow, error) {
		line, _ := cr.FieldPos(0)
		return nil, fmt.Errorf("%w: timeline: line %d: %w", ErrInput, line, fmt.Errorf(format, args...))
	}
	header, err := cr.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: timeline: %w", ErrInput, err)
	}
	if !slices.Equal(header, timelineHeader) {
		return bad("the columns are not %s", strings.Join(timelineHeader, ","))
	}
	for {
		values, err := cr.Read()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: timeline: %w", ErrInput, err)
		}
		row := TimelineRow{Tenant: values[1]}
		values = slices.Delete(values, 1, 2)
		for i, into := range row.counts() {
			if *into, err = strconv.ParseInt(values[i], 10, 64); err != nil {
				return bad("%s is %q, not a whole number", timelineCounts[i], problem.Clip(values[i]))
			}
		}
		for i, into := range row.quantiles() {
			text := values[len(timelineCounts)+i]
			if text == "" {
				continue
			}
			ms, err := strconv.ParseFloat(text, 64)
			if err != nil || !(ms >= 0 && ms*1e6 < math.MaxInt64) {
				return bad("%s is %q, not a number of milliseconds", timelineQuantiles[i], problem.Clip(text))
			}
			*into = optional.Of(time.Duration(math.Round(ms * 1e6)))
		}
		rows = append(rows, row)
	}
}

// LoadResults reads run directories, and all run directories below other directories: in the given order, inside a
// directory by time. The error names every run that cannot be read.
func LoadResults(dirs ...string) ([]*Result, error) {
	var l problem.List
	var all []*Result
	for _, dir := range dirs {
		found, err := findRuns(dir)
		l.AddErr("", err)
		before := len(all)
		for _, d := range found {
			res, err := LoadResult(d)
			if l.AddErr("", err); err == nil {
				all = append(all, res)
			}
		}
		slices.SortStableFunc(all[before:], func(a, b *Result) int {
			return cmp.Compare(a.Summary.Window.FromNS, b.Summary.Window.FromNS)
		})
	}
	return all, l.Err()
}

// findRuns returns the folders of runs in dir and below it.
func findRuns(dir string) (runs []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == artifactSummary && !d.IsDir() {
			runs = append(runs, filepath.Dir(path))
		}
		return err
	})
	if err == nil && len(runs) == 0 {
		err = fmt.Errorf("%s: no %s in it, nor below it", dir, artifactSummary)
	}
	return runs, err
}
