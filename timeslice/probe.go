package timeslice

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
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

func parseProbeLine(line string) (p ProbeReading, err error) {
	tag, rest, ok := strings.Cut(line, " sms=")
	sms, rest, ok2 := strings.Cut(rest, " err=")
	status, rest, ok3 := strings.Cut(rest, " gaps=")
	if !ok || !ok2 || !ok3 || tag != strings.TrimSpace(tag) || tag == "" || status != strings.TrimSpace(status) ||
		status == "" {
		return ProbeReading{}, fmt.Errorf("%q is no line of the quantum probe", problem.Clip(line))
	}
	f := strings.Fields(rest)
	if len(f) < 2 || !strings.HasPrefix(f[1], "off_total_ms=") {
		return ProbeReading{}, errors.New("gaps and off_total_ms are missing")
	}
	p = ProbeReading{Tag: tag, Status: status}
	if p.SMs, err = probeCount(sms, "sms"); err != nil {
		return ProbeReading{}, err
	}
	if p.Gaps, err = probeCount(f[0], "gaps"); err != nil {
		return ProbeReading{}, err
	}
	if p.OffTotal, err = probeTime(f[1], "off_total_ms=", time.Millisecond); err != nil {
		return ProbeReading{}, err
	}
	switch f = f[2:]; {
	case len(f) == 0:
		return p, nil
	case len(f) != 10 || f[0] != "off_us" || f[5] != "on_us":
		return ProbeReading{}, errors.New("off_us and on_us must hold p10, p50, p90 and max each")
	}
	p.Timed = true
	if p.Off, err = probeTimes(f[1:5]); err != nil {
		return ProbeReading{}, fmt.Errorf("off_us: %w", err)
	}
	if p.On, err = probeTimes(f[6:10]); err != nil {
		return ProbeReading{}, fmt.Errorf("on_us: %w", err)
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

func probeTimes(f []string) (t ProbeTimes, err error) {
	for i, d := range []*time.Duration{&t.P10, &t.P50, &t.P90, &t.Max} {
		if *d, err = probeTime(f[i], []string{"p10=", "p50=", "p90=", "max="}[i], time.Microsecond); err != nil {
			return ProbeTimes{}, err
		}
	}
	return t, nil
}
