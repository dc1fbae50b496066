// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

type tenantRun struct {
	plan      *LoadPlan
	tenant    *Tenant
	opts      *Options
	client    *client
	clock     *wire.Clock
	collector *collector
	log       *requestLog // nil without a directory
	start     time.Time
	pacerName string

	issued  atomic.Int64 // requests given out
	last    func()       // called when a closed loop's last request is given out
	prompts struct {
		sync.Mutex
		taken int64
		held  *Prompt // taken for the warm-up, and the run's first
	}
	stock *stock // of an open loop
	live  struct{ sent, ok, failed, tokens atomic.Int64 }

	recordsMu sync.Mutex
	records   []Record
}

// drive offers the tenant's load until offer ends, and returns when its requests
// have ended; run cancels them. offered is called when no new load will come.
func (r *tenantRun) drive(offer, run context.Context, offered func()) error {
	if r.tenant.Load.open() {
		return r.open(offer, run, offered)
	}
	return r.closed(offer, run, offered)
}

// ticket gives out the number of the next request, and false when the tenant has made all of its own.
func (r *tenantRun) ticket() (int64, bool) {
	n := r.issued.Add(1) - 1
	if r.tenant.Requests == 0 {
		return n, true
	}
	limit := int64(r.tenant.Requests)
	if n == limit-1 && r.last != nil {
		r.last()
	}
	return n, n < limit
}

// prompt takes the tenant's next prompt.
func (r *tenantRun) prompt() (Prompt, error) {
	r.prompts.Lock()
	defer r.prompts.Unlock()
	if p := r.prompts.held; p != nil {
		r.prompts.held = nil
		return *p, nil
	}
	p, err := r.tenant.Prompts.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("loadgen: tenant %q: prompt %d: %w", r.tenant.Name, r.prompts.taken, err)
	}
	r.prompts.taken++
	return p, err
}

// job is a request that is ready to go.
type job struct {
	id     int64
	prompt Prompt
	body   []byte
	// intended and eligible (from when the client could send it) are 0 in a closed loop.
	intended, eligible int64
	pacing             time.Duration // negative: not known
}

// next prepares the next request. It returns io.EOF when there is none.
func (r *tenantRun) next() (job, error) {
	id, ok := r.ticket()
	if !ok {
		return job{}, io.EOF
	}
	p, err := r.prompt()
	if err != nil {
		return job{}, err
	}
	return r.prepare(id, p)
}

func (r *tenantRun) prepare(id int64, p Prompt) (job, error) {
	body, err := requestBody(r.tenant, &p)
	if err != nil {
		return job{}, fmt.Errorf("loadgen: tenant %q: request %d: %w", r.tenant.Name, id, err)
	}
	return job{id: id, prompt: p, body: body, pacing: -1}, nil
}

// run makes a request and records it.
func (r *tenantRun) run(ctx context.Context, j *job) {
	s := r.client.streams.Get().(*stream)
	defer r.client.streams.Put(s)
	rec := Record{Tenant: r.tenant.Name, ID: j.id, Session: j.prompt.Session, IntendedNS: j.intended,
		TokenSource: tokensUnknown}
	if j.prompt.Model != r.tenant.Model {
		rec.Adapter = j.prompt.Model
	}
	r.live.sent.Add(1)
	r.client.do(ctx, &j.prompt, j.body, &rec, s)
	l := lags{pacing: j.pacing, send: -1}
	if j.eligible != 0 {
		l.send = time.Duration(rec.SentNS - j.eligible)
	}
	r.record(&rec, s, l)
}

// record takes a request that has ended.
func (r *tenantRun) record(rec *Record, s *stream, l lags) {
	if rec.Class == ClassOK {
		r.live.ok.Add(1)
	} else {
		r.live.failed.Add(1)
	}
	r.live.tokens.Add(int64(rec.OutputTokens))
	r.collector.ended(rec, s, l, r.tenant)
	if r.log != nil {
		r.log.add(rec)
	}
	if r.opts.KeepRecords {
		r.recordsMu.Lock()
		r.records = append(r.records, *rec)
		r.recordsMu.Unlock()
	}
}

