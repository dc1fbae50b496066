// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/exporter-toolkit/web"

	pages "github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return pages.Run(ctx, "exporter", stdout, stderr, func(stdout io.Writer) error {
		c, err := parse(args, stdout)
		if err != nil {
			return pages.BadInput(err)
		}
		prices, err := readPrices(c.prices)
		if invalid := web.Validate(c.webConfig); invalid != nil {
			err = errors.Join(err, fmt.Errorf("-web-config: %w", invalid))
		}
		if err != nil {
			return pages.BadInput(err)
		}
		e, err := open(c, prices, slog.New(slog.NewTextHandler(stderr, nil)))
		if err != nil {
			return err
		}
		return errors.Join(e.serve(ctx, c.listen), e.closeAll())
	})
}

// exporter is the program with its parts.
type exporter struct {
	c       *config
	log     *slog.Logger
	reader  telemetry.Reader
	sampler *telemetry.Sampler
	a       *ledger.Accountant
	store   *store
	col     *collector
	reg     *prometheus.Registry
	start   time.Time // of the simulated node
	zeros   []byte    // the series that an earlier run showed at 0 at its end
	dcgm    *dcgm     // nil: not read
	fast    time.Duration
	closers []func() error

	committed atomic.Int64 // commits, also those that failed: the gauges are new

	mu      sync.Mutex // of committing
	failed  string     // why the last attempt to store failed
	latest  *view      // the accounts; nil before any change
	page    shownAccounts
	next    *view // to be shown once it is stored; nil when all is shown
	expired int   // series so far
}

