package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"

	pages "github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	stdout, done := pages.Check("exporter", stdout, stderr)
	defer done(&code)
	c, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return fail(stderr, err, exitUsage)
	case c.print != "":
		if err := printed[c.print](stdout); err != nil {
			return fail(stderr, err, exitFailed)
		}
		return exitOK
	}
	prices, err := readPrices(c.prices)
	if err != nil {
		return fail(stderr, err, exitUsage)
	}
	if c.webConfig != "" {
		if err := web.Validate(c.webConfig); err != nil {
			return fail(stderr, fmt.Errorf("-web-config: %w", err), exitUsage)
		}
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	e, err := open(c, prices, log)
	if err != nil {
		return fail(stderr, err, exitFailed)
	}
	err = e.serve(ctx, c.listen)
	if err := errors.Join(err, e.closeAll()); err != nil {
		return fail(stderr, err, exitFailed)
	}
	return exitOK
}

// exporter is the program with its parts.
type exporter struct {
	c       *config
	log     *slog.Logger
	reader  telemetry.Reader
	sampler *telemetry.Sampler
	a       *accountant
	store   *store
	col     *collector
	reg     *prometheus.Registry
	start   time.Time // of the simulated node
	fast    time.Duration
	closers []func() error

	mu      sync.Mutex // of committing
	failed  string     // why the last attempt to store failed
	next    *view      // to be shown once it is stored; nil when all is shown
	expired int        // series so far
}

// meta are the records of the state that are not the ledger's.
const (
	metaSpeed  = "meta speed"
	metaStart  = "meta start"
	metaEnergy = "energy "
)

