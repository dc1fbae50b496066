package telemetry

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

const maxProblems = 20 // bound of the problems that are reported of a CSV file

// ReadCSV reads the form that CSVWriter describes. It is strict: whatever is not understood is a problem, and all
// problems (the first 20) come in one error, with their lines. Columns may stand in any order, and metrics that the
// file does not have are missing.
func ReadCSV(r io.Reader) (*Series, error) {
	series := new(Series)
	if err := CopyCSV(series, r); err != nil {
		return nil, err
	}
	return series, nil
}

// CopyCSV reads the form that CSVWriter describes and gives dst what stands there, one sample at a time, so that a
// file of any length takes little memory. Problems and errors are those of ReadCSV; what stands before the first
// problem was given by then. An error of dst ends it.
func CopyCSV(dst Sink, r io.Reader) error {
	rd := csv.NewReader(r)
	rd.ReuseRecord = true
	head, err := rd.Read()
	if err != nil {
		return fmt.Errorf("telemetry: reading the CSV header: %w", err)
	}
	p := &csvParser{dst: dst, col: map[string]int{}}
	p.columns(head)
	for p.probs.Len() < maxProblems && p.err == nil {
		rec, err := rd.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			var pe *csv.ParseError
			if !errors.As(err, &pe) {
				return fmt.Errorf("telemetry: reading CSV: %w", err)
			}
			p.line = pe.Line
			p.problem("", "check the line's commas and quotes", "telemetry: %v", pe.Err)
			if !errors.Is(pe.Err, csv.ErrFieldCount) {
				break
			}
			continue
		}
		p.line, _ = rd.FieldPos(0)
		p.rec = rec
		p.row()
	}
	p.finish()
	return cmp.Or(p.err, p.probs.Err())
}

type csvParser struct {
	dst     Sink
	err     error // of dst
	probs   problem.List
	col     map[string]int
	rec     []string
	line    int
	head    Header
	hasHead bool
	began   bool
	last    time.Duration
	sample  Optional[Sample] // not stored yet: its processes follow
}

