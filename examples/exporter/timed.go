package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cotenant/cotenant/telemetry"
)

// timed is a reader that keeps a histogram of how long readings take.
type timed struct {
	telemetry.Reader
	seconds *prometheus.HistogramVec
}

func newTimed(r telemetry.Reader) *timed {
	var m metric
	for _, m = range metrics {
		if m.name == mReadSeconds {
			break
		}
	}
	return &timed{r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: m.name, Help: m.help, Buckets: []float64{1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1}, // for scrapers without native histograms
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}, m.labels)}
}

func (t *timed) Read(ctx context.Context, device int, group telemetry.Groups, r *telemetry.Reading) error {
	begun := time.Now()
	err := t.Reader.Read(ctx, device, group, r)
	t.seconds.WithLabelValues(group.String()).Observe(time.Since(begun).Seconds())
	return err
}
