package usage

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
)

// cluster is a simulated day of GPUs of 8 a node, whose truth is known: how
// each one is used decides its number alone.
type cluster struct {
	gpus int
	step time.Duration
	day  time.Duration
	seed uint64
	// uses are the rates of each GPU's parts.
	uses [][2]rates
}

func newCluster(gpus int, day time.Duration, seed uint64) cluster {
	c := cluster{gpus: gpus, step: 15 * time.Second, day: day, seed: seed}
	for gpu := range gpus {
		c.uses = append(c.uses, [2]rates{c.draw(gpu, 0), c.draw(gpu, 1)})
	}
	return c
}

func (c *cluster) samples() int { return int(c.day / c.step) }

// use is how a GPU is used.
type use int

const (
	useIdle      use = iota // nobody
	useParked               // a program holds memory and never runs
	useExclusive            // one pod
	useShared               // two pods at a time; the exporter repeats the device for both
	useMIG                  // two instances with a pod each
	useTurns                // one pod until noon, another from ten past
	uses
)

func (c *cluster) use(gpu int) use { return use(gpu % int(uses)) }

// rates are what makes a GPU, or its instance: the share of minutes in which it
// is busy, its utilization then, and its memory at the start and the end.
type rates struct {
	busy, util, low, high float64
}

func (c *cluster) draw(gpu, part int) rates {
	r := rand.New(rand.NewPCG(c.seed, uint64(gpu*4+part)))
	v := rates{busy: 0.05 + 0.9*r.Float64(), util: math.Round(10 + 85*r.Float64()), low: math.Round(2000 + 20000*r.Float64())}
	v.high = v.low + math.Round(15000*r.Float64())
	switch c.use(gpu) {
	case useIdle:
		return rates{low: 4, high: 4}
	case useParked:
		v.busy, v.util = 0, 0
	}
	return v
}

// running says whether a GPU's part runs in a minute; it is fixed by a hash, so
// that every figure agrees.
func (c *cluster) running(gpu, part, minute int, v rates) bool {
	h := uint64(gpu*4+part)*0x9E3779B97F4A7C15 + uint64(minute)*0xD1B54A32D192ED03 + c.seed
	h ^= h >> 31
	h *= 0xBF58476D1CE4E5B9
	h ^= h >> 29
	return float64(h>>11)/(1<<53) < v.busy
}

// at is what a part of a GPU shows in a sample: percent, MiB.
func (c *cluster) at(gpu, part, i int, f Figure) float64 {
	v := c.uses[gpu][part]
	minute := int(time.Duration(i) * c.step / time.Minute)
	on := c.running(gpu, part, minute, v)
	switch f {
	case FigureGPUUtil, FigureGraphics:
		if on {
			return math.Round(v.util + 4*math.Sin(float64(i)))
		}
		return 0
	case FigureSM, FigureDRAM:
		if on {
			return math.Round(v.util / 2)
		}
		return 0
	case FigureMemUsed:
		return math.Round(v.low + (v.high-v.low)*float64(i)/float64(c.samples()))
	}
	return 0
}

// there says whether a part has a sample: the exporter restarts for half an
// hour, and pods that take turns leave ten minutes between them.
func (c *cluster) there(gpu, part, i int) bool {
	at := time.Duration(i) * c.step
	if gpu/8 == 3 && at >= c.day/4 && at < c.day/4+30*time.Minute {
		return false
	}
	if c.use(gpu) == useTurns {
		if part == 0 {
			return at < c.day/2
		}
		return at >= c.day/2+10*time.Minute
	}
	return true
}

// device is the part whose figures are the device's own: with sharing the
// exporter repeats the whole GPU for every pod.
func (c *cluster) device(gpu, part int) int {
	if c.use(gpu) == useShared {
		return 0
	}
	return part
}

func (c *cluster) parts(gpu int) int {
	switch c.use(gpu) {
	case useShared, useMIG, useTurns:
		return 2
	}
	return 1
}

