// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	exact, hdr := newExactHistogram(), newHistogram()
	var all []time.Duration
	for range 5000 {
		d := time.Duration(rng.ExpFloat64() * 20e6)
		all = append(all, d)
		exact.record(d)
		hdr.record(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.0001, 0.5, 0.9, 0.95, 0.99, 0.999, 1} {
		want := all[int(math.Ceil(q*5000))-1]
		if got, ok := exact.Quantile(q); !ok || got != want {
			t.Errorf("exact %v: %v, want %v", q, got, want)
		}
		got, _ := hdr.Quantile(q)
		if diff := math.Abs(float64(got - want)); diff > 1e-3*float64(want)+1000 {
			t.Errorf("hdr %v: %v, want %v", q, got, want)
		}
	}
	if exact.Figures().Method != "exact" || hdr.Figures().Method != "hdr" || exact.Figures().Max != hdr.Figures().Max {
		t.Errorf("%+v, %+v", exact.Figures(), hdr.Figures())
	}
	hdr.record(math.MaxInt64)
	if f := hdr.Figures(); f.Count != 5001 || f.Max != millis(math.MaxInt64) {
		t.Errorf("after one beyond the range: %+v", f)
	}
	if _, ok := newHistogram().Quantile(0.5); ok {
		t.Error("an empty histogram has a quantile")
	}
}

// TestHistogramMerge: merged parts equal the whole, also after encoding.
func TestHistogramMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	whole, merged := newHistogram(), newHistogram()
	for range 4 {
		part := newHistogram()
		for range 1000 {
			d := time.Duration(rng.Int64N(int64(2 * time.Hour)))
			part.record(d)
			whole.record(d)
		}
		e, err := part.encode()
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back encodedHistogram
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		h, err := back.decode()
		if err != nil {
			t.Fatal(err)
		}
		merged.merge(h)
	}
	w, m := whole.Figures(), merged.Figures()
	if math.Abs(float64(w.Mean-m.Mean)) > 1e-6 {
		t.Errorf("mean %v, %v", w.Mean, m.Mean)
	}
	if w.Mean, m.Mean = 0, 0; w != m {
		t.Errorf("%+v, want %+v", m, w)
	}
}

func TestNoFigures(t *testing.T) {
	if b, err := json.Marshal(Figures{}); err != nil || string(b) != `{"count":0}` {
		t.Errorf("%s, %v", b, err)
	}
}

func FuzzHistogramDecode(f *testing.F) {
	h := newHistogram()
	h.recordN(time.Millisecond, 7)
	e, err := h.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(e.Count, e.SumNS, e.MaxNS, e.HDR)
	f.Add(int64(1), 0.0, int64(0), "!!")
	f.Fuzz(func(t *testing.T, count int64, sum float64, top int64, hdr string) {
		h, err := encodedHistogram{count, sum, top, hdr}.decode()
		if (h == nil) == (err == nil) {
			t.Fatalf("value %v and error %v", h, err)
		}
		if err != nil {
			if !errors.Is(err, errHistogram) {
				t.Errorf("untyped error %v", err)
			}
			return
		}
		if h.Count() != count {
			t.Errorf("count %d, want %d", h.Count(), count)
		}
	})
}

func TestSketch(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 63, 64, 1000, 20 * time.Millisecond, time.Hour, 100 * time.Hour} {
		got := sketchValue(sketchBucket(d))
		if diff := math.Abs(float64(got - d)); diff > 0.02*float64(d)+1 {
			t.Errorf("%v comes back as %v", d, got)
		}
	}
}

func BenchmarkHistogramRecord(b *testing.B) {
	h := newHistogram()
	for b.Loop() {
		h.record(20 * time.Millisecond)
	}
}