func open(c *config, p prices, log *slog.Logger) (_ *exporter, err error) {
	e := &exporter{c: c, log: log, reg: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.closeAll())
		}
	}()
	if e.store, err = openStore(c.state); err != nil {
		return nil, err
	}
	e.closers = append(e.closers, e.store.close)
	records, err := e.store.all()
	if err != nil {
		return nil, fmt.Errorf("-state: %w", err)
	}
	m, err := e.meta(records)
	if err != nil {
		return nil, err
	}
	h := &holders{log: log}
	a := &accountant{holders: h, prices: p, log: log, counters: m.counters, changed: map[string]float64{}}
	e.a = a
	if err := e.source(); err != nil {
		return nil, err
	}
	book, err := ledger.Restore(ledger.Options{Clock: a.clock.name}, func(yield func(ledger.Record) bool) {
		for _, r := range m.kept {
			if !yield(r) {
				return
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("-state: %w", err)
	}
	a.book = book
	if a.servers, err = newServers(c.serving, log); err != nil {
		return nil, err
	}
	if err := a.servers.objects(c.objectives); err != nil {
		return nil, err
	}
	a.servers.restore(m.tokens)
	fast, slow := periods(c.period, c.speed)
	e.fast = fast
	a.fast, a.slow = time.Duration(float64(fast)*c.speed), time.Duration(float64(slow)*c.speed)
	timed := newTimed(e.reader, a.wantsGPM)
	sampling := log
	if c.simulate { // at speed, ticks are missed often
		sampling = nil
	}
	e.sampler, err = telemetry.NewSampler(timed, telemetry.SamplerOptions{Period: fast, SlowPeriod: slow, Skip: telemetry.GroupPCIe, Logger: sampling})
	if err != nil {
		return nil, err
	}
	e.col = newCollector(a, c.node, e.reader.Info().Name)
	e.reg.MustRegister(e.col, timed.seconds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	e.col.shown.Store(a.view())
	return e, nil
}

// stored is the state of another run.
type stored struct {
	kept     []ledger.Record // the ledger's
	counters map[string]float64
	tokens   map[string]tokens
}

// meta takes the records that are not the ledger's: the speed of a simulation
// and when it began, the energy counters and the tokens.
func (e *exporter) meta(records []ledger.Record) (m stored, err error) {
	speed := "real"
	if e.c.simulate {
		speed = strconv.FormatFloat(e.c.speed, 'g', -1, 64)
	}
	e.start = time.Now()
	m = stored{counters: map[string]float64{}, tokens: map[string]tokens{}}
	for _, r := range records {
		switch {
		case r.Name == metaSpeed:
			if string(r.Value) != speed {
				return m, fmt.Errorf("-state: %s holds the accounts of another source or -speed (%s, now %s): name another folder", e.c.state, r.Value, speed)
			}
		case r.Name == metaStart:
			if e.start, err = time.Parse(time.RFC3339Nano, string(r.Value)); err != nil {
				return m, fmt.Errorf("-state: %w", err)
			}
		case len(r.Name) > len(metaEnergy) && r.Name[:len(metaEnergy)] == metaEnergy:
			v, err := strconv.ParseFloat(string(r.Value), 64)
			if err != nil {
				return m, fmt.Errorf("-state: %s: %w", r.Name, err)
			}
			m.counters[r.Name[len(metaEnergy):]] = v
		case strings.HasPrefix(r.Name, metaTokens):
			if m.tokens[r.Name], err = parseTokens(r); err != nil {
				return m, fmt.Errorf("-state: %w", err)
			}
		default:
			m.kept = append(m.kept, r)
		}
	}
	e.store.put(ledger.Record{Name: metaSpeed, Value: []byte(speed)}, ledger.Record{Name: metaStart, Value: []byte(e.start.Format(time.RFC3339Nano))})
	return m, nil
}

// source opens what is read: NVML, or the simulated node.
func (e *exporter) source() error {
	a := e.a
	if e.c.simulate {
		a.clock = scaledClock(e.start, e.c.speed)
		n := &simNode{now: a.clock.now}
		e.reader, a.basis = n, sharing.BasisSimulated
		a.resolver, a.holders.alloc, a.holders.mps = container.NewResolver(n), n, n
		return nil
	}
	var root fs.FS = os.DirFS(e.c.root)
	a.basis, a.clock, a.resolver = sharing.BasisMeasured, bootClock(root), container.NewResolver(root)
	r, err := telemetrynvml.Open(telemetrynvml.Options{LibraryPath: e.c.nvml, LoadOnly: true, AllSamples: true})
	if err != nil {
		return fmt.Errorf("%w\nwith -simulate a made-up node is shown", err)
	}
	e.reader = r
	e.closers = append(e.closers, r.Close)
	if e.c.kubelet != "" {
		k, err := newKubelet(e.c.kubelet)
		if err != nil {
			return err
		}
		a.holders.alloc = k
		e.closers = append(e.closers, k.conn.Close)
	}
	if e.c.mpsPipe != "" {
		client, err := mps.NewClient(mps.Options{PipeDirectory: e.c.mpsPipe, Timeout: 2 * time.Second, Logger: e.log})
		if err != nil {
			return fmt.Errorf("-mps: %w", err)
		}
		a.holders.mps = client
	}
	return nil
}

func (e *exporter) closeAll() error {
	var errs []error
	for i := len(e.closers) - 1; i >= 0; i-- {
		errs = append(errs, e.closers[i]())
	}
	e.closers = nil
	return errors.Join(errs...)
}

// serve samples and serves until ctx ends.
func (e *exporter) serve(ctx context.Context, address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	return e.serveOn(ctx, l)
}

func (e *exporter) serveOn(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	srv := &http.Server{Handler: e.handler(), ReadHeaderTimeout: 5 * time.Second}
	none := false
	flags := &web.FlagConfig{WebListenAddresses: &[]string{l.Addr().String()}, WebSystemdSocket: &none, WebConfigFile: &e.c.webConfig}
	var wg sync.WaitGroup
	errs := make(chan error, 2)
	wg.Go(func() {
		if err := web.Serve(l, srv, flags, e.log); !errors.Is(err, http.ErrServerClosed) {
			errs <- err
			cancel()
		}
	})
	wg.Go(func() { e.a.holders.watch(ctx, slowTicks*e.fast) })
	wg.Go(func() { e.a.servers.watch(ctx, slowTicks*e.fast/2) })
	wg.Go(func() { e.commits(ctx) })
	err := e.sampler.Stream(ctx, e.a)
	cancel()
	stopping, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	err = errors.Join(err, srv.Shutdown(stopping))
	wg.Wait()
	e.a.finish()
	err = errors.Join(err, e.commit())
	select {
	case serr := <-errs:
		err = errors.Join(err, serr)
	default:
	}
	return err
}

// commits stores what was posted, and then shows it, with every cheap reading.
func (e *exporter) commits(ctx context.Context) {
	ticker := time.NewTicker(max(e.fast, 100*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		e.a.tick()
		_ = e.commit() // it is tried again; /healthz and a counter say so
	}
}

// commit stores what has changed and then shows it. What fails stays pending.
func (e *exporter) commit() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	expired, records, v, err := e.a.changes()
	e.store.put(records...)
	e.expired += expired
	if v != nil {
		e.next = v
	}
	if err == nil {
		err = e.store.commit()
	}
	if err != nil {
		e.col.storeErrors.Add(1)
		if e.failed != err.Error() {
			e.log.Error("the accounts cannot be stored; what is shown stays as it is", "err", err)
		}
		e.failed = err.Error()
		return fmt.Errorf("store the accounts: %w", err)
	}
	e.failed = ""
	if e.next != nil {
		e.next.at, e.next.expired = time.Now(), e.expired
		e.col.shown.Store(e.next)
		e.next = nil
	}
	return nil
}

// changes ends the rows of pods that are long gone and returns what is to be
// stored, and what may be shown then; nil when nothing has changed.
func (a *accountant) changes() (expired int, records []ledger.Record, v *view, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	expired = len(a.book.Expire())
	records, err = a.book.Changed()
	if err == nil {
		a.book.Stored()
	}
	for gpu, joules := range a.changed {
		records = append(records, ledger.Record{Name: metaEnergy + gpu, Value: strconv.AppendFloat(nil, joules, 'g', -1, 64)})
	}
	clear(a.changed)
	records = append(records, a.servers.changes()...)
	if len(records) == 0 {
		return expired, nil, nil, err
	}
	return expired, records, a.view(), err
}

// view is what may be shown once the last changes are stored.
func (a *accountant) view() *view {
	return &view{rows: a.book.Rows(), totals: a.book.Totals(), observed: a.book.GPUs(), tokens: a.servers.totals()}
}

// finish posts what was seen until now.
func (a *accountant) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.devs {
		a.close(d, d.last)
	}
}

// handler serves the pages.
func (e *exporter) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(e.reg, promhttp.HandlerOpts{Registry: e.reg, ErrorLog: slog.NewLogLogger(e.log.Handler(), slog.LevelError)}))
	mux.HandleFunc("GET /healthz", e.healthz)
	mux.HandleFunc("GET /livez", e.livez)
	mux.HandleFunc("GET /opencost", e.opencost)
	landing, err := web.NewLandingPage(web.LandingConfig{Name: "Cotenant exporter", Description: "Who used the GPUs of " + e.c.node, Profiling: "false", Links: []web.LandingLinks{
		{Address: "/metrics", Text: "Metrics"}, {Address: "/healthz", Text: "Health", Description: "are the accounts stored, does any GPU answer?"},
		{Address: "/livez", Text: "Liveness", Description: "does any GPU answer?"}, {Address: "/opencost", Text: "OpenCost", Description: "costs so far, as custom costs"},
	}})
	if err == nil { // a constant page
		mux.Handle("GET /{$}", landing)
	}
	return mux
}

// healthz fails where the accounts could not be stored, or no GPU answers.
func (e *exporter) healthz(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	failed := e.failed
	e.mu.Unlock()
	up := e.a.answering()
	switch {
	case failed != "":
		http.Error(w, "the accounts cannot be stored: "+failed, http.StatusServiceUnavailable)
	case !up:
		http.Error(w, "no GPU answers", http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ok")
	}
}

// livez fails where no GPU answers: after the driver was loaded anew only a new
// start helps. What cannot be stored would be lost by one.
func (e *exporter) livez(w http.ResponseWriter, _ *http.Request) {
	if !e.a.answering() {
		http.Error(w, "no GPU answers", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (a *accountant) answering() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.devs {
		if d.down == "" {
			return true
		}
	}
	return len(a.devs) == 0 // not begun yet
}