func (c *cluster) key(gpu, part int) Key {
	k := Key{Node: fmt.Sprintf("node-%02d", gpu/8), GPU: fmt.Sprintf("GPU-%04d", gpu), Index: optional.Of(gpu % 8)}
	if c.use(gpu) == useMIG {
		k.Profile, k.Instance = [2]string{"3g.40gb", "4g.40gb"}[part], optional.Of(part+1)
	}
	if c.use(gpu) != useIdle {
		k.Namespace, k.Pod, k.Container = fmt.Sprintf("team-%d", gpu%5), fmt.Sprintf("job-%d-%d", gpu, part), "main"
	}
	return k
}

// figures are those that a GPU's exporter gives: with MIG no utilization.
func (c *cluster) figures(gpu int) []Figure {
	if c.use(gpu) == useMIG {
		return []Figure{FigureGraphics, FigureSM, FigureDRAM, FigureMemUsed}
	}
	return []Figure{FigureGPUUtil, FigureGraphics, FigureSM, FigureDRAM, FigureMemUsed}
}

var dcgmNames = func() map[Figure]string {
	names := map[Figure]string{}
	for name, s := range metrics {
		if strings.HasPrefix(name, "DCGM_") {
			names[s.figure] = name
		}
	}
	return names
}()

// write writes the answer to a range query of one metric.
func (c *cluster) write(w io.Writer, f Figure, start time.Time) error {
	name := dcgmNames[f]
	scale := metrics[name].scale
	if f == FigureMemUsed {
		scale = 1 // at gives these in the page's unit
	}
	b := []byte(`{"status":"success","data":{"resultType":"matrix","result":[`)
	first := true
	for gpu := range c.gpus {
		has := false
		for _, g := range c.figures(gpu) {
			has = has || g == f
		}
		if !has {
			continue
		}
		for part := range c.parts(gpu) {
			k := c.key(gpu, part)
			if !first {
				b = append(b, ',')
			}
			first = false
			b = fmt.Appendf(b, `{"metric":{"__name__":%q,"Hostname":%q,"UUID":%q,"gpu":"%d","device":"nvidia%d","modelName":"NVIDIA H100 80GB HBM3","instance":"10.0.0.%d:9400","job":"dcgm"`,
				name, k.Node, k.GPU, k.Index.Or(0), k.Index.Or(0), gpu/8)
			if id, ok := k.Instance.Get(); ok {
				b = fmt.Appendf(b, `,"GPU_I_PROFILE":%q,"GPU_I_ID":"%d"`, k.Profile, id)
			}
			if k.Pod != "" {
				b = fmt.Appendf(b, `,"namespace":%q,"pod":%q,"container":%q`, k.Namespace, k.Pod, k.Container)
			}
			b = append(b, `},"values":[`...)
			comma := false
			for i := range c.samples() {
				if !c.there(gpu, part, i) {
					continue
				}
				if comma {
					b = append(b, ',')
				}
				comma = true
				b = append(b, '[')
				b = strconv.AppendInt(b, start.Add(time.Duration(i)*c.step).Unix(), 10)
				b = append(b, `.25,"`...)
				b = strconv.AppendFloat(b, c.at(gpu, c.device(gpu, part), i, f)/scale, 'f', -1, 64)
				b = append(b, `"]`...)
				if len(b) > 1<<16 {
					if _, err := w.Write(b); err != nil {
						return err
					}
					b = b[:0]
				}
			}
			b = append(b, "]}"...)
		}
	}
	_, err := w.Write(append(b, "]}}\n"...))
	return err
}

// discover reads the day through pipes, metric by metric.
func (c *cluster) discover(t testing.TB, start time.Time) *Usage {
	r := New()
	for f := FigureGPUUtil; f < figureEnd; f++ {
		rd, w := io.Pipe()
		go func() { w.CloseWithError(c.write(w, f, start)) }()
		if err := r.JSON(dcgmNames[f]+".json", rd); err != nil {
			t.Fatal(err)
		}
	}
	return r.Usage()
}

