// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cotenant/cotenant/loadgen"
)

// watch monitors the servers of a run: a server that answers none of its requests gets one for a single token, and the
// run ends where that has no answer either.
type watch struct {
	ctx      context.Context // of the run
	cancel   context.CancelCauseFunc
	progress func(loadgen.Progress)
	watching sync.WaitGroup

	mu      sync.Mutex
	sign    map[int]time.Time // when the server last answered
	ok      map[string]int64  // answers by load
	stopped error
}

// watch starts to monitor the servers, by load.
func (f *planFlow) watch(ctx context.Context, st *stand, servers map[string]int) *watch {
	w := &watch{sign: map[int]time.Time{}, ok: map[string]int64{}}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	if st.ask == nil {
		return w
	}
	var all []int
	for _, i := range servers {
		if !slices.Contains(all, i) {
			all = append(all, i)
			w.sign[i] = time.Now()
		}
	}
	w.progress = func(p loadgen.Progress) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, t := range p.Tenants {
			if t.OK > w.ok[t.Name] || t.InFlight == 0 {
				w.sign[servers[t.Name]] = time.Now()
			}
			w.ok[t.Name] = t.OK
		}
	}
	for _, i := range all {
		w.watching.Go(func() { w.look(f, st, i) })
	}
	return w
}

// look monitors one server.
func (w *watch) look(f *planFlow, st *stand, server int) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-tick.C:
		}
		w.mu.Lock()
		last := w.sign[server] // when it answered
		w.mu.Unlock()
		if time.Since(last) < f.Silent/3 {
			continue
		}
		ctx, cancel := context.WithDeadline(w.ctx, last.Add(f.Silent))
		err := st.ask(ctx, server)
		cancel()
		w.mu.Lock()
		switch {
		case err == nil:
			w.sign[server] = time.Now()
		case w.ctx.Err() != nil:
		case w.sign[server].Equal(last): // nor has the load had an answer meanwhile
			p := &f.plan.Servers[server]
			w.stopped = fmt.Errorf("server %s at %s has stopped answering: nothing came for %v, and one token that was "+
				"asked for neither (%w)", p.Name, p.URL, time.Since(last).Round(100*time.Millisecond), err)
			if tail := st.tail(server); tail != "" {
				w.stopped = fmt.Errorf("%w; its log ends:\n%s", w.stopped, tail)
			}
			st.dead[server] = w.stopped
			w.cancel(w.stopped)
		}
		w.mu.Unlock()
	}
}

// end stops the watch and returns its reason for ending the run, if it did.
func (w *watch) end() error {
	w.cancel(nil)
	w.watching.Wait()
	return w.stopped
}
