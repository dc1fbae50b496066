// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// dcgm is a reader with the activity of MIG instances that dcgm-exporter's page has and NVML has not, before Hopper.
type dcgm struct {
	telemetry.Reader
	url   string
	log   *slog.Logger
	uuids []string // of the reader's devices

	mu     sync.Mutex
	active map[string]map[int]float64 // share of the time, by GPU and instance
	at     time.Time
	answer sharing.Answer // whether the page could be read last
}

func newDCGM(ctx context.Context, r telemetry.Reader, url string, log *slog.Logger) (*dcgm, error) {
	devices, err := r.Devices(ctx)
	if err != nil {
		return nil, err
	}
	d := &dcgm{Reader: r, url: url, log: log}
	for _, dev := range devices {
		d.uuids = append(d.uuids, dev.UUID)
	}
	return d, nil
}

// watch reads the page every period until ctx ends.
func (d *dcgm) watch(ctx context.Context, period time.Duration) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		active, err := d.page(ctx, period)
		d.mu.Lock()
		answer := sharing.AnswerOf(err == nil)
		if err == nil {
			d.active, d.at = active, time.Now()
		}
		if err != nil && answer != d.answer && ctx.Err() == nil {
			d.log.Warn("no activity of MIG instances", "from", d.url, "err", err)
		}
		d.answer = answer
		d.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

const dcgmActive = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"

// page reads the page. One that has none of the reader's GPUs is another node's, which is an error.
func (d *dcgm) page(ctx context.Context, timeout time.Duration) (map[string]map[int]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return nil, fmt.Errorf("it is no metrics page: %.200s", err)
	}
	active := map[string]map[int]float64{}
	for _, uuid := range d.uuids {
		active[uuid] = map[int]float64{}
	}
	known := false
	for _, m := range families[dcgmActive].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.Label {
			labels[l.GetName()] = l.GetValue()
		}
		of := active[labels["UUID"]]
		known = known || of != nil
		id, err := strconv.Atoi(labels["GPU_I_ID"])
		if v := valueOf(m); of != nil && err == nil && v >= 0 && v <= 1 {
			of[id] = v
		}
	}
	if !known {
		return nil, fmt.Errorf("it has no %s of a GPU of this node", dcgmActive)
	}
	return active, nil
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Untyped != nil:
		return m.Untyped.GetValue()
	}
	return math.NaN()
}

// staleDCGM bounds the age of a page that counts.
const staleDCGM = time.Minute

func (d *dcgm) Read(ctx context.Context, device int, group telemetry.Groups, r *telemetry.Reading) error {
	err := d.Reader.Read(ctx, device, group, r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if group != telemetry.GroupGPM || time.Since(d.at) > staleDCGM {
		return err
	}
	for i := range r.Instances {
		in := &r.Instances[i]
		v, ok := d.active[d.uuids[device]][in.ID]
		if _, has := in.Get(telemetry.MetricGraphicsUtilPercent); ok && !has {
			in.Set(telemetry.MetricGraphicsUtilPercent, 100*v)
		}
	}
	return err
}

// state returns whether the page can be used.
func (d *dcgm) state() sharing.Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answer
}
