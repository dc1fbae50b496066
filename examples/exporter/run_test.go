// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.etcd.io/bbolt"

	pages "github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
)

// Metrics that tests look at.
const (
	mSeconds      = "cotenant_gpu_seconds_total"
	mCost         = "cotenant_gpu_cost_micros_total"
	mTotalSeconds = "cotenant_gpu_account_seconds_total"
	mObserved     = "cotenant_gpu_observed_seconds_total"
	mStoreErrors  = "cotenant_exporter_store_errors_total"
)

var update = flag.Bool("update", false, "rewrite the files that are made from the list of metrics")

// asExporter in the environment makes this binary the exporter, to be killed.
const asExporter = "COTENANT_TEST_EXPORTER"

func TestMain(m *testing.M) {
	if args := os.Getenv(asExporter); args != "" {
		if n, err := strconv.Atoi(os.Getenv("COTENANT_TEST_CROWD")); err == nil {
			addPods(n)
		}
		os.Args = append(os.Args[:1], strings.Split(args, " ")...)
		main()
	}
	os.Exit(m.Run())
}

// page is a scrape: values by metric and labels.
type page map[string]float64

func scrape(url string) (page, error) {
	r, err := http.Get(url + "/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(r.Body)
	if err != nil {
		return nil, err
	}
	out := page{}
	for name, f := range families {
		for _, m := range f.Metric {
			key := name
			for _, l := range m.Label {
				key += fmt.Sprintf(" %s=%q", l.GetName(), l.GetValue())
			}
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				out[key] = m.Counter.GetValue()
			case dto.MetricType_GAUGE:
				out[key] = m.Gauge.GetValue()
			}
		}
	}
	return out, nil
}

// sums adds a metric up by its label gpu.
func (p page) sums(name string) map[string]float64 {
	out := map[string]float64{}
	for k, v := range p {
		if strings.HasPrefix(k, name+" ") {
			_, rest, _ := strings.Cut(k, `gpu="`)
			gpu, _, _ := strings.Cut(rest, `"`)
			out[gpu] += v
		}
	}
	return out
}

// holds checks that every GPU's accounts are the time observed, and that no counter went back since before.
func (p page) holds(before page) error {
	observed := p.sums(mObserved)
	if len(observed) != simGPUs {
		return fmt.Errorf("%d GPUs", len(observed))
	}
	for _, name := range []string{mSeconds, mTotalSeconds} {
		for gpu, sum := range p.sums(name) {
			if math.Abs(sum-observed[gpu]) > 1e-6 {
				return fmt.Errorf("%s of %s: %v of %v observed", name, gpu, sum, observed[gpu])
			}
		}
	}
	for k, v := range before {
		if now, ok := p[k]; strings.HasPrefix(k, "cotenant_gpu_") && strings.Contains(k, "_total ") && (!ok || now < v) {
			return fmt.Errorf("%s went from %v to %v, %v", k, v, now, ok)
		}
	}
	return nil
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func eventually(t *testing.T, name string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", name, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestKilled kills the program at odd moments while it is scraped: no counter
// goes back and all sums hold, in time that went on meanwhile.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts programs")
	}
	prices := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(prices, []byte("default: 3.25 USD\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address, state := freePort(t), t.TempDir()
	begun := time.Now()
	var last page
	for i, life := range []time.Duration{1730 * time.Millisecond, 911 * time.Millisecond, 1300 * time.Millisecond} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), asExporter+"=-simulate -speed 600 -scrape-interval 0s -node n1 -listen "+address+" -state "+state+" -prices "+prices)
		var log bytes.Buffer
		cmd.Stderr = &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it answers", func() error { _, err := scrape("http://" + address); return err })
		end := time.Now().Add(life)
		for time.Now().Before(end) {
			p, err := scrape("http://" + address)
			if err != nil {
				t.Fatal(err, log.String())
			}
			if err := p.holds(last); err != nil && len(p.sums(mObserved)) == simGPUs {
				t.Fatal(err)
			}
			if len(p.sums(mObserved)) == simGPUs {
				last = p
			}
			time.Sleep(100 * time.Millisecond)
		}
		stop := syscall.SIGKILL
		if i == 2 {
			stop = syscall.SIGTERM
		}
		_ = cmd.Process.Signal(stop)
		if err := cmd.Wait(); i == 2 && err != nil {
			t.Errorf("a graceful stop: %v\n%s", err, log.String())
		}
	}
	wall := 600 * time.Since(begun).Seconds()
	for gpu, s := range last.sums(mObserved) {
		if s > wall || s < wall/2 {
			t.Errorf("%s was observed for %v s of %v", gpu, s, wall)
		}
	}
	for gpu, micros := range last.sums(mCost) {
		if want := last.sums(mObserved)[gpu] / 3600 * 3.25e6; math.Abs(micros-want) > 1 {
			t.Errorf("%s: %v millionths, want %v", gpu, micros, want)
		}
	}
}

