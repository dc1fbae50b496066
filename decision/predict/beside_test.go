package predict

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/internal/batching"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// besideCell is how long steps and prefills of a server took while its neighbour did one
// thing all the time, as two servers on an H100 wrote them down under the bursty trace of
// decision/capacity/study (batches up to 1, 2, 4, 8 and 16; 8B prefills beside prefills are too few).
type besideCell struct {
	Mechanism sharing.Mechanism `json:"mechanism"`
	Server    string            `json:"server"`
	Does      string            `json:"does"`
	Batch     int               `json:"batch"`
	Beside    string            `json:"beside"`
	N         int               `json:"n"`
	MeanMS    float64           `json:"mean_ms"`
}

// A step or a prefill is slowed down by what a neighbour does, from profiles alone, as it
// was measured, activity by activity.
func TestBesideNeighbours(t *testing.T) {
	off := slices.Concat(slices.Collect(maps.Values(BesideNeighbours(t)))...)
	mean := 0.0
	for _, v := range off {
		mean += v / float64(len(off))
	}
	slices.Sort(off)
	if t.Logf("%d cells, off by %.1f%% on average, %.1f%% at the 90th percentile", len(off), 100*mean, 100*off[len(off)*9/10]); mean > 0.07 || len(off) < 40 {
		t.Errorf("%d cells are off by %.1f%% on average", len(off), 100*mean)
	}
}

// BesideNeighbours are the errors of all cells, by mechanism.
func BesideNeighbours(t *testing.T) map[sharing.Mechanism][]float64 {
	t.Helper()
	data, err := os.ReadFile("testdata/h100-beside.json")
	if err != nil {
		t.Fatal(err)
	}
	var cells []besideCell
	if err := json.Unmarshal(data, &cells); err != nil {
		t.Fatal(err)
	}
	rows, err := profile.LoadRows("../capacity/study/testdata/h100-alone-2.json")
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := profile.NewProfiles(rows.Profiles()...)
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := sharing.LookupGPU("H100-SXM5-80GB")
	if err != nil {
		t.Fatal(err)
	}
	p := NewPredictor()
	engines := map[string]costs.Engine{}
	for name, m := range map[string]costs.Model{
		"1b": {Parameters: 1.24e9, Layers: 16, KVHeads: 8, HeadDim: 64, Hidden: 2048, Heads: 32, Intermediate: 8192},
		"8b": {Parameters: 8.03e9, Layers: 32, KVHeads: 8, HeadDim: 128, Hidden: 4096, Heads: 32, Intermediate: 14336},
	} {
		solo, err := profiles.Solo(profile.Server{Model: name, Slots: profile.Some(16)}, profile.Load{Concurrency: 1, Prompt: 250, Output: 56})
		if err != nil {
			t.Fatal(err)
		}
		if engines[name], err = p.Engine(costs.NewEngine(m, costs.MachineOf(gpu)), solo); err != nil {
			t.Fatal(err)
		}
	}
	// doing is a server that has been at something, with so many requests of 280 tokens.
	doing := func(name, what string, batch int, mps bool) *batching.Replica {
		e := engines[name]
		e.ChunkTokens = 0
		r := &batching.Replica{Rates: batching.RatesOf(&e, mps), KV: batching.NewKVCache(1<<20, 1), Size: costs.UsualBlock, Phases: make([]int, costs.UsualBlock)}
		if what == "prefill" {
			r.Entered = []*batching.Flight{{Input: 250, Prompt: 250, Left: 250}}
			r.PrefillNext(0)
			return r
		}
		for range batch {
			r.Running, r.Marks = append(r.Running, &batching.Flight{}), append(r.Marks, 1)
			r.Context += 280
		}
		r.Decode(0)
		return r
	}
	unit := func(c *besideCell, beside string) float64 {
		mps := c.Mechanism == sharing.MechanismMPS
		r := doing(c.Server, c.Does, c.Batch, mps)
		g := &batching.GPU{Constants: &p.Parameters, Mechanism: c.Mechanism, Replicas: []*batching.Replica{r}}
		if beside != "idle" {
			other := map[string]string{"1b": "8b", "8b": "1b"}[c.Server]
			g.Replicas = append(g.Replicas, doing(other, beside, 4, mps))
		}
		g.Retime()
		return r.Act.Unit
	}
	measured := func(c *besideCell) float64 {
		i := slices.IndexFunc(cells, func(o besideCell) bool {
			return o.Mechanism == c.Mechanism && o.Server == c.Server && o.Does == c.Does && o.Batch == c.Batch && o.Beside == "idle"
		})
		return c.MeanMS / cells[i].MeanMS
	}
	off := map[sharing.Mechanism][]float64{}
	for i := range cells {
		c := &cells[i]
		if c.Beside == "idle" {
			continue
		}
		got, want := unit(c, c.Beside)/unit(c, "idle"), measured(c)
		off[c.Mechanism] = append(off[c.Mechanism], math.Abs(got/want-1))
		t.Logf("%-12s %s %-7s %2d beside %-7s: slower by %.2f, was %.2f (%d)", c.Mechanism, c.Server, c.Does, c.Batch, c.Beside, got, want, c.N)
	}
	return off
}