// check holds what was discovered against the truth.
func (c *cluster) check(t *testing.T, u *Usage, start time.Time) {
	t.Helper()
	by := map[string]Stats{}
	for _, s := range u.Tenants {
		by[s.Key.String()] = s
	}
	checked := 0
	for gpu := range c.gpus {
		for part := range c.parts(gpu) {
			k := c.key(gpu, part)
			s, ok := by[k.String()]
			if !ok {
				t.Fatalf("%v is missing", k)
			}
			delete(by, k.String())
			if s.Shared != (c.use(gpu) == useShared) {
				t.Errorf("%v: shared %v", k, s.Shared)
			}
			if len(s.Figures) != len(c.figures(gpu)) {
				t.Errorf("%v has %d figures, its exporter gives %d", k, len(s.Figures), len(c.figures(gpu)))
			}
			for _, f := range c.figures(gpu) {
				var all []float64
				first, last := -1, -1
				for i := range c.samples() {
					if !c.there(gpu, part, i) {
						continue
					}
					v := c.at(gpu, c.device(gpu, part), i, f)
					if f == FigureMemUsed {
						v *= mib
					}
					if first < 0 {
						first = i
					}
					last = i
					all = append(all, v)
				}
				st := s.Figures[f]
				checked++
				near := func(what string, got, want, rel float64) {
					if got < want*(1-1e-6)-1e-6 || got > want*(1+rel+1e-6)+1e-6 {
						t.Errorf("%v %v: %s is %v, the truth %v, error %v", k, f, what, got, want, rel)
					}
				}
				if st.N != int64(len(all)) || !st.From.Equal(start.Add(time.Duration(first)*c.step+250*time.Millisecond)) || !st.To.Equal(start.Add(time.Duration(last)*c.step+250*time.Millisecond)) {
					t.Errorf("%v %v: %d samples from %v to %v, the truth is %d", k, f, st.N, st.From, st.To, len(all))
				}
				hi, sum := math.Inf(-1), 0.0
				for _, v := range all {
					hi, sum = max(hi, v), sum+v
				}
				near("P50", st.P50, nearestRank(all, 0.5), 1.0/128)
				near("P95", st.P95, nearestRank(all, 0.95), 1.0/128)
				near("max", st.Max, hi, 0)
				near("mean", st.Mean, sum/float64(len(all)), 0)
			}
			c.checkTimes(t, k, gpu, part, s.Times)
		}
	}
	if len(by) > 0 {
		t.Errorf("%d keys that there are not", len(by))
	}
	if len(u.Devices) != c.gpus+c.gpus/int(uses) && c.gpus%int(uses) == 0 {
		t.Errorf("%d GPUs and instances", len(u.Devices))
	}
	for _, d := range u.Devices {
		if d.Pod != "" || d.Times.Known > c.day {
			t.Errorf("%v: %+v of %v", d.Key, d.Times, c.day)
		}
	}
	t.Logf("%d figures of %d keys agree", checked, len(u.Tenants))
}

// checkTimes adds up the minutes by the truth.
func (c *cluster) checkTimes(t *testing.T, k Key, gpu, part int, got Times) {
	t.Helper()
	var want Times
	dev := c.device(gpu, part)
	v := c.uses[gpu][dev]
	for m := range int(c.day / time.Minute) {
		known, held := false, false
		for i := m * int(time.Minute/c.step); i < (m+1)*int(time.Minute/c.step); i++ {
			if c.there(gpu, part, i) {
				known = true
				held = held || c.at(gpu, dev, i, FigureMemUsed)*mib >= heldBytes
			}
		}
		if !known {
			continue
		}
		want.Known += time.Minute
		if held {
			want.Held += time.Minute
		}
		switch {
		case c.running(gpu, dev, m, v):
			want.Busy += time.Minute
		case held:
			want.ExecutionIdle += time.Minute
		}
	}
	if got != want {
		t.Errorf("%v: %+v, the truth is %+v", k, got, want)
	}
}

func TestClusterAgainstTruth(t *testing.T) {
	for _, seed := range []uint64{1, 2} {
		c := newCluster(48, 6*time.Hour, seed)
		start := noon.Truncate(24 * time.Hour)
		u := c.discover(t, start)
		c.check(t, u, start)
	}
}

// BenchmarkJSON is the cost of one metric of 50 GPUs over a day.
func BenchmarkJSON(b *testing.B) {
	c := newCluster(50, 24*time.Hour, 1)
	var text bytes.Buffer
	if err := c.write(&text, FigureGPUUtil, noon); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		r := New()
		if err := r.JSON("x", bytes.NewReader(text.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}
