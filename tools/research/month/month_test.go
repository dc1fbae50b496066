// Package month_test plays months in which a cluster takes the advice of package advise.
package month_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/advise"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// service holds the truth of a workload, which the adviser sees measured only.
type service struct {
	name, tenant string
	online       bool
	memory       int     // GiB
	busy, drift  float64 // mean share of a GPU's time at first, and the factor by which a day changes it
	mean, limit  float64 // seconds of GPU time of a request, and of its P99
	alone        float64 // its P99 on a GPU of its own
	known        int     // the hour from which on its memory and activity are measured
	weaken       bool
	replicas     int
	comes, goes  int // hours
}

// load is the share of a GPU's time that a replica needs at an hour; the day's highest is peak of its mean.
func (s *service) load(hour int) float64 {
	return s.day(hour) * (1 + (peak-1)*math.Sin(2*math.Pi*float64(hour)/24))
}

// day is the mean of the day.
func (s *service) day(hour int) float64 {
	return min(0.6, s.busy*math.Pow(s.drift, float64(max(0, hour-s.comes))/24))
}

const (
	peak       = 1.4
	gpusOfNode = 4
	memoryGiB  = 80
)

// device names what a service's pods ask for: how the GPU is shared, and the nodes that a plan pinned them to.
type device struct {
	kind   string // "exclusive", "time-slicing", "mps" or "mig PROFILE"
	pinned []string
}

type pod struct {
	of  *service
	gpu int // of its node; -1 = a MIG instance
	dev string
}

type machine struct {
	name        string
	shape       map[string]int // devices that it hands out, by kind
	layouts     int            // its GPUs in MIG mode
	devices     []layout.Device
	pods        []pod
	lost, given bool
}

// configure makes a node hand out devices of one kind.
func (m *machine) configure(kind string) {
	each := map[string]int{"exclusive": 1, "time-slicing": 4, "mig 3g.40gb": 2}[kind]
	m.shape, m.layouts = map[string]int{kind: gpusOfNode * each}, 0
	gpu := layout.GPUOf("A100-SXM4-80GB")
	d := layout.Device{GPU: gpu, Slots: int16(each)}
	if profile, is := strings.CutPrefix(kind, "mig "); is {
		m.layouts = gpusOfNode
		p, err := gpu.MIG.Profile(profile)
		if err != nil {
			panic(err)
		}
		d.Mode, d.Slots, d.Instances = sharing.MechanismMIG, 0, []layout.Instance{{Profile: p}, {Profile: p, Start: 4}}
	} else if err := d.Mode.UnmarshalText([]byte(kind)); err != nil {
		panic(err)
	}
	m.devices = slices.Repeat([]layout.Device{d}, gpusOfNode)
}

// free is the GPU with a free device of a kind and the fewest pods, or -2.
func (m *machine) free(kind string, rng *rand.Rand) int {
	used, held := map[int]int{}, 0
	for _, p := range m.pods {
		if p.dev == kind {
			held++
		}
		used[p.gpu]++
	}
	if held >= m.shape[kind] {
		return -2
	}
	if strings.HasPrefix(kind, "mig") {
		return -1
	}
	gpus := rng.Perm(gpusOfNode - m.layouts)
	return slices.MinFunc(gpus, func(x, y int) int { return cmp.Compare(used[x], used[y]) })
}

// site is a cluster. The scheduler places what waits; what was given back comes again when nothing else has room.
type site struct {
	t        *testing.T
	machines []*machine
	device   map[*service]device
	rng      *rand.Rand
}

func (c *site) node(name string) *machine {
	return c.machines[slices.IndexFunc(c.machines, func(m *machine) bool { return m.name == name })]
}

func (c *site) runs(s *service) (n int) {
	for _, m := range c.machines {
		for _, p := range m.pods {
			if p.of == s {
				n++
			}
		}
	}
	return n
}

func (c *site) start(s *service, m *machine, kind string) bool {
	gpu := m.free(kind, c.rng)
	if gpu > -2 {
		m.pods = append(m.pods, pod{s, gpu, kind})
	}
	return gpu > -2
}

// kind is the device that most replicas of a service hold, or that they ask for.
func (c *site) kind(s *service) string {
	held := map[string]int{}
	for _, m := range c.machines {
		for _, p := range m.pods {
			if p.of == s {
				held[p.dev]++
			}
		}
	}
	kind := c.device[s].kind
	for _, k := range slices.Sorted(keys(held)) {
		if held[k] > held[kind] {
			kind = k
		}
	}
	return kind
}