// started is an exporter on the simulated node, in this process.
func started(t *testing.T, state string) (*exporter, string) {
	t.Helper()
	c, err := parse([]string{"-simulate", "-speed", "600", "-scrape-interval", "0s", "-node", "n1", "-state", state}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	e, err := open(c, prices{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.serveOn(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !strings.Contains(err.Error(), "no space") {
			t.Error(err)
		}
		if err := e.closeAll(); err != nil {
			t.Error(err)
		}
	})
	url := "http://" + l.Addr().String()
	eventually(t, "all GPUs are there", func() error {
		p, err := scrape(url)
		if err != nil {
			return err
		}
		return p.holds(nil)
	})
	return e, url
}

// TestAFullDisk: accounts that cannot be stored are not shown, and nothing is lost.
func TestAFullDisk(t *testing.T) {
	e, url := started(t, t.TempDir())
	full := func(func(*bbolt.Tx) error) error { return errors.New("no space left on device") }
	e.mu.Lock()
	works := e.store.update
	e.store.update = full
	e.mu.Unlock()
	before, err := scrape(url)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the error is counted", func() error {
		p, err := scrape(url)
		if err == nil && p[mStoreErrors+` node="n1"`] < 3 {
			err = errors.New("not yet")
		}
		return err
	})
	p, err := scrape(url)
	if err != nil {
		t.Fatal(err)
	}
	for gpu, s := range p.sums(mObserved) {
		if s != before.sums(mObserved)[gpu] {
			t.Errorf("%s: an amount that was not stored is shown", gpu)
		}
	}
	if r, err := http.Get(url + "/healthz"); err != nil || r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/healthz: %v, %v", r, err)
	}
	if r, err := http.Get(url + "/livez"); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("/livez: %v, %v", r, err)
	}
	e.mu.Lock() // as a commit does while it stores
	e.store.update = works
	impatient := http.Client{Timeout: 10 * time.Second}
	if r, err := impatient.Get(url + "/livez"); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("/livez while the accounts are being stored: %v, %v", r, err)
	}
	e.mu.Unlock()
	eventually(t, "it goes on", func() error {
		p, err := scrape(url)
		if err != nil {
			return err
		}
		for gpu, s := range p.sums(mObserved) {
			if s <= before.sums(mObserved)[gpu] {
				return fmt.Errorf("%s: %v", gpu, s)
			}
		}
		return p.holds(before)
	})
}

// TestScrapedAllTheTime: four scrapers without a pause.
func TestScrapedAllTheTime(t *testing.T) {
	_, url := started(t, t.TempDir())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var last page
			for range 15 {
				p, err := scrape(url)
				if err == nil {
					err = p.holds(last)
				}
				if err != nil {
					t.Error(err)
					return
				}
				last = p
			}
		})
	}
	wg.Wait()
}

// TestLint holds the metrics against Prometheus' conventions and the list.
func TestLint(t *testing.T) {
	e, url := started(t, "")
	problems, err := testutil.GatherAndLint(prometheus.Gatherers{gatherer(e.col), e.reg}) // and no series twice
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	p, err := scrape(url)
	if err != nil {
		t.Fatal(err)
	}
	for k := range p {
		name, _, _ := strings.Cut(k, " ")
		if strings.HasPrefix(name, "cotenant_") && !known(name) {
			t.Errorf("%s is not in the list of metrics", name)
		}
	}
}

// known reports that the exporter, or the page of a model server, has a metric.
func known(name string) bool {
	engine, _, _ := strings.Cut(name, ":")
	return engine == "vllm" || engine == "sglang" || slices.ContainsFunc(metrics, func(m metric) bool { return m.name == name })
}

