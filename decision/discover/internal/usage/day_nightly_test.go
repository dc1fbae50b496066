//go:build nightly

package usage

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cotenant/cotenant/internal/race"
)

// TestDayOf200GPUs reads a day of 200 GPUs at 15 s, five metrics of 1.15
// million samples and more, within 10 seconds and 500 MB.
func TestDayOf200GPUs(t *testing.T) {
	if race.Enabled || testing.Short() {
		t.Skip("a matter of speed")
	}
	c := newCluster(200, 24*time.Hour, 7)
	var peak atomic.Uint64
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapSys+m.StackSys+m.OtherSys+m.GCSys))
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	// What is read is written beforehand, a metric at a time, so that the time
	// is the reader's.
	r := New()
	var took time.Duration
	var size, samples int64
	for f := FigureGPUUtil; f < figureEnd; f++ {
		var text bytes.Buffer
		if err := c.write(&text, f, noon); err != nil {
			t.Fatal(err)
		}
		size += int64(text.Len())
		before := cpuTime() // beside other tests the clock would measure those
		if err := r.JSON(dcgmNames[f]+".json", &text); err != nil {
			t.Fatal(err)
		}
		took += cpuTime() - before
	}
	before := cpuTime()
	u := r.Usage()
	took += cpuTime() - before
	close(done)
	<-watched
	for _, s := range u.Sources {
		samples += s.Samples
	}
	t.Logf("%d samples, %d MiB of JSON in %v of CPU time with at most %d MiB (the text of one metric among them)", samples, size>>20, took, peak.Load()>>20)
	if samples < 5*1_150_000 || took > 10*time.Second || peak.Load() > 500e6 {
		t.Errorf("%d samples took %v and %d MB", samples, took, peak.Load()/1e6)
	}
}