// schedule starts the replicas that a service lacks on the emptiest nodes that have their device: on those that a plan
// has for it, or else on whole GPUs, or on such a MIG instance wherever it is. Where that is nowhere, a node that was
// given back comes again, as the group of nodes for that device makes it.
func (c *site) schedule(s *service) {
	d := c.device[s]
	other := d.kind
	if d.pinned != nil && !strings.HasPrefix(d.kind, "mig") {
		other = "exclusive"
	}
	for c.runs(s) < s.replicas {
		nodes := slices.Clone(c.machines)
		slices.SortStableFunc(nodes, func(x, y *machine) int { return cmp.Compare(len(x.pods), len(y.pods)) })
		put := func(kind string, planned bool) bool {
			return slices.ContainsFunc(nodes, func(m *machine) bool {
				return !m.lost && !m.given && (!planned || slices.Contains(d.pinned, m.name)) && c.start(s, m, kind)
			})
		}
		if put(d.kind, true) || put(other, false) {
			continue
		}
		back := slices.IndexFunc(c.machines, func(m *machine) bool { return m.given })
		if back < 0 {
			return
		}
		c.machines[back].given = false
		c.machines[back].configure(other)
	}
}

func (c *site) leave(s *service) {
	for _, m := range c.machines {
		m.pods = slices.DeleteFunc(m.pods, func(p pod) bool { return p.of == s })
	}
	delete(c.device, s)
}

// take takes a step of a plan, and fails where a replica would have no device.
func (c *site) take(s *migrate.Step, all []*service) {
	if s.Action != migrate.ActionMove {
		m := c.node(s.Node)
		if len(m.pods) > 0 {
			c.t.Errorf("%s: %d pods run on it", s.Title(), len(m.pods))
		}
		if m.given = s.Action == migrate.ActionFree; !m.given {
			m.layouts, m.shape, m.devices = 0, map[string]int{}, s.Gets.Devices
			for i := range s.Gets.Devices {
				d := &s.Gets.Devices[i]
				if d.Mode == sharing.MechanismMIG {
					m.layouts++
				} else {
					m.shape[d.Mode.String()] += int(max(1, d.Slots))
				}
				for _, in := range d.Instances {
					m.shape["mig "+in.Profile.Name]++
				}
			}
		}
		return
	}
	of := all[slices.IndexFunc(all, func(v *service) bool { return v.name == s.Workload })]
	was := c.kind(of)
	for _, to := range s.To {
		for range to.Replicas {
			if m := c.node(to.Node); m.lost || m.given || !c.start(of, m, s.Seat) {
				c.t.Errorf("%s: no %s is free on %s", s.Title(), s.Seat, to.Node)
			}
		}
	}
	for _, from := range s.From {
		for range from.Replicas {
			m := c.node(from.Node)
			i := slices.IndexFunc(m.pods, func(p pod) bool { return p.of == of && p.dev == was })
			if i < 0 {
				c.t.Errorf("%s: no replica is left on %s", s.Title(), from.Node)
				continue
			}
			m.pods = slices.Delete(m.pods, i, i+1)
		}
	}
	if strong := was == "exclusive" && !of.weaken || strings.HasPrefix(was, "mig"); strong && s.Seat != was && s.Seat != "exclusive" {
		c.t.Errorf("%s: isolation weakens from %s", s.Title(), was)
	}
	d := device{kind: s.Seat}
	for _, m := range c.machines {
		if slices.ContainsFunc(m.pods, func(p pod) bool { return p.of == of }) {
			d.pinned = append(d.pinned, m.name)
		}
	}
	c.device[of] = d
}

