// SPDX-License-Identifier: Apache-2.0

// Package promtext reads pages in Prometheus' text format, one after another in one stream, with a library of
// Prometheus, and continues after a broken line.
package promtext

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/cotenant/cotenant/internal/problem"
)

// maxPage bounds one page, and with it the memory: an exporter's page is far
// smaller, a federated one of a thousand nodes has some tens of MiB.
const maxPage = 128 << 20

// Page is one page: its number in the stream, from 0, and its families in the order of their names.
type Page struct {
	Number   int
	Families []*dto.MetricFamily
}

// Read calls each with every page of a stream. A page ends where a metric is described a second time, as in the
// pages of several exporters written into one file. Lines that are no metric are problems with their line; the rest
// is still given. The error names them all, up to problem.Enough of them.
func Read(in io.Reader, each func(Page)) error {
	s := &splitter{each: each, described: map[string]bool{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxPage)
	for s.probs.Len() < problem.Enough && lines.Scan() {
		if s.buf.Len()+len(lines.Bytes()) >= maxPage {
			return s.tooLarge()
		}
		s.add(lines.Bytes())
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return s.tooLarge()
	}
	s.flush()
	s.probs.AddErr("", lines.Err())
	return s.probs.Err()
}

// boundless matches a histogram's bucket with the upper bound NaN.
var boundless = regexp.MustCompile(`^[ \t]*([^ \t{]+_bucket)[ \t]*\{(?:.*[, \t])?le[ \t]*=[ \t]*"((?i:nan))"`)

type splitter struct {
	each      func(Page)
	probs     problem.List
	buf       bytes.Buffer
	described map[string]bool
	line      int // lines taken
	first     int // lines before the page in buf
	pages     int
}

func (s *splitter) tooLarge() error {
	return fmt.Errorf("promtext: line %d: a page of more than %d MiB", s.line+1, maxPage>>20)
}

// add takes a line without its end.
func (s *splitter) add(line []byte) {
	if bytes.HasPrefix(line, []byte("#")) {
		if f := bytes.Fields(line); len(f) > 2 && (string(f[1]) == "HELP" || string(f[1]) == "TYPE") {
			key := string(f[1]) + " " + string(f[2])
			if s.described[key] {
				s.flush()
			}
			s.described[key] = true
		}
	}
	s.line++
	// The library leaves out a bucket with a bound that is not a number, without an error.
	if m := boundless.FindSubmatch(line); m != nil {
		s.probs.Add(&problem.Problem{Path: fmt.Sprintf("line %d", s.line), Line: s.line,
			Message: fmt.Sprintf(`%s has a bucket with le="%s", which is not a number`, problem.Clip(string(m[1])), m[2]),
			Remedy:  "leave the bucket out, or write its upper bound"})
		s.buf.WriteByte('\n')
		return
	}
	// Metrics with quoted names are left out: nothing here reads any, and the
	// library (common v0.70.0) fails on "{}" with a nil pointer.
	if t := bytes.TrimLeft(line, " \t"); len(t) > 0 && t[0] == '{' {
		s.buf.WriteByte('\n')
		return
	}
	s.buf.Write(line)
	s.buf.WriteByte('\n')
}

// flush parses the page in buf. The library stops at a broken line: that line
// becomes a problem and an empty line, and the page is parsed again.
func (s *splitter) flush() {
	page := s.buf.Bytes()
	for s.probs.Len() < problem.Enough {
		p := expfmt.NewTextParser(model.UTF8Validation)
		families, err := p.TextToMetricFamilies(bytes.NewReader(page))
		var broken expfmt.ParseError
		if errors.As(err, &broken) && blank(page, broken.Line) {
			line := s.first + broken.Line
			s.probs.Add(&problem.Problem{Path: fmt.Sprintf("line %d", line), Line: line, Message: broken.Msg,
				Remedy: "write the page as the exporter gave it"})
			continue
		}
		s.probs.AddErr(fmt.Sprintf("line %d", s.first+1), err)
		if len(families) > 0 {
			pg := Page{Number: s.pages}
			for _, name := range slices.Sorted(maps.Keys(families)) {
				pg.Families = append(pg.Families, families[name])
			}
			s.each(pg)
			s.pages++
		}
		break
	}
	s.buf.Reset()
	clear(s.described)
	s.first = s.line
}

// blank empties a line of the page, counted from 1. It answers false where there was nothing to empty.
func blank(page []byte, line int) bool {
	for ; line > 1; line-- {
		i := bytes.IndexByte(page, '\n')
		if i < 0 {
			return false
		}
		page = page[i+1:]
	}
	end := bytes.IndexByte(page, '\n')
	if end < 0 {
		end = len(page)
	}
	if len(bytes.TrimSpace(page[:end])) == 0 {
		return false
	}
	for i := range page[:end] {
		page[i] = ' '
	}
	return true
}

// Value is a metric's value, whatever its type says, and whether it has one.
func Value(m *dto.Metric) (float64, bool) {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue(), true
	case m.Counter != nil:
		return m.Counter.GetValue(), true
	case m.Untyped != nil:
		return m.Untyped.GetValue(), true
	}
	return 0, false
}
