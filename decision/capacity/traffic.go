package capacity

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/internal/problem"
)

// traffic is the search's view of the trace: the stretch that it plays, and the
// means of each tenant's requests there.
type traffic struct {
	window   []Request // times from its beginning
	from     time.Duration
	total    int // requests of the whole trace
	duration time.Duration
	tenants  []tenantTraffic
	prefixes bool
	sessions bool
}

// tenantTraffic are sums over a tenant's requests of the window.
type tenantTraffic struct {
	requests         int
	input, output    float64
	longest          int     // tokens of one request, in and out
	squareOfResident float64 // of output x (input + output), what the KV cache is asked for
}

// context is the mean context of a token that the tenant's requests are given.
func (t *tenantTraffic) context() float64 { return t.squareOfResident / max(t.output, 1) }

// read checks the requests and finds the busiest stretch of n of them. Its memory is that of twice the stretch.
func (p *Plan) read(ctx context.Context) (*traffic, error) {
	n := cmp.Or(p.WindowRequests, defaultWindow)
	var l problem.List
	t := &traffic{}
	ring := make([]Request, 0, n) // the last n requests, from next on
	next, work, best := 0, 0.0, -1.0
	weight := func(r *Request) float64 { return float64(r.Input)/8 + float64(r.Output) } // a prompt's token is cheaper
	var last time.Duration
	take := func() {
		t.window = append(append(t.window[:0], ring[next:]...), ring[:next]...)
		t.from = t.window[0].At
	}
	for r := range p.Requests {
		at := fmt.Sprintf("requests[%d]", t.total)
		switch {
		case r.Tenant < 0 || r.Tenant >= len(p.Tenants):
			l.Addf(at+".tenant", "", "%d is no index among %d tenants", r.Tenant, len(p.Tenants))
		case r.Input < 1 || r.Input > maxPrompt || r.Output < 1 || r.Output > maxPrompt:
			l.Addf(at, "give each request its lengths", "%d tokens in and %d out", r.Input, r.Output)
		case r.At < last:
			l.Addf(at+".at", "sort the trace by time", "%v is before %v", r.At, last)
		case r.Adapter < 0:
			l.Addf(at+".adapter", "use 0 or more", "is %d", r.Adapter)
		case r.Adapter > 0 && p.Tenants[r.Tenant].Adapters.Slots == 0:
			l.Addf(at+".adapter", "give the tenant's servers slots", "names adapter %d of a tenant without adapters", r.Adapter)
		}
		if l.Len() > problem.Enough {
			break
		}
		last = r.At
		t.total++
		if t.total%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		work += weight(&r)
		if len(ring) < n {
			ring = append(ring, r)
			continue
		}
		if best < 0 {
			best = (work - weight(&r)) / max(ring[n-1].At-ring[0].At, 1).Seconds()
			take()
		}
		work -= weight(&ring[next])
		ring[next] = r
		next = (next + 1) % n
		// Looked at once in a while: the stretches overlap.
		if t.total%max(n/16, 1) == 0 {
			if rate := work / max(r.At-ring[next].At, 1).Seconds(); rate > best*1.02 {
				best = rate
				take()
			}
		}
	}
	if err := l.Under(ErrInvalid); err != nil {
		return nil, err
	}
	if t.total == 0 {
		return nil, fmt.Errorf("%w: requests: the trace has none", ErrInvalid)
	}
	if best < 0 {
		next = 0
		take()
	}
	t.duration = last
	t.describe(len(p.Tenants))
	return t, nil
}

func (t *traffic) describe(tenants int) {
	t.tenants = make([]tenantTraffic, tenants)
	for i := range t.window {
		r := &t.window[i]
		r.At -= t.from
		of := &t.tenants[r.Tenant]
		of.requests++
		of.input += float64(r.Input)
		of.output += float64(r.Output)
		of.longest = max(of.longest, r.Input+r.Output)
		of.squareOfResident += float64(r.Output) * (float64(r.Input) + float64(r.Output)/2)
		t.prefixes = t.prefixes || len(r.Prefix) > 0
		t.sessions = t.sessions || r.Session != 0
	}
}

// seconds is the window's length at a multiple of the load.
func (t *traffic) seconds(load float64) float64 {
	return max(t.window[len(t.window)-1].At.Seconds(), 1e-3) / load
}

// burst is the most requests that come within a second at a multiple of the load, and how many do on average.
func (t *traffic) burst(load float64) (most int, mean float64) {
	first := 0
	for i := range t.window {
		for (t.window[i].At - t.window[first].At).Seconds() > load {
			first++
		}
		most = max(most, i-first+1)
	}
	return most, float64(len(t.window)) / t.seconds(load)
}

// route is the destination of a tenant's requests.
type route struct {
	service int
	adapter int // the tenant's own number among the server's adapters; 0 = the base
}

// requests are those of the window whose tenants have a route, at a multiple of the
// load: the same requests, closer together.
func (t *traffic) requests(routes map[int]route, load float64) iter.Seq[serving.Request] {
	return scaled(slices.Values(t.window), routes, load)
}

// apart are the same requests, each long after the one before has ended.
func (t *traffic) apart(routes map[int]route) iter.Seq[serving.Request] {
	return func(yield func(serving.Request) bool) {
		n := 0
		for r := range t.requests(routes, 1) {
			r.At = time.Duration(n) * time.Hour
			if n++; !yield(r) {
				return
			}
		}
	}
}

func scaled(all iter.Seq[Request], routes map[int]route, load float64) iter.Seq[serving.Request] {
	return func(yield func(serving.Request) bool) {
		for r := range all {
			to, ok := routes[r.Tenant]
			if !ok {
				continue
			}
			if !yield(serving.Request{
				At: time.Duration(float64(r.At) / load), Service: to.service, Input: r.Input, Output: r.Output, Prefix: r.Prefix,
				Session: r.Session, Adapter: cmp.Or(to.adapter, r.Adapter),
			}) {
				return
			}
		}
	}
}
