package canary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/serving"
)

const (
	lookEvery = time.Second
	// busyLooks is the number of looks over which the device's greatest utilization counts: one reading of the
	// driver covers a second at the most, in which a server with little to do may have rested.
	busyLooks = 5
	// loadOver is the time over which a load is averaged.
	loadOver = 30 * time.Second
	// slowStep is the time after which a step that has not ended counts as a rate of one in the time so far.
	slowStep = 10 * time.Second
)

// Machine is the Source of real tenants: their metrics pages, counters and files, and the device where a reader is
// given. It is not safe for concurrent use.
type Machine struct {
	plan    Plan
	reader  telemetry.Reader
	start   time.Time
	tenants []tenantSource
	busy    []float64
	seen    int
}

// NewMachine returns the source of a plan's tenants. reader, of which the plan's GPU is read, may be nil.
func NewMachine(p Plan, reader telemetry.Reader) *Machine {
	m := &Machine{plan: p, reader: reader, start: time.Now(), tenants: make([]tenantSource, len(p.Tenants))}
	for i := range m.tenants {
		m.tenants[i].client = serving.NewClient()
	}
	return m
}

// Next waits for the next second and reads everything at once. What does not answer within it is missing.
func (m *Machine) Next(ctx context.Context) (Look, error) {
	m.seen = max(m.seen+1, int(time.Since(m.start)/lookEvery))
	select {
	case <-ctx.Done():
		return Look{}, ctx.Err()
	case <-time.After(time.Until(m.start.Add(time.Duration(m.seen) * lookEvery))):
	}
	l := Look{At: time.Since(m.start), Tenants: make([]Seen, len(m.tenants))}
	reading, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	var wg sync.WaitGroup
	for i := range m.tenants {
		wg.Go(func() { l.Tenants[i] = m.tenants[i].look(reading, &m.plan.Tenants[i]) })
	}
	busy, err := m.device(reading)
	wg.Wait()
	for i := range l.Tenants {
		if l.Tenants[i].Busy = busy; err != nil && l.Tenants[i].Missing == "" {
			l.Tenants[i].Missing = "the device does not answer: " + err.Error()
		}
	}
	return l, ctx.Err()
}

// device returns the greatest utilization of the last looks, 0 to 1: the driver's, and on MIG GPM's.
func (m *Machine) device(ctx context.Context) (busy serving.Optional[float64], err error) {
	if m.reader == nil {
		return busy, nil
	}
	var r telemetry.Reading
	if err := m.reader.Read(ctx, m.plan.GPU, telemetry.GroupBasic, &r); err != nil {
		return busy, err
	}
	v, ok := r.Get(telemetry.MetricGPUUtilPercent)
	if !ok {
		if err := m.reader.Read(ctx, m.plan.GPU, telemetry.GroupGPM, &r); err != nil {
			if errors.Is(err, telemetry.ErrUnsupported) {
				err = nil
			}
			return busy, err
		}
		v, ok = r.Get(telemetry.MetricSMUtilPercent)
	}
	if !ok {
		return busy, nil
	}
	if m.busy = append(m.busy, v/100); len(m.busy) > busyLooks {
		m.busy = m.busy[1:]
	} else if len(m.busy) < busyLooks {
		return busy, nil
	}
	return telemetry.Some(max(m.busy[0], m.busy[1], m.busy[2], m.busy[3], m.busy[4])), nil
}

// tenantSource holds what was read last of a tenant.
type tenantSource struct {
	client *serving.Client
	before map[string]serving.Reading
	at     time.Time // of before
	load   float64   // requests a second, averaged

	size    int64   // of the file of lines, as far as they were counted
	lines   float64 // in it
	steps   float64 // counted; at is when they were
	stepsAt time.Time
	counted bool
}