func (p *csvParser) problem(col, remedy, format string, args ...any) {
	path := fmt.Sprintf("line %d", p.line)
	if col != "" {
		path += ", " + col
	}
	p.probs.Add(&problem.Problem{Path: path, Line: p.line, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

func (p *csvParser) columns(head []string) {
	p.line = 1
	for i, name := range head {
		name = strings.TrimPrefix(name, "\ufeff")
		if _, err := enum.Parse(errUnknown, "CSV column", csvColumns, []byte(name)); err != nil {
			p.problem(name, "", "%v", err)
		}
		if _, twice := p.col[name]; twice {
			p.problem(name, "keep one", "telemetry: the column stands twice")
		}
		p.col[name] = i
	}
	for _, name := range []string{colKind, colAt, colTime, colBasis, colDevice, colTick, colGroups, colID, colDetail} {
		if _, ok := p.col[name]; !ok {
			p.problem(name, "write the file with CSVWriter", "telemetry: the column is missing")
		}
	}
}

func (p *csvParser) get(col string) string {
	if i, ok := p.col[col]; ok && i < len(p.rec) {
		return p.rec[i]
	}
	return ""
}

// number reads a cell; ok is false for an empty one, and for a bad one, which is a problem.
func (p *csvParser) number(col string) (float64, bool) {
	s := p.get(col)
	if s == "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		p.problem(col, "write a decimal number, or nothing when it is missing", "telemetry: %.40q is no finite number", s)
		return 0, false
	}
	return v, true
}

func (p *csvParser) integer(col string, limit int64) (int64, bool) {
	s := p.get(col)
	if s == "" {
		return 0, false
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < 0 || v > limit {
		p.problem(col, fmt.Sprintf("write a whole number from 0 to %d", limit), "telemetry: %.40q", s)
		return 0, false
	}
	return v, true
}

// count reads a cell that may be empty.
func (p *csvParser) count(col string) Optional[int] {
	if v, ok := p.integer(col, math.MaxInt32); ok {
		return Some(int(v))
	}
	return Optional[int]{}
}

func (p *csvParser) detail(into any) bool {
	dec := json.NewDecoder(strings.NewReader(p.get(colDetail)))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = errors.New("there is more than one JSON value")
		}
	}
	if err != nil {
		p.problem(colDetail, "", "telemetry: %v", err)
		return false
	}
	return true
}

func (p *csvParser) row() {
	before := p.probs.Len()
	at, ok := parseSeconds(p.get(colAt))
	if !ok {
		p.problem(colAt, `write seconds with a point, e.g. "1.250000000"`, "telemetry: %.40q", p.get(colAt))
	}
	when, err := time.Parse(time.RFC3339Nano, p.get(colTime))
	if err != nil {
		p.problem(colTime, "write RFC 3339", "telemetry: %.60q is no time", p.get(colTime))
	}
	var basis sharing.Basis
	if err := basis.UnmarshalText([]byte(p.get(colBasis))); err != nil {
		p.problem(colBasis, "", "%v", err)
	}
	if p.probs.Len() > before {
		return
	}
	kind := p.get(colKind)
	if kind == rowSeries {
		p.seriesRow(at, when, basis)
		return
	}
	if !p.hasHead {
		p.problem(colKind, "put the series row first", "telemetry: a %.20q row before the series row", kind)
		return
	}
	if basis != p.head.Info.Basis {
		p.problem(colBasis, "do not mix series", "telemetry: the row is %v, the series %v", basis, p.head.Info.Basis)
	}
	if at < p.last {
		p.problem(colAt, "keep the rows in order of time", "telemetry: the row is earlier than the one before")
	}
	if !when.Equal(p.head.Start.Add(at)) {
		p.problem(colTime, "do not edit one of the two", "telemetry: the time is not the series' start plus at_s")
	}
	if p.probs.Len() > before {
		return
	}
	p.last = at
	switch kind {
	case rowGPU:
		p.gpuRow()
	case rowSample:
		p.sampleRow(at)
	case rowProcess, rowInstance:
		p.partRow(kind, at)
	case rowEvent:
		p.eventRow(at)
	default:
		_, err := enum.Parse(errUnknown, "kind of row", []string{rowSeries, rowGPU, rowSample, rowProcess, rowInstance,
			rowEvent}, []byte(kind))
		p.problem(colKind, "", "%v", err)
	}
}

func (p *csvParser) seriesRow(at time.Duration, start time.Time, basis sharing.Basis) {
	var h csvHeader
	if p.hasHead || at != 0 {
		p.problem(colKind, "keep one series to a file, at 0 seconds", "telemetry: a second or late series row")
		return
	}
	if !p.detail(&h) {
		return
	}
	if h.Version != csvVersion {
		p.problem(colDetail, "", "telemetry: version %d; this package reads version %d", h.Version, csvVersion)
	}
	if h.PeriodNS <= 0 || h.SlowPeriodNS <= 0 {
		p.problem(colDetail, "write positive periods", "telemetry: periods of %d and %d ns", h.PeriodNS, h.SlowPeriodNS)
	}
	p.hasHead = true
	p.head = Header{Info: ReaderInfo{Name: h.Source, Detail: h.SourceDetail, Basis: basis}, Start: start.UTC(),
		Period: time.Duration(h.PeriodNS), SlowPeriod: time.Duration(h.SlowPeriodNS)}
}

func (p *csvParser) gpuRow() {
	var d Device
	if i, ok := p.integer(colDevice, math.MaxInt32); p.began || !ok || i != int64(len(p.head.Devices)) {
		p.problem(colDevice, "put the gpu rows after the series row, numbered from 0", "telemetry: a gpu row out of place")
		return
	}
	if p.detail(&d) {
		p.head.Devices = append(p.head.Devices, d)
	}
}

// begin starts the series at the first row that is not of its header.
func (p *csvParser) begin() {
	if !p.began {
		p.began = true
		p.err = p.dst.Begin(p.head)
	}
}

// device reads the device column of a row that must have one.
func (p *csvParser) device() (int, bool) {
	i, ok := p.integer(colDevice, int64(len(p.head.Devices))-1)
	if !ok && p.get(colDevice) == "" {
		p.problem(colDevice, "name the device", "telemetry: the cell is empty")
	}
	return int(i), ok
}

func (p *csvParser) figures(f *figures) {
	for m := MetricGPUUtilPercent; m < metricEnd; m++ {
		if v, ok := p.number(metricTable[m].name); ok {
			f.Set(m, v)
		}
	}
}

func (p *csvParser) sampleRow(at time.Duration) {
	p.begin()
	p.store()
	x := Sample{At: at}
	x.Device, _ = p.device()
	x.Tick, _ = p.integer(colTick, math.MaxInt64)
	if err := x.Groups.UnmarshalText([]byte(p.get(colGroups))); err != nil {
		p.problem(colGroups, "", "%v", err)
	}
	p.figures(&x.figures)
	if s := p.get(colThrottle); s != "" {
		var t Throttle
		if err := t.UnmarshalText([]byte(s)); err != nil {
			p.problem(colThrottle, "", "%v", err)
		}
		x.Throttle = Some(t)
	}
	x.Dropped = p.count(colDropped).Or(0)
	p.sample = Some(x)
}

func (p *csvParser) partRow(kind string, at time.Duration) {
	x, ok := p.sample.Get()
	if d, has := p.device(); !ok || x.At != at || has && x.Device != d {
		p.problem(colKind, "put it after the sample row it belongs to", "telemetry: a %s row without its sample", kind)
		return
	}
	id, hasID := p.integer(colID, math.MaxUint32)
	if !hasID {
		p.problem(colID, "write the process or instance id", "telemetry: a %s row without an id", kind)
		return
	}
	var f figures
	p.figures(&f)
	if kind == rowInstance {
		x.Instances = append(x.Instances, Instance{ID: int(id), figures: f, ComputeSlices: p.count(colSlices)})
	} else {
		proc := Process{PID: uint32(id), Name: p.get(colDetail), GPUInstance: p.count(colInstance)}
		if v, ok := f.Get(MetricMemUsedBytes); ok {
			if v < 0 || v >= 1<<63 {
				p.problem(MetricMemUsedBytes.String(), "write bytes", "telemetry: %v", v)
			} else {
				proc.Memory = Some(sharing.Bytes(v))
			}
		}
		if v, ok := p.number(colProcSM); ok {
			proc.SMUtilPercent = Some(v)
		}
		x.Processes = append(x.Processes, proc)
	}
	p.sample = Some(x)
}

func (p *csvParser) eventRow(at time.Duration) {
	p.begin()
	var e Event
	if !p.detail(&e) {
		return
	}
	if d, ok := e.Device.Get(); ok && (d < 0 || d >= len(p.head.Devices)) {
		p.problem(colDetail, "", "telemetry: an event of device %d", d)
		return
	}
	if d, ok := e.Device.Get(); e.At != at || ok != (p.get(colDevice) != "") || ok && p.get(colDevice) != strconv.Itoa(d) {
		p.problem(colDetail, "do not edit one of them", "telemetry: the event's time or device is not the row's")
		return
	}
	if p.probs.Len() == 0 && p.err == nil {
		p.err = p.dst.Event(e)
	}
}

// store appends the sample whose rows have all been read.
func (p *csvParser) store() {
	x, ok := p.sample.Get()
	p.sample = Optional[Sample]{}
	if ok && p.probs.Len() == 0 && p.err == nil {
		p.err = p.dst.Sample(&x)
	}
}

func (p *csvParser) finish() {
	if p.probs.Len() > 0 {
		p.probs.If(p.probs.Len() >= maxProblems, "", "mend these first",
			"telemetry: there may be more problems after line %d", p.line)
		return
	}
	if !p.hasHead {
		p.problem("", "write the file with CSVWriter", "telemetry: there is no series row")
		return
	}
	p.begin()
	p.store()
}

// parseSeconds reads what appendSeconds writes.
func parseSeconds(s string) (time.Duration, bool) {
	whole, frac, ok := strings.Cut(s, ".")
	if !ok || len(frac) != 9 || len(whole) == 0 || strings.Trim(whole+frac, "0123456789") != "" {
		return 0, false
	}
	secs, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || secs > math.MaxInt64/int64(time.Second)-1 {
		return 0, false
	}
	ns, err := strconv.ParseInt(frac, 10, 64)
	d := time.Duration(secs)*time.Second + time.Duration(ns)
	if err != nil || !bytes.Equal(appendSeconds(nil, d), []byte(s)) {
		return 0, false
	}
	return d, true
}