func (r *tenantRun) open(offer, run context.Context, offered func()) (err error) {
	p := newPacer(!r.opts.ProcessTimes)
	r.pacerName = p.name()
	var requests sync.WaitGroup
	defer func() {
		offered()
		requests.Wait()
		err = errors.Join(err, p.close())
	}()
	for at := range r.tenant.Load.Schedule.Arrivals(r.plan.tenantRand(r.tenant.Name)) {
		if r.plan.Duration > 0 && at >= r.plan.Duration {
			return nil
		}
		id, ok := r.ticket()
		if !ok {
			return nil
		}
		j, err := r.stock.take(offer)
		if err != nil {
			return ignoreEOF(ignoreContext(offer, err))
		}
		j.id = id
		due := r.start.Add(at)
		early := time.Until(due) > 0
		if err := p.wait(offer, due); err != nil || run.Err() != nil {
			return ignoreContext(offer, err)
		}
		if early {
			j.pacing = time.Since(due)
		}
		j.intended = r.clock.At(due)
		j.eligible = j.intended
		requests.Go(func() { r.run(run, &j) })
	}
	return nil
}

func (r *tenantRun) closed(offer, run context.Context, offered func()) error {
	users := r.tenant.Load.Concurrency
	var group errgroup.Group
	var left atomic.Int64
	left.Store(int64(users))
	// The offering ends with the last request given out or with offer, however long the answers then take.
	r.last = offered
	defer context.AfterFunc(offer, offered)()
	for u := range users {
		first := r.start.Add(r.tenant.Load.Ramp * time.Duration(u) / time.Duration(users))
		group.Go(func() error {
			err := r.user(offer, run, first)
			if left.Add(-1) == 0 {
				offered()
			}
			return err
		})
	}
	return group.Wait()
}

func (r *tenantRun) user(offer, run context.Context, first time.Time) error {
	wait := time.Until(first)
	for {
		if sleep(offer, wait) != nil || run.Err() != nil {
			return nil
		}
		j, err := r.next()
		if err != nil {
			return ignoreEOF(err)
		}
		r.run(run, &j)
		wait = r.tenant.Load.ThinkTime
	}
}

func (r *tenantRun) warm(ctx context.Context) error {
	n := r.tenant.Warmup
	if n == 0 {
		return nil
	}
	p, err := r.prompt()
	if err != nil {
		return ignoreEOF(err)
	}
	r.prompts.held = &p
	j, err := r.prepare(-1, p)
	if err != nil {
		return err
	}
	users := cmp.Or(r.tenant.Load.Concurrency, 8)
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range min(n, users) {
		wg.Go(func() {
			s := r.client.streams.Get().(*stream)
			defer r.client.streams.Put(s)
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				r.client.do(ctx, &j.prompt, j.body, &Record{}, s) // a failure here shows in the run too
			}
		})
	}
	wg.Wait()
	return nil
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func ignoreContext(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// stock holds the next requests of an open loop, with their bodies, so that none is built when it is due.
type stock struct {
	ready chan stocked
	stop  context.CancelFunc
	done  chan struct{}
}

// stocked is a request without its number, or the error that ended the source of prompts.
type stocked struct {
	job job
	err error
}

const (
	stockRequests = 64
	// stockTime bounds the wait for a full stock before the run.
	stockTime = 5 * time.Second
)

// fill begins to keep a stock, and returns when it is full or the prompts have ended.
func (r *tenantRun) fill(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	s := &stock{ready: make(chan stocked, stockRequests), stop: stop, done: make(chan struct{})}
	r.stock = s
	full := make(chan struct{})
	go func() {
		defer close(s.done)
		isFull := sync.OnceFunc(func() { close(full) })
		defer isFull()
		for n := 0; r.tenant.Requests == 0 || n < r.tenant.Requests; n++ {
			var j job
			p, err := r.prompt()
			if err == nil {
				j, err = r.prepare(int64(n), p)
			}
			if len(s.ready) == cap(s.ready) {
				isFull()
			}
			select {
			case s.ready <- stocked{j, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case <-full:
	case <-time.After(stockTime):
	case <-ctx.Done():
	}
}

func (s *stock) take(ctx context.Context) (job, error) {
	select {
	case next := <-s.ready:
		return next.job, next.err
	case <-ctx.Done():
		return job{}, ctx.Err()
	}
}

func (s *stock) close() {
	s.stop()
	<-s.done
}
