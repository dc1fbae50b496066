package serving

import (
	"math"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/cotenant/cotenant/decision/predict/internal/batching"
	"github.com/cotenant/cotenant/decision/predict/profile"
)

// tally counts what the clients of a service or an adapter saw, in bounded memory.
type tally struct {
	Served
	ttft, tpot, gap, e2e spread
}

// spread is a distribution of times in ms, in HDR buckets of microseconds.
type spread struct {
	digits int
	h      *hdrhistogram.Histogram
	sum    float64
	n      int64
}

const longestSpread = int64(24 * 3600 * 1e6) // microseconds; longer ones count as this

// histograms are those of plays that are over, by digits: a search plays thousands
// of times, and each distribution takes up to 240 kB.
var histograms [4]sync.Pool

// release gives a tally's histograms to the next play; it is not to be used again.
func (t *tally) release() {
	for _, s := range []*spread{&t.ttft, &t.tpot, &t.gap, &t.e2e} {
		if s.h != nil {
			s.h.Reset()
			histograms[s.digits].Put(s.h)
			s.h = nil
		}
	}
}

func newTally(digits int) *tally {
	t := &tally{}
	for _, s := range []*spread{&t.ttft, &t.tpot, &t.gap, &t.e2e} {
		s.digits = digits
	}
	return t
}

func (s *spread) add(ms float64, n int64) {
	if n <= 0 {
		return
	}
	if s.h == nil {
		if s.h, _ = histograms[s.digits].Get().(*hdrhistogram.Histogram); s.h == nil {
			s.h = hdrhistogram.New(1, longestSpread, s.digits)
		}
	}
	us := min(max(int64(math.Round(ms*1e3)), 0), longestSpread)
	if s.h.RecordValues(us, n) != nil {
		return // in range by construction
	}
	s.sum += ms * float64(n)
	s.n += n
}

// ms are the distribution's statistics; absent without values.
func (s *spread) ms() (l profile.LatencyMS) {
	if s.n == 0 {
		return l
	}
	at := func(q float64) profile.Optional[float64] { return profile.Some(float64(s.h.ValueAtQuantile(q)) / 1e3) }
	l.P50, l.P90, l.P95, l.P99 = at(50), at(90), at(95), at(99)
	l.Mean = profile.Some(s.sum / float64(s.n))
	return l
}

func (v *service) counted(f *batching.Flight) bool { return f.Came >= v.p.from }

// Started takes a request's first token.
func (v *service) Started(r *batching.Replica, f *batching.Flight) {
	r.Stats.Prompt += int64(f.Input)
	r.Stats.Cached += int64(min(f.Cached, f.Input))
	if v.counted(f) {
		v.tally.CachedTokens += int64(min(f.Cached, f.Input))
	}
}

// Tokens counts tokens given at a time.
func (v *service) Tokens(n int64, now float64) {
	if now >= v.p.from {
		v.tally.OutputTokens += n
	}
}

// Gaps counts times between tokens: n of a step's length, and stalled ones that a prefill or a load came before.
func (v *service) Gaps(step float64, n int64, stall float64, stalled int) {
	if v.p.now >= v.p.from {
		v.tally.gap.add(step, n)
		v.tally.gap.add(step+stall, int64(stalled))
	}
}

func (v *service) Preempted(f *batching.Flight) {
	if v.counted(f) {
		v.tally.Preemptions++
	}
}

// Ended takes a request's last token.
func (v *service) Ended(r *batching.Replica, f *batching.Flight, now float64) {
	r.Stats.Completed++
	if v.counted(f) {
		ttft, tpot, e2e := f.First-f.Came, 0.0, now-f.Came
		if f.Output > 1 {
			tpot = (now - f.First) / float64(f.Output-1)
		}
		good := v.s.Objective.kept(ttft, tpot, e2e)
		v.tally.ended(f, ttft, tpot, e2e, good)
		for i := range v.near {
			if n := &v.near[i]; n.objective.kept(ttft, tpot, e2e) {
				n.good++
			}
		}
		if v.s.Engine.Adapters.Slots > 0 {
			v.adapter(f).ended(f, ttft, tpot, e2e, good)
		}
	}
	v.gone(f, now)
}

func (t *tally) ended(f *batching.Flight, ttft, tpot, e2e float64, good bool) {
	t.Completed++
	t.ttft.add(ttft, 1)
	t.e2e.add(e2e, 1)
	if f.Output > 1 {
		t.tpot.add(tpot, 1)
	}
	if good {
		t.Good++
	}
}

// maxAdapterTallies bounds the adapters that are told apart in a report; the rest are counted together as -1.
const maxAdapterTallies = 1 << 12

func (v *service) adapter(f *batching.Flight) *tally {
	id := f.Adapter
	t := v.adapters[id]
	if t == nil && len(v.adapters) >= maxAdapterTallies {
		id = otherAdapters
		t = v.adapters[id]
	}
	if t == nil {
		t = newTally(2)
		v.adapters[id] = t
	}
	return t
}

const otherAdapters = -1

// Reject refuses a request.
func (v *service) Reject(f *batching.Flight, now float64) {
	if v.counted(f) {
		v.tally.Rejected++
	}
	v.gone(f, now)
}

func (v *service) gone(f *batching.Flight, now float64) {
	if f.Client {
		v.closed = append(v.closed, now+max(1e-3, batching.InMillis(v.s.Clients.Think)))
	}
	v.p.flying--
	*f = batching.Flight{} // its prefix is not held on to
	v.p.spare = append(v.p.spare, f)
}
