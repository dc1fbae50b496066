package timeslice

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// ProbeReading is one line that the quantum probe prints when its process has
// spun on the GPU: how often and how long it was off and on.
type ProbeReading struct {
	Tag    string // names the process
	SMs    int
	Status string // "no error", or what CUDA said
	Gaps   int    // times it was off the GPU
	// OffTotal is the time off the GPU, all gaps together.
	OffTotal time.Duration
	// Timed says that there were gaps enough for Off and On.
	Timed   bool
	Off, On ProbeTimes
}

// OK says that the probe ended without a CUDA error.
func (p ProbeReading) OK() bool { return p.Status == "no error" }

// ProbeTimes are percentiles of the times off or on the GPU.
type ProbeTimes struct{ P10, P50, P90, Max time.Duration }

// ParseProbe reads the lines that the quantum probe prints, one for each process:
//
//	a sms=132 err=no error gaps=891 off_total_ms=2135.1 off_us p10=… p50=… p90=… max=… on_us p10=… p50=… p90=… max=…
//
// The percentiles are absent when there were fewer than three gaps. Blank lines
// are skipped; anything else is an error that names its line.
func ParseProbe(r io.Reader) ([]ProbeReading, error) {
	var out []ProbeReading
	var l problem.List
	sc := bufio.NewScanner(r)
	n := 0
	for sc.Scan() {
		n++
		line := strings.TrimSpace(sc.Text())
		if line == "" {
			continue
		}
		p, err := parseProbeLine(line)
		if err != nil {
			l.Add(&problem.Problem{Path: fmt.Sprintf("line %d", n), Line: n, Message: err.Error()})
			continue
		}
		out = append(out, p)
	}
	if err := sc.Err(); err != nil {
		l.Add(&problem.Problem{Path: fmt.Sprintf("line %d", n+1), Line: n + 1, Message: err.Error()})
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

var probeLine = regexp.MustCompile(`^(\S.*?) sms=(.*?) err=(\S.*?) gaps=(\S*)\s+(off_total_ms=\S*)(.*)$`)

func parseProbeLine(line string) (ProbeReading, error) {
	m := probeLine.FindStringSubmatch(line)
	if m == nil || m[1] != strings.TrimSpace(m[1]) || m[3] != strings.TrimSpace(m[3]) {
		return ProbeReading{}, fmt.Errorf("%q is no line of the quantum probe", problem.Clip(line))
	}
	p := ProbeReading{Tag: m[1], Status: m[3]}
	f := strings.Fields(m[6])
	var errs [5]error
	p.SMs, errs[0] = probeCount(m[2], "sms")
	p.Gaps, errs[1] = probeCount(m[4], "gaps")
	p.OffTotal, errs[2] = probeTime(m[5], "off_total_ms=", time.Millisecond)
	switch {
	case len(f) == 10 && f[0] == "off_us" && f[5] == "on_us":
		p.Timed = true
		p.Off, errs[3] = probeTimes("off_us", f[1:5])
		p.On, errs[4] = probeTimes("on_us", f[6:10])
	case len(f) > 0:
		errs[3] = errors.New("off_us and on_us must hold p10, p50, p90 and max each")
	}
	if err := cmp.Or(errs[:]...); err != nil {
		return ProbeReading{}, err
	}
	return p, nil
}

func probeCount(s, name string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s=%q is no count", name, problem.Clip(s))
	}
	return n, nil
}

func probeTime(s, prefix string, unit time.Duration) (time.Duration, error) {
	v, found := strings.CutPrefix(s, prefix)
	f, err := strconv.ParseFloat(v, 64)
	if !found || err != nil || !(f >= 0) || f*float64(unit) > float64(longest) {
		return 0, fmt.Errorf("%q is not %s and a time", problem.Clip(s), prefix)
	}
	return time.Duration(math.Round(f * float64(unit))), nil
}

func probeTimes(name string, f []string) (t ProbeTimes, err error) {
	for i, d := range []*time.Duration{&t.P10, &t.P50, &t.P90, &t.Max} {
		if *d, err = probeTime(f[i], []string{"p10=", "p50=", "p90=", "max="}[i], time.Microsecond); err != nil {
			return ProbeTimes{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return t, nil
}

// ProbeRun is a run of the spinning probe in several processes at once, one reading for each.
type ProbeRun struct {
	Tenants  int // processes that ran at once
	Readings []ProbeReading
}

// Calibration is a scheduler found from measurements, and how well it gives them back.
type Calibration struct {
	Scheduler Scheduler
	// Points is the number of measurements that it was fitted to.
	Points int
	// WorstErrorFraction is the largest relative error of a fitted value.
	WorstErrorFraction float64
}

// CalibrateProbe finds quantum and switch from what the quantum probe printed: the quantum is the median of the
// on-times, the switch the least-squares solution of off = (n-1) quantum + n switch over all readings.
func CalibrateProbe(runs ...ProbeRun) (Calibration, error) {
	var l problem.List
	var on []time.Duration
	type point struct{ n, off float64 }
	var points []point
	for i, r := range runs {
		path := fmt.Sprintf("runs[%d]", i)
		l.If(r.Tenants < 2 || r.Tenants > 1024, path+".tenants", "a lone process is never off the GPU",
			"must lie between 2 and 1024, is %d", r.Tenants)
		for j, p := range r.Readings {
			path := fmt.Sprintf("%s.readings[%d]", path, j)
			switch {
			case !p.OK():
				l.Addf(path, "run the probe again", "the probe ended with %q", problem.Clip(p.Status))
			case !p.Timed || p.On.P50 <= 0 || p.Off.P50 <= 0:
				l.Addf(path, "run it for longer, and beside others", "has no on- and off-times: %d gaps are too few", p.Gaps)
			default:
				on = append(on, p.On.P50)
				points = append(points, point{float64(r.Tenants), float64(p.Off.P50)})
			}
		}
	}
	l.If(len(points) == 0, "", "give what at least one run of two probes printed", "there is no reading")
	if err := l.Err(); err != nil {
		return Calibration{}, err
	}
	slices.Sort(on)
	q := float64(on[len(on)/2])
	if len(on)%2 == 0 {
		q = (q + float64(on[len(on)/2-1])) / 2
	}
	num, den := 0.0, 0.0
	for _, p := range points {
		num += p.n * (p.off - (p.n-1)*q)
		den += p.n * p.n
	}
	sw := num / den
	if sw < 0 {
		return Calibration{}, fmt.Errorf("timeslice: the off-times are shorter than the others' quanta: were there %g "+
			"tenants at once, and nothing else on the GPU?", points[0].n)
	}
	c := Calibration{Points: len(points), Scheduler: Scheduler{time.Duration(q), time.Duration(sw), sharing.BasisFitted,
		fmt.Sprintf("quantum probe, %d readings", len(points))}}
	for _, p := range points {
		c.WorstErrorFraction = max(c.WorstErrorFraction, math.Abs(((p.n-1)*q+p.n*sw)/p.off-1))
	}
	return c, nil
}