// fleet writes what a look sees.
func (c *site) fleet(all []*service, hour int, noise *rand.Rand) string {
	var nodes, workloads strings.Builder
	n := 0
	for _, m := range c.machines {
		if m.given {
			continue
		}
		n += gpusOfNode
		node := layout.Node{Name: m.name, Pool: "a", Devices: m.devices}
		if m.lost {
			node.Closed = "not ready"
		}
		for i, p := range m.pods {
			a := layout.Assignment{Key: fmt.Sprintf("%s-%s-%d", p.of.name, m.name, i), Workload: &layout.Workload{Name: p.of.name}, Device: layout.UnknownDevice}
			if profile, is := strings.CutPrefix(p.dev, "mig "); is {
				for _, d := range m.devices {
					for _, in := range d.Instances {
						if in.Profile.Name == profile {
							a.Profile = in.Profile
						}
					}
				}
			}
			node.Assignments = append(node.Assignments, a)
		}
		text, err := json.Marshal(&node)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&nodes, "    - %s\n", text)
	}
	for _, s := range all {
		if _, here := c.device[s]; !here {
			continue
		}
		device := c.kind(s)
		today := "mechanism: " + strings.Replace(device, "mig ", "mig, profile: ", 1)
		if s.weaken && device == "exclusive" {
			today += ", may_weaken: true"
		}
		kind := "batch"
		if s.online {
			kind = fmt.Sprintf("online-inference, slo: {e2e_p99: %.0fms}, solo: {e2e_p99: %.0fms}", 1000*s.limit, 1000*s.alone)
		}
		fmt.Fprintf(&workloads, "  - {name: %s, kind: %s, replicas: %d, tenant: %s, today: {%s, object: Deployment}", s.name, kind, s.replicas, s.tenant, today)
		if hour >= s.known {
			mean := s.day(hour) * (0.95 + 0.1*noise.Float64())
			fmt.Fprintf(&workloads, ", memory: %dGiB, gpu_busy: %.3f, peak_busy: %.3f", s.memory, mean, mean*peak)
		}
		fmt.Fprintln(&workloads, "}")
	}
	return fmt.Sprintf("version: v1\npools:\n  - {name: a, gpu: A100-SXM4-80GB, count: %d, gpus_per_node: %d, price_per_gpu_hour: 3 USD, delivery: gpu-operator}\nworkloads:\n%stoday:\n  nodes:\n%s",
		n, gpusOfNode, workloads.String(), nodes.String())
}