// look reads a tenant.
func (t *tenantSource) look(ctx context.Context, p *Tenant) (s Seen) {
	s.Metrics = make([]Sample, len(p.Objectives))
	var err error
	if p.Page != "" {
		err = t.page(ctx, p, &s)
	}
	if p.Counter != nil || p.Lines != "" {
		rates, stepErr := t.stepRates(ctx, p)
		err = errors.Join(err, stepErr)
		for k, o := range p.Objectives {
			if o.Metric == steps {
				s.Metrics[k].Values = rates
			}
		}
	}
	if err != nil {
		s.Missing = err.Error()
	}
	return s
}

// page reads a tenant's metrics page: the histograms of what happened since it was read before.
func (t *tenantSource) page(ctx context.Context, p *Tenant, s *Seen) error {
	readings, err := t.client.Fetch(ctx, p.Page)
	if err != nil {
		return err
	}
	now, last, ended, known := time.Now(), t.at, 0.0, true
	before := t.before
	t.before, t.at = map[string]serving.Reading{}, now
	for _, r := range readings {
		key := r.Model + "\x00" + r.Replica
		t.before[key] = r
		was, ok := before[key]
		if !ok {
			err = errors.New("its first page, or the first of a replica")
			continue
		}
		d, since := r.Since(was)
		if err = errors.Join(err, since); since != nil {
			continue
		}
		n, ok := d.Requests.Get()
		ended, known = ended+n, known && ok
		of := map[string]*serving.Histogram{"ttft": d.TTFT, "itl": d.ITL, "tpot": d.TPOT, "e2e": d.E2E, "queue": d.Queue}
		for k, o := range p.Objectives {
			seconds, timed := d.DecodeSeconds.Get()
			switch h := of[o.Metric]; {
			case o.Metric == steps:
			case o.Metric == "itl" && h == nil && timed: // llama.cpp's: the mean since the page before
				if tokens := d.GenerationTokens.Or(0); tokens > 0 {
					s.Metrics[k].Values = append(s.Metrics[k].Values, seconds/tokens)
				}
			case h == nil:
				err = errors.Join(err, fmt.Errorf("its page has no %s", o.Metric))
			default:
				s.Metrics[k].merge(&Sample{Histogram: h})
			}
		}
	}
	if err != nil {
		return err
	}
	span := now.Sub(last).Seconds()
	if part := min(1, span/loadOver.Seconds()); t.load == 0 {
		t.load = ended / span
	} else {
		t.load += part * (ended/span - t.load)
	}
	if known {
		s.Load = telemetry.Some(t.load)
	}
	return nil
}

// stepRates reads a counter of steps and returns the rate of each that ended since it was read before.
func (t *tenantSource) stepRates(ctx context.Context, p *Tenant) (rates []float64, err error) {
	var n float64
	if p.Lines != "" {
		n, err = t.countLines(p.Lines)
	} else {
		n, err = t.client.Counter(ctx, p.Counter.URL, p.Counter.Name)
	}
	if err != nil {
		return nil, err
	}
	now, was, at, counted := time.Now(), t.steps, t.stepsAt, t.counted
	if n != was || !counted {
		t.steps, t.stepsAt, t.counted = n, now, true
	}
	took := now.Sub(at).Seconds()
	switch {
	case !counted:
		return nil, errors.New("its counter was not read before")
	case n < was:
		return nil, errors.New("its counter went back")
	case n == was && now.Sub(at) < slowStep:
		return nil, nil
	case n == was:
		return []float64{1 / took}, nil
	}
	return slices.Repeat([]float64{(n - was) / took}, int(min(n-was, 1000))), nil
}

// countLines counts the lines of a file, of which what was counted before is not read again. One that is shorter than
// before is counted anew.
func (t *tenantSource) countLines(path string) (float64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() < t.size {
		t.size, t.lines = 0, 0
	}
	in := io.NewSectionReader(f, t.size, math.MaxInt64-t.size)
	for buffer := make([]byte, 32<<10); ; {
		n, err := in.Read(buffer)
		t.size, t.lines = t.size+int64(n), t.lines+float64(bytes.Count(buffer[:n], []byte("\n")))
		if errors.Is(err, io.EOF) {
			return t.lines, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
