// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"cmp"
	"encoding/csv"
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

// ReadCSV reads a series from CSV with a header line: the output of NewCSVWriter, or a table of at least at_s
// and one metric (the texts of Metrics, with units):
//
//	at_s,device,util_percent,power_watts,mem_used_bytes
//	0,0,0,110,40000000000
//	30,0,85,420,41000000000
//
// Columns may come in any order; NewCSVWriter describes them. Rows are in order of at_s. Without their columns device
// is 0, basis sharing.BasisUnknown and period_s the shortest time between two rows of a device. A row with gpu_instance
// belongs to the preceding row of its device.
//
// Anything else is an error, which lists all problems (the first 20) with their lines.
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
	if p.probs.Len() == 0 && len(p.s.samples) == 0 {
		p.problem("", "write a row for each reading", "telemetry: there is no row")
	}
	if err := p.probs.Err(); err != nil {
		return nil, err
	}
	p.describe()
	return &p.s, nil
}

type csvParser struct {
	s     Series
	probs problem.List
	col   map[string]int
	rec   []string
	line  int
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
			p.problem(name, "keep one", "telemetry: the column is there twice")
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
func (p *csvParser) count(col string) sharing.Optional[int] {
	if v, ok := p.integer(col, math.MaxInt32); ok {
		return sharing.Some(int(v))
	}
	return sharing.Optional[int]{}
}

// text reads a cell into a value that has texts; an empty cell leaves it as it is.
func (p *csvParser) text(col string, into interface{ UnmarshalText([]byte) error }) {
	if s := p.get(col); s != "" {
		if err := into.UnmarshalText([]byte(s)); err != nil {
			p.problem(col, "", "%.200s", err.Error())
		}
	}
}

// maxSeconds bounds times: nine years, of which a nanosecond is lost after three months.
const maxSeconds = 1 << 28

// seconds reads a cell of seconds.
func (p *csvParser) seconds(col string) time.Duration {
	v, ok := p.number(col)
	if p.get(col) == "" || ok && !(v >= 0 && v <= maxSeconds) {
		p.problem(col, "write seconds, 0 or more: 1.25", "telemetry: %.40q", p.get(col))
	}
	return time.Duration(math.Round(v * 1e9))
}

// maxDevices bounds the devices of a file.
const maxDevices = 1024

func (p *csvParser) row() {
	before := p.probs.Len()
	x := Sample{At: p.seconds(colAt)}
	var when time.Time
	p.text(colTime, &when)
	basis := sharing.BasisUnknown
	p.text(colBasis, &basis)
	device, _ := p.integer(colDevice, maxDevices-1)
	x.Device = int(device)
	period := time.Duration(0)
	if p.get(colPeriod) != "" {
		period = p.seconds(colPeriod)
	}
	p.figures(&x.figures)
	instance, slices := p.count(colInstance), p.count(colSlices)
	if p.probs.Len() > before {
		return
	}
	n := len(p.s.samples)
	if n == 0 {
		p.s.Info, p.s.Start = ReaderInfo{Name: "csv", Basis: basis}, when.Add(-x.At).UTC()
	} else if x.At < p.s.samples[n-1].At {
		p.problem(colAt, "keep the rows in order of time", "telemetry: the row is earlier than the one before")
		return
	}
	if basis != p.s.Info.Basis {
		p.problem(colBasis, "do not mix series", "telemetry: the row is %v, the series %v", basis, p.s.Info.Basis)
		return
	}
	if id, ok := instance.Get(); ok {
		if n == 0 || p.s.samples[n-1].At != x.At || p.s.samples[n-1].Device != x.Device {
			p.problem(colInstance, "put it after the row of its device", "telemetry: an instance without its device")
			return
		}
		last := &p.s.samples[n-1]
		last.Groups |= GroupGPM
		last.Instances = append(last.Instances, Instance{ID: id, figures: x.figures, ComputeSlices: slices})
		return
	}
	p.sample(&x, period)
}

// sample takes a device's row.
func (p *csvParser) sample(x *Sample, period time.Duration) {
	for len(p.s.Devices) <= x.Device {
		p.s.Devices = append(p.s.Devices, Device{})
	}
	d := &p.s.Devices[x.Device]
	d.UUID, d.Name = cmp.Or(d.UUID, p.get(colUUID)), cmp.Or(d.Name, p.get(colName))
	if t := Throttle(p.get(colThrottle)); t != "" {
		if t.with("") != t {
			p.problem(colThrottle, "write none, or reasons such as power-cap+hw-thermal, in the order of their list",
				"telemetry: %.40q", t)
		}
		x.Throttle = sharing.Some(t)
	}
	for m, g := range map[Metric]Groups{MetricGPUUtilPercent: GroupBasic, MetricPowerWatts: GroupBasic,
		MetricEnergyJoules: GroupEnergy, MetricSMUtilPercent: GroupGPM, MetricGraphicsUtilPercent: GroupGPM} {
		if _, ok := x.Get(m); ok {
			x.Groups |= g
		}
	}
	if programs := p.get(colPrograms); programs != "" {
		x.Groups |= GroupProcesses
		for name := range strings.SplitSeq(strings.TrimSuffix(programs, "-"), ";") {
			if name != "" {
				x.Processes = append(x.Processes, Process{Name: strings.TrimSuffix(name, "?")})
			}
		}
	}
	if period > 0 {
		p.s.Period = min(cmp.Or(p.s.Period, period), period)
		p.s.SlowPeriod = max(p.s.SlowPeriod, period)
	}
	p.s.samples = append(p.s.samples, *x)
}

// describe gives a series with rows of no period the shortest time between two rows of a device.
func (p *csvParser) describe() {
	if p.s.Period > 0 {
		return
	}
	last := map[int]time.Duration{}
	for i := range p.s.samples {
		x := &p.s.samples[i]
		if before, ok := last[x.Device]; ok && x.At > before && (p.s.Period == 0 || x.At-before < p.s.Period) {
			p.s.Period = x.At - before
		}
		last[x.Device] = x.At
	}
	p.s.Period = cmp.Or(p.s.Period, time.Second)
	p.s.SlowPeriod = p.s.Period
}

func (p *csvParser) figures(f *figures) {
	for m := MetricGPUUtilPercent; m < metricEnd; m++ {
		if v, ok := p.number(m.String()); ok {
			f.Set(m, v)
		}
	}
}