func keys(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// late reports which pods of an online service on one GPU have a P99 beyond the limit.
func late(pods []*service, kind string, hour int, seed uint64) map[*service]bool {
	out := map[*service]bool{}
	for i, p99 := range played(pods, kind, hour, seed) {
		if s := pods[i]; s.online && p99 > s.limit {
			out[s] = true
		}
	}
	return out
}

// played simulates pods that share a GPU: requests come at random, log-normal in length; a pod serves one after
// another, and those that have one share the GPU's time evenly, at a cost of a fiftieth for taking turns. Under MPS
// two run beside one another at 0.8 of their pace. What is no service has always one request, and waits between. This
// is none of the models that plans rest on.
func played(pods []*service, kind string, hour int, seed uint64) []float64 {
	const requests = 3_000
	type state struct {
		rng              *rand.Rand
		next, left, gap  float64
		waiting, answers []float64
	}
	all := make([]state, len(pods))
	for i, s := range pods {
		st := &all[i]
		st.rng = rand.New(rand.NewPCG(seed, uint64(len(s.name))<<32+uint64(s.comes)<<16+uint64(i)))
		load := max(0.01, s.load(hour))
		if st.gap = s.mean / load; !s.online {
			st.gap = s.mean * (1 - load) / load
		}
		st.next = st.rng.ExpFloat64() * st.gap
	}
	draw := func(i int) float64 { return pods[i].mean * math.Exp(0.5*all[i].rng.NormFloat64()-0.125) }
	now, done := 0.0, 0
	for done < requests*len(pods) {
		active := 0
		for i := range all {
			if len(all[i].waiting) > 0 {
				active++
			}
		}
		pace := 1.0
		if active > 1 {
			if pace = 0.98 / float64(active); kind == "mps" {
				pace = 1.6 / float64(active)
			}
		}
		step, who, ends := math.Inf(1), -1, false
		for i := range all {
			if d := all[i].next - now; d < step {
				step, who, ends = d, i, false
			}
			if len(all[i].waiting) > 0 && all[i].left/pace < step {
				step, who, ends = all[i].left/pace, i, true
			}
		}
		for i := range all {
			if len(all[i].waiting) > 0 {
				all[i].left -= step * pace
			}
		}
		now += step
		st := &all[who]
		if !ends {
			if st.waiting = append(st.waiting, now); len(st.waiting) == 1 {
				st.left = draw(who)
			}
			if st.next = math.Inf(1); pods[who].online {
				st.next = now + st.rng.ExpFloat64()*st.gap
			}
			continue
		}
		st.answers = append(st.answers, now-st.waiting[0])
		if st.waiting = st.waiting[1:]; len(st.waiting) > 0 {
			st.left = draw(who)
		}
		if !pods[who].online {
			st.next = now + st.rng.ExpFloat64()*st.gap
		}
		done++
	}
	out := make([]float64, len(pods))
	for i := range all {
		v := all[i].answers
		slices.Sort(v)
		if len(v) > 0 {
			out[i] = v[len(v)*99/100]
		}
	}
	return out
}

// missed are the services of which a replica misses its limit.
func (c *site) missed(hour int) map[*service]bool {
	out := map[*service]bool{}
	for _, m := range c.machines {
		for gpu := range gpusOfNode {
			var on []*service
			kind := ""
			for _, p := range m.pods {
				if p.gpu == gpu {
					on, kind = append(on, p.of), p.dev
				}
			}
			for s := range late(on, kind, hour, uint64(hour)) {
				out[s] = true
			}
		}
	}
	return out
}

// oracle counts the nodes of one who knows the truth of the hour: what may share goes, the busiest first, where it
// fits first and nobody misses a limit.
func (c *site) oracle(hour int) int {
	var pods []*service
	whole, instances := 0, 0
	for _, m := range c.machines {
		for _, p := range m.pods {
			switch {
			case p.gpu < 0:
				instances++
			case p.dev == "exclusive" && !p.of.weaken:
				whole++
			default:
				pods = append(pods, p.of)
			}
		}
	}
	slices.SortStableFunc(pods, func(x, y *service) int { return cmp.Compare(y.day(hour), x.day(hour)) })
	var gpus [][]*service
next:
	for _, s := range pods {
		for i, on := range gpus {
			memory, load, trusted := s.memory, s.load(6), true
			for _, other := range on {
				memory, load, trusted = memory+other.memory, load+other.day(hour)*peak, trusted && other.tenant == s.tenant
			}
			if with := append(slices.Clone(on), s); trusted && memory <= memoryGiB && load < 1 && len(late(with, "mps", hour, 1)) == 0 {
				gpus[i] = with
				continue next
			}
		}
		gpus = append(gpus, []*service{s})
	}
	gpusNeeded := len(gpus) + whole + (instances+1)/2
	return (gpusNeeded + gpusOfNode - 1) / gpusOfNode
}

// services draws those of the first hour, and those that come later.
func services(rng *rand.Rand, n, hours int) []*service {
	var all []*service
	for i := range n {
		s := &service{name: fmt.Sprintf("t%d/w%02d", i%2, i), tenant: fmt.Sprintf("t%d", i%2), online: rng.IntN(3) > 0,
			memory: 4 + rng.IntN(20), busy: 0.03 + 0.15*rng.Float64(), drift: 0.985 + 0.04*rng.Float64(), mean: 0.03 + 0.05*rng.Float64(),
			known: rng.IntN(48), weaken: rng.IntN(5) > 0, replicas: 1 + rng.IntN(3), goes: math.MaxInt}
		if i >= n*2/3 {
			s.comes = 1 + rng.IntN(hours)
			s.known += s.comes
		}
		if rng.IntN(4) == 0 {
			s.goes = s.comes + 24 + rng.IntN(hours)
		}
		s.alone = played([]*service{s}, "exclusive", s.comes+6, 7)[0]
		s.limit = s.alone * (1.5 + 6*rng.Float64())
		all = append(all, s)
	}
	return all
}

func newSite(t *testing.T, seed uint64) *site {
	c := &site{t: t, device: map[*service]device{}, rng: rand.New(rand.NewPCG(seed, 2))}
	for i := range 10 {
		m := &machine{name: fmt.Sprintf("n%02d", i)}
		switch {
		case i >= 8:
			m.configure("mig 3g.40gb")
		case i >= 6:
			m.configure("time-slicing")
		default:
			m.configure("exclusive")
		}
		c.machines = append(c.machines, m)
	}
	return c
}

// TestMonth lets a cluster run under the adviser, and its twin without: workloads come and go, loads drift, a node is
// lost. What stands is carried out at once. No replica runs in the twin alone, nothing that a plan changes breaks a
// limit that was kept before it, no isolation weakens, and at most one workload goes back to where a plan took it from.
func TestMonth(t *testing.T) {
	race.Long(t)
	days, every := nightly.Cases(3, 30), 6
	for seed := range uint64(nightly.Cases(1, 3)) {
		month(t, seed, days*24, every)
	}
}

func month(t *testing.T, seed uint64, hours, every int) {
	rng := rand.New(rand.NewPCG(seed, 32))
	all := services(rng, 18, hours)
	advised, twin := newSite(t, seed), newSite(t, seed)
	first := []string{"exclusive", "exclusive", "time-slicing", "mig 3g.40gb"}
	kinds := map[*service]string{}
	for _, s := range all {
		kinds[s] = first[rng.IntN(len(first))]
	}
	dir := filepath.Join(t.TempDir(), "looks")
	left := map[string]string{} // where a plan took a workload from
	plans, reversals, mended, broken, kept := 0, 0, 0, 0, 0
	var usedNodes, twinNodes, oracleNodes int
	for hour := 0; hour < hours; hour++ {
		for _, c := range []*site{advised, twin} {
			for _, s := range all {
				if hour == s.comes {
					c.device[s] = device{kind: kinds[s]}
				}
				if hour == s.goes {
					c.leave(s)
				}
			}
		}
		if hour == hours/3/every*every {
			fullest := slices.MaxFunc(advised.machines, func(x, y *machine) int { return cmp.Compare(len(x.pods), len(y.pods)) })
			for _, c := range []*site{advised, twin} {
				m := c.node(fullest.name)
				m.lost, m.pods = true, nil
			}
		}
		for _, s := range all {
			for _, c := range []*site{advised, twin} {
				if _, here := c.device[s]; here {
					c.schedule(s)
				}
			}
		}
		if hour%every == 0 {
			f, err := decision.ParseFleet([]byte(advised.fleet(all, hour, rng)))
			if err != nil {
				t.Fatal(err)
			}
			a, err := advise.Look(t.Context(), dir, time.Date(2026, 11, 1, hour, 0, 0, 0, time.UTC), f, advise.Options{Patience: 24 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			steps := a.Plan.Steps
			if a.Now != nil {
				steps = a.Now.Steps
			}
			if a.Stands || a.Now != nil {
				plans++
				before := advised.missed(hour)
				for i := range steps {
					s := &steps[i]
					if s.Action == migrate.ActionMove {
						of := all[slices.IndexFunc(all, func(v *service) bool { return v.name == s.Workload })]
						was := fmt.Sprint(advised.kind(of), s.From)
						if left[s.Workload] == fmt.Sprint(s.Seat, s.To) {
							reversals++
						}
						left[s.Workload] = was
					}
					advised.take(s, all)
				}
				after := advised.missed(hour)
				for s := range after {
					if !before[s] {
						t.Errorf("seed %d, hour %d: %s misses its limit after the plan, and kept it before", seed, hour, s.name)
					}
				}
				for s := range before {
					if !after[s] {
						mended++
					}
				}
				t.Logf("seed %d, hour %d: %d steps, at once: %t", seed, hour, len(steps), a.Now != nil)
			}
			with, without := advised.missed(hour), twin.missed(hour)
			for _, s := range all {
				switch {
				case with[s] && !without[s]:
					broken++
				case s.online && advised.runs(s) > 0 && !with[s]:
					kept++
				}
			}
			if hour%24 == 0 {
				oracleNodes += 24 * advised.oracle(hour)
			}
		}
		with, without := 0, 0
		for _, s := range all {
			with, without = with+advised.runs(s), without+twin.runs(s)
		}
		if with < without && hour%every == 0 {
			t.Errorf("seed %d, hour %d: %d replicas run, and %d without advice", seed, hour, with, without)
		}
		for i, m := range advised.machines {
			if !m.given && !m.lost {
				usedNodes++
			}
			if !twin.machines[i].lost {
				twinNodes++
			}
		}
	}
	if reversals > 1 {
		t.Errorf("seed %d: %d reversals", seed, reversals)
	}
	if plans == 0 || usedNodes >= twinNodes {
		t.Errorf("seed %d: %d plans stood, %d node hours of %d", seed, plans, usedNodes, twinNodes)
	}
	t.Logf("seed %d, %d days: %d plans, %d reversals, %d limits mended; of the limits at looks %d kept, %d missed and kept in the twin; "+
		"%d node hours without advice, %d with it, %d of an oracle", seed, hours/24, plans, reversals, mended, kept, broken, twinNodes, usedNodes, oracleNodes)
}