// The names of the records that are not the accounts'.
const (
	metaSpeed = "meta speed"
	metaStart = "meta start"
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
	o := ledger.Options{Price: p.of, Logger: log, Records: m}
	if err := e.source(&o); err != nil {
		return nil, err
	}
	fast, slow := periods(c.period, c.speed)
	e.fast = fast
	o.Fast, o.Slow = time.Duration(float64(fast)*c.speed), time.Duration(float64(slow)*c.speed)
	e.a = ledger.New(o)
	timed := newTimed(e.reader, e.a.WantsGPM)
	sampling := log
	if c.simulate { // at speed, ticks are missed often
		sampling = nil
	}
	e.sampler, err = telemetry.NewSampler(timed, telemetry.SamplerOptions{
		Period: fast, SlowPeriod: slow, Skip: telemetry.GroupPCIe, Logger: sampling,
	})
	if err != nil {
		return nil, err
	}
	e.col = newCollector(e.a, o.Basis, o.Fast, c.node, e.reader.Info().Name)
	e.col.dcgm, e.col.objectives = e.dcgm, c.objectives
	prometheus.WrapRegistererWith(prometheus.Labels{"node": c.node}, e.reg).MustRegister(timed.seconds,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	e.page.hold = c.hold
	e.col.shown.Store(e.page.resume(&view{View: e.a.View()}, e.zeros, time.Now()))
	return e, nil
}

// meta takes the records that are not the accounts': the speed of a simulation
// and when it began. It returns the others.
func (e *exporter) meta(records []ledger.Record) (kept []ledger.Record, err error) {
	speed := "real"
	if e.c.simulate {
		speed = strconv.FormatFloat(e.c.speed, 'g', -1, 64)
	}
	e.start = time.Now()
	for _, r := range records {
		switch {
		case r.Name == metaNew:
			e.zeros = r.Value
		case r.Name == metaSpeed:
			if string(r.Value) != speed {
				return nil,
					fmt.Errorf("-state: %s holds the accounts of another source or -speed (%s, now %s): name another folder",
						e.c.state, r.Value, speed)
			}
		case r.Name == metaStart:
			if e.start, err = time.Parse(time.RFC3339Nano, string(r.Value)); err != nil {
				return nil, fmt.Errorf("-state: %w", err)
			}
		default:
			kept = append(kept, r)
		}
	}
	e.store.put(ledger.Record{Name: metaSpeed, Value: []byte(speed)},
		ledger.Record{Name: metaStart, Value: []byte(e.start.Format(time.RFC3339Nano))})
	return kept, nil
}

// source opens the reader: NVML, or the simulated node.
func (e *exporter) source(o *ledger.Options) error {
	if e.c.simulate {
		o.Clock = scaledClock(e.start, e.c.speed)
		n, err := newSimNode(o.Clock.Now)
		if err != nil {
			return err
		}
		e.reader, o.Basis = n, sharing.BasisSimulated
		o.Resolver, o.Kubelet = container.NewResolver(n), n
		return nil
	}
	var root fs.FS = os.DirFS(e.c.root)
	o.Basis, o.Clock, o.Resolver = sharing.BasisMeasured, bootClock(root), container.NewResolver(root)
	r, err := telemetrynvml.Open(telemetrynvml.Options{LibraryPath: e.c.nvml, LoadOnly: true, AllSamples: true})
	if err != nil {
		return fmt.Errorf("%w\nwith -simulate a made-up node is shown", err)
	}
	e.reader = r
	e.closers = append(e.closers, r.Close)
	if e.c.dcgm != "" {
		if e.dcgm, err = newDCGM(context.Background(), r, e.c.dcgm, e.log); err != nil {
			return err
		}
		e.reader = e.dcgm
	}
	if e.c.kubelet != "" {
		k, err := newKubelet(e.c.kubelet)
		if err != nil {
			return err
		}
		o.Kubelet = k
		e.closers = append(e.closers, k.conn.Close)
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
	srv := &http.Server{
		Handler: e.handler(), ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: 16 << 10,
	}
	address := l.Addr().String()
	l = frugal{l}
	none := false
	flags := &web.FlagConfig{
		WebListenAddresses: &[]string{address}, WebSystemdSocket: &none, WebConfigFile: &e.c.webConfig,
	}
	var wg sync.WaitGroup
	errs := make(chan error, 2)
	wg.Go(func() {
		if err := web.Serve(l, srv, flags, e.log); !errors.Is(err, http.ErrServerClosed) {
			errs <- err
			cancel()
		}
	})
	wg.Go(func() { e.a.Watch(ctx, slowTicks*e.fast) })
	if e.dcgm != nil {
		wg.Go(func() { e.dcgm.watch(ctx, slowTicks*e.fast) })
	}
	wg.Go(func() { e.commits(ctx) })
	err := e.sampler.Stream(ctx, e.a)
	cancel()
	stopping, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	err = errors.Join(err, srv.Shutdown(stopping))
	wg.Wait()
	e.a.Finish()
	err = errors.Join(err, e.commit())
	select {
	case serr := <-errs:
		err = errors.Join(err, serr)
	default:
	}
	return err
}

// commits stores the posted entries, and then shows them, with every cheap reading.
func (e *exporter) commits(ctx context.Context) {
	ticker := time.NewTicker(max(e.fast, 100*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		e.a.Tick()
		_ = e.commit() // it is tried again; /healthz and a counter show the failure
	}
}

// commit stores the changes and then shows them. After an error they stay pending.
func (e *exporter) commit() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.committed.Add(1)
	expired, records, v, err := e.a.Changes()
	e.store.put(records...)
	e.expired += expired
	if len(records) > 0 {
		e.latest = &view{View: v}
	}
	if e.latest != nil {
		show, zeros := e.page.take(e.latest, time.Now())
		if show != nil {
			e.next = show
		}
		if zeros != nil {
			value, _ := json.Marshal(zeros) // texts and enumerations that have them
			e.store.put(ledger.Record{Name: metaNew, Value: value})
		}
	}
	if err == nil {
		err = e.store.commit()
	}
	if err != nil {
		e.col.storeErrors.Add(1)
		if e.failed != err.Error() {
			e.log.Error("the accounts cannot be stored; the page stays as it is", "err", err)
		}
		e.failed = err.Error()
		return fmt.Errorf("store the accounts: %w", err)
	}
	e.failed = ""
	if e.next != nil {
		shown := *e.next
		shown.at, shown.expired = time.Now(), e.expired
		e.col.shown.Store(&shown)
		e.next = nil
	}
	return nil
}

// render writes all metrics: the exporter's own, and those of the program.
func (e *exporter) render(w io.Writer, format expfmt.Format) error {
	others, err := e.reg.Gather()
	if err != nil {
		return err
	}
	enc := expfmt.NewEncoder(w, format)
	for f := range e.col.families {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	for _, f := range others {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

// handler serves the pages.
func (e *exporter) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", limited(maxInFlight, newShared(e.render, e.committed.Load)))
	mux.HandleFunc("GET /healthz", e.health(true))
	mux.HandleFunc("GET /livez", e.health(false))
	return mux
}

// health fails where no GPU answers: after the driver was loaded anew only a new start helps. With stored it fails
// where the accounts could not be stored, too, which a new start would lose, as it would those that are being stored:
// without it does not wait for a slow disk.
func (e *exporter) health(stored bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		failed := ""
		if stored { // which waits for a commit
			e.mu.Lock()
			failed = e.failed
			e.mu.Unlock()
		}
		switch {
		case failed != "":
			http.Error(w, "the accounts cannot be stored: "+failed, http.StatusServiceUnavailable)
		case !e.answering():
			http.Error(w, "no GPU answers", http.StatusServiceUnavailable)
		default:
			fmt.Fprintln(w, "ok")
		}
	}
}

func (e *exporter) answering() bool {
	devices := e.a.Status().Devices
	up := func(d ledger.Device) bool { return d.Down == "" }
	return len(devices) == 0 || slices.ContainsFunc(devices, up) // no device: not begun yet
}
