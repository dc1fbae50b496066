package telemetry

import (
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

const (
	maxProblems = 20 // bound of the problems that are reported of a CSV file
	maxColumn   = 60 // bytes of a column's name
)

// ReadCSV reads a series from CSV with a header line: what CSVWriter writes, or a table of your own of at least at_s
// and one metric (the texts of Metrics, with units):
//
//	at_s,device,util_percent,power_watts,mem_used_bytes
//	0,0,0,110,40000000000
//	30,0,85,420,41000000000
//
// Columns may stand in any order. at_s is the time since the start in seconds, in order; device counts from 0 and is 0
// where it is left out; time is the wall clock (RFC 3339), basis is measured, simulated or another sharing.Basis, and
// unknown where it is left out. An empty cell is a figure that is missing. The other columns are those of CSVWriter.
//
// Whatever is not understood is a problem, and all problems (the first 20) come in one error, with their lines.
func ReadCSV(r io.Reader) (*Series, error) {
	rd := csv.NewReader(r)
	rd.ReuseRecord = true
	head, err := rd.Read()
	if err != nil {
		return nil, fmt.Errorf("telemetry: reading the CSV header: %w", err)
	}
	p := &csvParser{col: map[string]int{}}
	p.columns(head)
	for p.probs.Len() < maxProblems {
		rec, err := rd.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			var pe *csv.ParseError
			if !errors.As(err, &pe) {
				return nil, fmt.Errorf("telemetry: reading CSV: %w", err)
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
	p.probs.If(p.probs.Len() >= maxProblems, "", "mend these first", "telemetry: there may be more problems after line %d",
		p.line)
	if p.probs.Len() == 0 && !p.headed && len(p.s.samples) == 0 {
		p.problem("", "write a row for each reading", "telemetry: there is no row")
	}
	if err := p.probs.Err(); err != nil {
		return nil, err
	}
	p.describe()
	return &p.s, nil
}

type csvParser struct {
	s      Series
	headed bool // by a series row
	probs  problem.List
	col    map[string]int
	rec    []string
	line   int
	last   time.Duration
	start  time.Time // by the first row, of a series without a series row
	basis  sharing.Basis
}

func (p *csvParser) problem(col, remedy, format string, args ...any) {
	path := fmt.Sprintf("line %d", p.line)
	if col != "" {
		path += ", " + problem.Clip(col)
	}
	p.probs.Add(&problem.Problem{Path: path, Line: p.line, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

func (p *csvParser) columns(head []string) {
	p.line = 1
	for i, name := range head {
		if p.probs.Len() >= maxProblems {
			return
		}
		name = strings.TrimPrefix(name, "\ufeff")
		name = name[:min(len(name), maxColumn)]
		if _, err := enum.Parse(errUnknown, "CSV column", csvColumns, []byte(name)); err != nil {
			p.problem(name, "", "%v", err)
		}
		if _, twice := p.col[name]; twice {
			p.problem(name, "keep one", "telemetry: the column stands twice")
		}
		p.col[name] = i
	}
	if _, ok := p.col[colAt]; !ok {
		p.problem(colAt, "add the time of each row in seconds since the start", "telemetry: the column is missing")
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

// text reads a cell into a value that has texts; an empty cell leaves it as it is.
func (p *csvParser) text(col string, into interface{ UnmarshalText([]byte) error }) {
	if s := p.get(col); s != "" {
		if err := into.UnmarshalText([]byte(s)); err != nil {
			p.problem(col, "", "%.200s", err.Error())
		}
	}
}

func (p *csvParser) detail(into any) bool {
	dec := json.NewDecoder(strings.NewReader(p.get(colDetail)))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if _, more := dec.Token(); err == nil && more != io.EOF {
		err = errors.New("there is more than one JSON value")
	}
	if err != nil {
		p.problem(colDetail, "", "telemetry: %.200s", err.Error())
	}
	return err == nil
}

func (p *csvParser) row() {
	before := p.probs.Len()
	at, ok := parseSeconds(p.get(colAt))
	if !ok {
		p.problem(colAt, "write seconds since the start, 0 or more: 1.25", "telemetry: %.40q", p.get(colAt))
	}
	var when time.Time
	p.text(colTime, &when)
	basis := sharing.BasisUnknown
	p.text(colBasis, &basis)
	first := !p.headed && len(p.s.samples) == 0
	if first {
		p.basis, p.start = basis, when.Add(-at)
	}
	if basis != p.basis {
		p.problem(colBasis, "do not mix series", "telemetry: the row is %v, the series %v", basis, p.basis)
	}
	if at < p.last {
		p.problem(colAt, "keep the rows in order of time", "telemetry: the row is earlier than the one before")
	}
	if p.probs.Len() > before {
		return
	}
	p.last = at
	switch kind := cmp.Or(p.get(colKind), rowSample); kind {
	case rowSeries:
		p.seriesRow(first && at == 0, when)
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
			rowEvent}, []byte(problem.Clip(kind)))
		p.problem(colKind, "", "%v", err)
	}
}

func (p *csvParser) seriesRow(first bool, start time.Time) {
	var h csvHeader
	if !first {
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
	p.headed = true
	p.s.Header = Header{Info: ReaderInfo{Name: h.Source, Detail: h.SourceDetail, Basis: p.basis}, Start: start.UTC(),
		Period: time.Duration(h.PeriodNS), SlowPeriod: time.Duration(h.SlowPeriodNS)}
}

func (p *csvParser) gpuRow() {
	var d Device
	i, ok := p.integer(colDevice, math.MaxInt32)
	if len(p.s.samples) > 0 || !ok || i != int64(len(p.s.Devices)) {
		p.problem(colDevice, "put the gpu rows before the samples, numbered from 0", "telemetry: a gpu row out of place")
		return
	}
	if p.detail(&d) {
		p.s.Devices = append(p.s.Devices, d)
	}
}

// maxPlainDevices bounds the devices of a table that does not list them.
const maxPlainDevices = 1024

// device reads the device column.
func (p *csvParser) device() int {
	limit := int64(maxPlainDevices)
	if p.headed {
		limit = int64(len(p.s.Devices))
	}
	i, _ := p.integer(colDevice, limit-1)
	return int(i)
}

func (p *csvParser) figures(f *figures) {
	for m := MetricGPUUtilPercent; m < metricEnd; m++ {
		if v, ok := p.number(metricTable[m].name); ok {
			f.Set(m, v)
		}
	}
}

func (p *csvParser) sampleRow(at time.Duration) {
	x := Sample{At: at, Device: p.device(), Groups: GroupBasic}
	x.Tick, _ = p.integer(colTick, math.MaxInt64)
	p.text(colGroups, &x.Groups)
	p.figures(&x.figures)
	if p.get(colThrottle) != "" {
		var t Throttle
		p.text(colThrottle, &t)
		x.Throttle = Some(t)
	}
	x.Dropped = p.count(colDropped).Or(0)
	p.s.samples = append(p.s.samples, x)
}

func (p *csvParser) partRow(kind string, at time.Duration) {
	n := len(p.s.samples) - 1
	if n < 0 || p.s.samples[n].At != at || p.s.samples[n].Device != p.device() {
		p.problem(colKind, "put it after the sample row it belongs to", "telemetry: a %s row without its sample", kind)
		return
	}
	x := &p.s.samples[n]
	id, hasID := p.integer(colID, math.MaxUint32)
	if !hasID {
		p.problem(colID, "write the process or instance id", "telemetry: a %s row without an id", kind)
		return
	}
	var f figures
	p.figures(&f)
	if kind == rowInstance {
		x.Instances = append(x.Instances, Instance{ID: int(id), figures: f, ComputeSlices: p.count(colSlices)})
		return
	}
	proc := Process{PID: uint32(id), Name: p.get(colDetail), GPUInstance: p.count(colInstance)}
	if v, ok := f.Get(MetricMemUsedBytes); ok && (v < 0 || v >= 1<<63) {
		p.problem(MetricMemUsedBytes.String(), "write bytes", "telemetry: %v", v)
	} else if ok {
		proc.Memory = Some(sharing.Bytes(v))
	}
	if v, ok := p.number(colProcSM); ok {
		proc.SMUtilPercent = Some(v)
	}
	x.Processes = append(x.Processes, proc)
}

func (p *csvParser) eventRow(at time.Duration) {
	var e Event
	if !p.detail(&e) {
		return
	}
	if d, ok := e.Device.Get(); ok && (d < 0 || d >= len(p.s.Devices)) || e.At != at {
		p.problem(colDetail, "do not edit one of them", "telemetry: the event's time is not the row's, or it has no device")
		return
	}
	p.s.Events = append(p.s.Events, e)
}

// describe gives a table without a series row a header by its samples: as many devices as they name, and the shortest
// time between two readings of a device as the periods.
func (p *csvParser) describe() {
	if p.headed {
		return
	}
	h := &p.s.Header
	h.Info, h.Start = ReaderInfo{Name: "csv", Basis: p.basis}, p.start.UTC()
	last := map[int]time.Duration{}
	for i := range p.s.samples {
		x := &p.s.samples[i]
		for len(h.Devices) <= x.Device {
			h.Devices = append(h.Devices, Device{})
		}
		if before, ok := last[x.Device]; ok && x.At > before && (h.Period == 0 || x.At-before < h.Period) {
			h.Period = x.At - before
		}
		last[x.Device] = x.At
	}
	h.Period = cmp.Or(h.Period, time.Second)
	h.SlowPeriod = h.Period
}

// parseSeconds reads a number of seconds exactly, to the nanosecond.
func parseSeconds(s string) (time.Duration, bool) {
	whole, frac, _ := strings.Cut(s, ".")
	if whole == "" || strings.Trim(whole+frac, "0123456789") != "" {
		return 0, false
	}
	secs, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || secs > math.MaxInt64/int64(time.Second)-1 {
		return 0, false
	}
	ns, err := strconv.ParseInt((frac + "000000000")[:9], 10, 64)
	return time.Duration(secs)*time.Second + time.Duration(ns), err == nil
}
