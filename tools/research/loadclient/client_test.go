// SPDX-License-Identifier: Apache-2.0

//go:build linux

package loadclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cotenant/cotenant/loadgen"
)

// perfLoad is what a client of the benchmarks is asked to do.
type perfLoad struct {
	URL      string
	Streams  int
	Requests int
	Ramp     time.Duration
	PerS     float64 // open loop instead of Streams
}

// perfReport is what a client process says of itself. Times in ms.
type perfReport struct {
	Streams, Events      int64
	WallS, CPUS          float64
	RSSMB                float64
	TTFTP50, TTFTP99     float64
	GapP50, GapP99       float64
	SendP50, SendP99     float64
	PacingP50, PacingP99 float64
	RatePerS             float64
	ReadLagP99, MergedPC float64
}

func (r *perfReport) finish(start time.Time) error {
	r.WallS = time.Since(start).Seconds()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err == nil {
		r.CPUS = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
		r.RSSMB = float64(u.Maxrss) / 1024
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

const perfBody = `{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":100,"stream":true,"stream_options":{"include_usage":true}}`

// perfMinimal is the yardstick: net/http, one goroutine a stream, a byte scan.
func perfMinimal(l perfLoad) error {
	start := time.Now()
	var left, events, streams atomic.Int64
	left.Store(int64(l.Requests))
	tr := &http.Transport{MaxIdleConnsPerHost: l.Streams, DisableCompression: true}
	client := &http.Client{Transport: tr}
	var mu sync.Mutex
	var ttft, gaps []float64
	var wg sync.WaitGroup
	key := []byte(`"content":"`)
	for u := range l.Streams {
		wg.Go(func() {
			time.Sleep(l.Ramp * time.Duration(u) / time.Duration(l.Streams))
			buf := make([]byte, 4096)
			at := make([]time.Time, 0, 128)
			for left.Add(-1) >= 0 {
				at = at[:0]
				sent := time.Now()
				resp, err := client.Post(l.URL+"/v1/chat/completions", "application/json", strings.NewReader(perfBody))
				if err != nil {
					continue
				}
				for {
					n, err := resp.Body.Read(buf)
					if n > 0 {
						now := time.Now()
						for range bytes.Count(buf[:n], key) {
							at = append(at, now)
						}
					}
					if err != nil {
						break
					}
				}
				resp.Body.Close()
				events.Add(int64(len(at)))
				streams.Add(1)
				mu.Lock()
				if len(at) > 0 {
					ttft = append(ttft, at[0].Sub(sent).Seconds()*1e3)
				}
				for i := 1; i < len(at); i++ {
					gaps = append(gaps, at[i].Sub(at[i-1]).Seconds()*1e3)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	r := perfReport{Streams: streams.Load(), Events: events.Load()}
	r.TTFTP50, r.TTFTP99, _ = perfPercentiles(ttft)
	r.GapP50, r.GapP99, _ = perfPercentiles(gaps)
	return r.finish(start)
}

// perfOurs is a whole run of package loadgen, artifacts included.
func perfOurs(l perfLoad) error {
	start := time.Now()
	dir, err := os.MkdirTemp("", "loadgen-perf-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := loadgen.Tenant{
		Name: "t", Model: "m", Endpoints: []loadgen.Endpoint{{URL: l.URL}}, Prompts: loadgen.Texts("hello"), MaxTokens: 100, Requests: l.Requests,
		Load: loadgen.OfferedLoad{Concurrency: l.Streams, Ramp: l.Ramp},
	}
	if l.PerS > 0 {
		t.Load = loadgen.OfferedLoad{Schedule: loadgen.Constant(l.PerS)}
	}
	// The whole run counts, ramp included, as it does for the yardstick.
	res, err := loadgen.Run(context.Background(), loadgen.LoadPlan{Tenants: []loadgen.Tenant{t}, Window: loadgen.Window{From: 1}}, loadgen.Options{Dir: filepath.Join(dir, "run")})
	if err != nil {
		return err
	}
	s := &res.Summary
	r := perfReport{
		Streams: s.Counts.OK, Events: s.OutputTokens, TTFTP50: float64(s.TTFT.P50), TTFTP99: float64(s.TTFT.P99),
		GapP50: float64(s.ChunkGap.P50), GapP99: float64(s.ChunkGap.P99), SendP50: float64(s.ClientHealth.SendLag.P50),
		SendP99: float64(s.ClientHealth.SendLag.P99), PacingP50: float64(s.ClientHealth.PacingLag.P50), PacingP99: float64(s.ClientHealth.PacingLag.P99), RatePerS: s.OfferedPerS,
		ReadLagP99: float64(s.ClientHealth.ReadLag.P99),
	}
	if s.ClientHealth.Reads > 0 {
		r.MergedPC = 100 * float64(s.ClientHealth.MergedReads) / float64(s.ClientHealth.Reads)
	}
	if l.PerS > 0 {
		r.RatePerS = perfRate(res.Dir)
	}
	return r.finish(start)
}

// perfRate is the rate at which requests were really sent.
func perfRate(dir string) float64 {
	data, err := os.ReadFile(filepath.Join(dir, loadgen.ArtifactRequests))
	if err != nil {
		return 0
	}
	var first, last, n int64
	for line := range bytes.Lines(data) {
		var rec loadgen.Record
		if json.Unmarshal(line, &rec) != nil {
			continue
		}
		if first == 0 || rec.SentNS < first {
			first = rec.SentNS
		}
		last = max(last, rec.SentNS)
		n++
	}
	if last == first {
		return 0
	}
	return float64(n-1) / (float64(last-first) / 1e9)
}

// perfRole runs this process as one side of a benchmark.
func perfRole(role string) error {
	core, err := strconv.Atoi(os.Getenv("LOADGEN_PERF_CORE"))
	if err != nil {
		return err
	}
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return err
	}
	arg := []byte(os.Getenv("LOADGEN_PERF_ARG"))
	if role == "server" {
		var script perfScript
		if err := json.Unmarshal(arg, &script); err != nil {
			return err
		}
		return perfServe(script)
	}
	var l perfLoad
	if err := json.Unmarshal(arg, &l); err != nil {
		return err
	}
	switch role {
	case "minimal":
		return perfMinimal(l)
	case "ours":
		return perfOurs(l)
	}
	return fmt.Errorf("unknown role %q: %w", role, io.ErrUnexpectedEOF)
}