func TestHostileNames(t *testing.T) {
	a := ledger.New(ledger.Options{Clock: ledger.Clock{Name: "test", Now: func() time.Duration { return 0 }}})
	c := newCollector(a, sharing.BasisMeasured, time.Second, "n", "test")
	evil := container.Pod{Namespace: "a\nb\"}", Name: strings.Repeat("x", 5000), Container: "\xff\x00"}.Clean()
	c.shown.Store(&view{View: ledger.View{Rows: []ledger.Row{{Key: ledger.Key{GPU: "GPU-1", Pod: evil}, Amount: ledger.Amount{Time: time.Second}}}}})
	if n, err := testutil.GatherAndCount(gatherer(c), mSeconds); err != nil || n != 1 {
		t.Errorf("%d series, %v", n, err)
	}
	if v := metricOf(mSeconds).pairs("\x1b[2J\u202e\u200b")[0].GetValue(); v != `\u001b[2J\u202e\u200b` {
		t.Errorf("%q", v)
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "prices.yaml")
	if err := os.WriteFile(bad, []byte("default: 3 USD\nH100: -1 EUR\nA100: 1 EUR\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	two := filepath.Join(dir, "two.yaml")
	if err := os.WriteFile(two, []byte("default: 3 USD\n---\ndefault: 4 USD\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	three := filepath.Join(dir, "three.yaml")
	if err := os.WriteFile(three, []byte("default: three\nA100: -3 USD\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := readPrices(three)
	for _, want := range []string{three + ": default: cost: \"three\" is not an amount", "A100: -3.00 USD an hour (use 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(three, []byte("default: 3\nnames: {H100: 1 USD}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = readPrices(three)
	for _, want := range []string{"line 2: cannot unmarshal"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	e, err := open(&config{simulate: true, speed: 5, state: other, period: time.Second}, prices{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.commit(), e.closeAll()); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		args []string
		code int
	}{
		"-real":                    {nil, pages.ExitBadInput},
		"one of them":              {[]string{"-real", "-simulate"}, pages.ExitBadInput},
		"-speed is for":            {[]string{"-real", "-speed", "3"}, pages.ExitBadInput},
		"-speed: 0":                {[]string{"-simulate", "-speed", "0"}, pages.ExitBadInput},
		"-period: 1ms":             {[]string{"-simulate", "-period", "1ms"}, pages.ExitBadInput},
		"-listen":                  {[]string{"-simulate", "-listen", "9400"}, pages.ExitBadInput},
		"unexpected":               {[]string{"-simulate", "x"}, pages.ExitBadInput},
		"flag provided":            {[]string{"-simulated"}, pages.ExitBadInput},
		"one currency":             {[]string{"-simulate", "-prices", bad}, pages.ExitBadInput},
		"more than one document":   {[]string{"-simulate", "-prices", two}, pages.ExitBadInput},
		"no such file":             {[]string{"-simulate", "-prices", bad + "x"}, pages.ExitBadInput},
		"-web-config":              {[]string{"-simulate", "-web-config", bad}, pages.ExitBadInput},
		"/nonexistent.so: ":        {[]string{"-real", "-nvml", "/nonexistent.so"}, pages.ExitCannot},
		"another source or -speed": {[]string{"-simulate", "-state", other}, pages.ExitCannot},
		"-state":                   {[]string{"-simulate", "-state", filepath.Join(bad, "x")}, pages.ExitCannot},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), c.args, &out, &errs); code != c.code || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit %d, %s", want, code, errs.String())
		}
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, &out, &errs); code != pages.ExitDone || !strings.Contains(out.String(), "-simulate") || errs.Len() > 0 {
		t.Errorf("-h: %d, %s", code, errs.String())
	}
	for line := range strings.Lines(out.String()) {
		if len(strings.TrimSpace(line)) > 100 {
			t.Errorf("%q is too long", line)
		}
	}
}

func TestTwoOnOneState(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if _, err := openStore(dir); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Error(err)
	}
}

// TestABrokenState: files that are cut off or scrambled are refused with a remedy, and one that is removed while the
// program runs is noticed.
func TestABrokenState(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "ledger.db")
	s, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		s.put(ledger.Record{Name: fmt.Sprint("row ", i), Value: bytes.Repeat([]byte("x"), 100)})
	}
	if err := errors.Join(s.commit(), s.close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	breaks := map[string][]byte{"empty": nil, "noise": bytes.Repeat([]byte("noise "), 10_000)}
	for _, n := range []int{100, 5000, 20_000, len(whole) / 2} {
		breaks[fmt.Sprintf("the first %d of %d bytes", n, len(whole))] = whole[:n]
	}
	for at := 0; at < len(whole); at += 4096 {
		b := bytes.Clone(whole)
		copy(b[at:at+4096], bytes.Repeat([]byte{0xa5}, 4096))
		breaks[fmt.Sprintf("the page at %d", at)] = b
	}
	refused := 0
	for name, b := range breaks {
		if err := errors.Join(os.Remove(file), os.WriteFile(file, b, 0o600)); err != nil {
			t.Fatal(err)
		}
		s, err := openStore(dir)
		if err == nil {
			_, err = s.all()
			if err := s.close(); err != nil {
				t.Error(name, err)
			}
		}
		if err != nil && !strings.Contains(err.Error(), "move it away") {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			refused++
		}
		if len(b) == 0 && err == nil {
			t.Errorf("%s: it began anew", name)
		}
	}
	if refused < len(breaks)/2 {
		t.Errorf("%d of %d broken files were refused", refused, len(breaks))
	}
	dir = t.TempDir()
	if s, err = openStore(dir); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.put(ledger.Record{Name: "row 1", Value: []byte("{}")})
	if err := os.Rename(filepath.Join(dir, "ledger.db"), filepath.Join(dir, "old.db")); err != nil {
		t.Fatal(err)
	}
	if err := s.commit(); err == nil || !strings.Contains(err.Error(), "taken away") || len(s.pending) != 1 {
		t.Errorf("%v, %d pending", err, len(s.pending))
	}
	if err := os.Rename(filepath.Join(dir, "old.db"), filepath.Join(dir, "ledger.db")); err != nil {
		t.Fatal(err)
	}
	if err := s.commit(); err != nil {
		t.Error(err)
	}
}

// TestSlowReaders opens connections that ask for a page and do not read: the page
// is rendered once for each commit, and a scrape is answered meanwhile.
func TestSlowReaders(t *testing.T) {
	slowReaders(t, 40)
}

func slowReaders(t *testing.T, n int) {
	_, url := started(t, "")
	stop := holdReaders(t, strings.TrimPrefix(url, "http://"), n)
	defer stop()
	for range 5 {
		if _, err := scrape(url); err != nil {
			t.Error(err)
		}
	}
	renders := 0
	at := int64(7)
	p := newShared(func(w io.Writer, f expfmt.Format) error {
		renders++
		_, err := fmt.Fprint(w, f)
		return err
	}, func() int64 { return at })
	for range 100 {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Fatal(w.Code, w.Body.String())
		}
	}
	at++
	p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if renders != 2 {
		t.Errorf("%d renders of two commits", renders)
	}
}

// holdReaders opens connections that ask for the page and read nothing of it.
func holdReaders(t *testing.T, address string, n int) (stop func()) {
	t.Helper()
	var conns []net.Conn
	for range n {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).SetReadBuffer(1 << 10)
		fmt.Fprint(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
		conns = append(conns, c)
	}
	return func() {
		for _, c := range conns {
			c.Close()
		}
	}
}

// TestLimited refuses requests beyond those in flight.
func TestLimited(t *testing.T) {
	enter, leave := make(chan bool), make(chan bool)
	h := limited(1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { enter <- true; <-leave }))
	go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	<-enter
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Error(w.Code)
	}
	leave <- true
}

// TestIdleConnections: three thousand clients that ask for nothing hold no scrape up.
func TestIdleConnections(t *testing.T) {
	_, url := started(t, "")
	for range 3000 {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Skip(err) // of open files
		}
		defer c.Close()
	}
	begun := time.Now()
	if _, err := scrape(url); err != nil || time.Since(begun) > 2*time.Second {
		t.Errorf("a scrape takes %v: %v", time.Since(begun), err)
	}
}
