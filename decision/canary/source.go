// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/serving"
)

const (
	// loadOver is the time over which a load is averaged.
	loadOver = 30 * time.Second
	// slowStep is the time after which a step that has not ended counts as a rate of one in the time so far.
	slowStep = 10 * time.Second
)

// tenantSource holds the last readings of a tenant.
type tenantSource struct {
	client *serving.Client
	before map[string]serving.Reading
	at     time.Time // of before
	load   float64   // requests a second, averaged

	steps   float64 // counted; at is when they were
	stepsAt time.Time
	counted bool
}

// read reads a tenant.
func (t *tenantSource) read(ctx context.Context, p *Tenant) (s Seen) {
	s.Metrics = make([]Sample, len(p.Objectives))
	var err error
	if p.Page != "" {
		err = t.page(ctx, p, &s)
	}
	if p.Counter != nil {
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

// page reads a tenant's metrics page: histograms of the time since it was read before.
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
			switch h := of[o.Metric]; {
			case o.Metric == steps:
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
	n, err := t.client.Counter(ctx, p.Counter.URL, p.Counter.Name)
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
