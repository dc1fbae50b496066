// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/cotenant/cotenant/internal/atomicfile"
)

// ErrRunExists is returned when a run's directory exists and is not empty.
var ErrRunExists = errors.New("loadgen: the run directory exists and is not empty")

// opError wraps err with the failed operation and its path, without repeating the path that an os error carries.
func opError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("loadgen: %s %s: %w", op, path, err)
}

type runDir struct {
	path     string
	created  bool
	scrub    *scrubber
	requests *requestLog
}

// newRunDir creates the directory, with everything above it, or takes an empty one.
func newRunDir(path string, scrub *scrubber) (*runDir, error) {
	d := &runDir{path: path, scrub: scrub}
	entries, err := os.ReadDir(path)
	switch {
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("%w: %s (choose another one, or remove it)", ErrRunExists, path)
	case errors.Is(err, os.ErrNotExist):
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, opError("create", path, err)
		}
		d.created = true
	case err != nil:
		return nil, opError("read", path, err)
	}
	d.requests, err = newRequestLog(filepath.Join(path, ArtifactRequests))
	if err != nil {
		return nil, errors.Join(err, d.abandon())
	}
	return d, nil
}

// remove removes a file that may be there.
func (d *runDir) remove(name string) error {
	path := filepath.Join(d.path, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return opError("remove", path, err)
	}
	return nil
}

// abandon removes the files of a run that does not start.
func (d *runDir) abandon() error {
	if d == nil {
		return nil
	}
	errs := []error{d.remove(artifactConfig)}
	if d.requests != nil {
		errs = append(errs, d.requests.discard())
	}
	if d.created {
		errs = append(errs, opError("remove", d.path, os.Remove(d.path)))
	}
	return errors.Join(errs...)
}

// writeJSON writes v, indented, with every credential of the plan removed.
func (d *runDir) writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return opError("encode", filepath.Join(d.path, name), err)
	}
	return d.write(name, append(b, '\n'))
}

func (d *runDir) write(name string, data []byte) error {
	path := filepath.Join(d.path, name)
	return opError("write", path, atomicfile.Write(path, data, 0o644))
}

// writeData writes everything but the summary, as much as can be written.
func (d *runDir) writeData(res *Result) []error {
	var problems []error
	note := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	note(d.requests.close())
	lines, err := histogramLines(res)
	note(err)
	if err == nil {
		note(d.write(artifactHistograms, lines))
	}
	note(d.write(artifactTimeline, timelineCSV(res.Timeline)))
	return problems
}

type histogramLine struct {
	Tenant string        `json:"tenant"`
	Metric LatencyMetric `json:"metric"`
	encodedHistogram
}

func histogramLines(res *Result) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, t := range res.Summary.Tenants {
		for _, m := range latencyMetrics {
			h := res.Histograms[t.Name][m]
			if h.Count() == 0 {
				continue
			}
			e, err := h.encode()
			if err != nil {
				return nil, err
			}
			if err := enc.Encode(histogramLine{t.Name, m, e}); err != nil {
				return nil, err
			}
		}
	}
	return b.Bytes(), nil
}

// requestLog writes requests.jsonl. While the run lasts the file has the suffix
// ".partial"; a run that is killed leaves that. It is safe for concurrent use.
type requestLog struct {
	path string

	mu      sync.Mutex
	file    *os.File
	w       *bufio.Writer
	lines   *json.Encoder // to w
	flushed int64         // end of the request after which the buffer was last written out
	err     error         // the first failure; nothing is written after it
	closed  bool
}

func newRequestLog(path string) (*requestLog, error) {
	f, err := os.OpenFile(path+partialSuffix, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return nil, opError("create", path+partialSuffix, err)
	}
	w := bufio.NewWriterSize(f, 64<<10)
	return &requestLog{path: path, file: f, w: w, lines: json.NewEncoder(w)}, nil
}

func (l *requestLog) add(r *Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || l.closed {
		return
	}
	if l.err = l.lines.Encode(r); l.err == nil && r.EndNS-l.flushed > 1e9 {
		l.flushed = r.EndNS
		l.err = l.w.Flush()
	}
}

// close finishes the file and gives it its name. What could be written stays.
func (l *requestLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if l.err == nil {
		l.err = l.w.Flush()
	}
	if l.err == nil {
		l.err = l.file.Sync()
	}
	err := opError("write", l.path, l.err)
	if err != nil {
		err = errors.Join(err, l.cutLine())
	}
	err = errors.Join(err, opError("close", l.path, l.file.Close()))
	return errors.Join(err, opError("rename", l.path, os.Rename(l.path+partialSuffix, l.path)))
}

// cutLine removes the last line if a failed write has left a part of it.
func (l *requestLog) cutLine() error {
	size, err := l.file.Seek(0, io.SeekEnd)
	if err != nil {
		return opError("seek", l.path, err)
	}
	tail := make([]byte, min(size, 1<<20))
	if _, err := l.file.ReadAt(tail, size-int64(len(tail))); err != nil {
		return opError("read", l.path, err)
	}
	whole := size - int64(len(tail)) + int64(bytes.LastIndexByte(tail, '\n')+1)
	return opError("truncate", l.path, l.file.Truncate(whole))
}

func (l *requestLog) discard() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return errors.Join(l.file.Close(), opError("remove", l.path, os.Remove(l.path+partialSuffix)))
}

// The files of a run's directory. Only config.json and summary.json are always there.
const (
	artifactConfig     = "config.json"    // the resolved plan, seeds, versions, host
	artifactSummary    = "summary.json"   // a Summary
	ArtifactRequests   = "requests.jsonl" // a Record a line, in the order in which requests ended
	artifactHistograms = "hist.jsonl"     // a histogram a line: tenant, metric, HDR V2 base64
	artifactTimeline   = "timeline.csv"   // a TimelineRow a line
	partialSuffix      = ".partial"       // of requests.jsonl while the run lasts
)

// newRunID returns an id such as "20260102T150405Z-mps-50-0a1b2c": the time in UTC, the scenario with everything
// but letters, digits, dots and dashes turned into dashes, and six random hex digits.
func newRunID(now time.Time, scenario string, rng *rand.Rand) string {
	clean := cmp.Or(notInRunID.ReplaceAllString(scenario, "-"), "run")
	return fmt.Sprintf("%s-%s-%06x", now.UTC().Format("20060102T150405Z"), clean, bits.ReverseBytes32(rng.Uint32())>>8)
}

var notInRunID = regexp.MustCompile(`[^a-zA-Z0-9.-]`)
