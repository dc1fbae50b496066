// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// Run guards a machine's GPUs until ctx ends: it samples reader, reads the tenants' servers' pages, and after each
// window carries out the proposals through a. It calls report with each window's observation and proposals, and returns
// its error, if any.
func Run(
	ctx context.Context, reader telemetry.Reader, r Rules, c *Config, a *Actor, report func(Observation, []Proposal) error,
) error {
	devices, err := reader.Devices(ctx)
	if err != nil {
		return err
	}
	if len(c.GPUs) > len(devices) {
		return fmt.Errorf("%w: gpus: index %d, but this machine has %d GPUs", ErrNoGPU, len(c.GPUs)-1, len(devices))
	}
	seen, models := *c, map[string]*layout.GPU{}
	seen.GPUs = make([]layout.Device, len(devices))
	copy(seen.GPUs, c.GPUs)
	for i, d := range devices {
		if models[d.Name] == nil {
			models[d.Name] = layout.GPUOf(d.Name)
		}
		seen.GPUs[i].UUID, seen.GPUs[i].GPU = d.UUID, models[d.Name]
	}
	w := &watcher{gpus: seen.GPUs, tenants: c.Tenants, rules: r, procs: commandLine}
	w.pods = container.NewResolver(os.DirFS("/"))
	g, err := New(r, seen)
	if err != nil {
		return err
	}
	if a.Log != nil {
		if err := a.Log.write(auditEntry{Event: eventBegin, Rules: &g.rules}); err != nil {
			return err
		}
		g.resume(a.Log, time.Now())
	}
	return w.run(ctx, reader, func(o Observation) error {
		list := g.Step(o)
		if err := g.carryOut(context.WithoutCancel(ctx), a, list); err != nil {
			return err
		}
		return report(o, list)
	})
}

// carryOut gives proposals to an actor, and records those that it carried out.
func (g *Guard) carryOut(ctx context.Context, a *Actor, list []Proposal) error {
	for i := range list {
		done, err := a.Act(ctx, &list[i])
		if err != nil {
			return err
		}
		if done {
			g.Done(&list[i])
		}
	}
	return nil
}

// watcher observes a real node: a sampler for the devices, and for each server its metrics page.
type watcher struct {
	gpus    []layout.Device
	tenants []Tenant
	rules   Rules
	start   time.Time
	telemetry.Latest
	procs func(pid uint32) []string // the arguments of a process
	pods  *container.Resolver
	wait  sync.WaitGroup

	mu      sync.Mutex
	pages   []pageWindow
	sampled []time.Time // by GPU
	devices []deviceWindow
}

// ErrNoGPU is returned if the configuration names a GPU that the machine lacks.
var ErrNoGPU = errors.New("guard: no such GPU")

// deviceWindow has the readings of a device since it was last asked: a single one shows no more than a sixth of a
// second.
type deviceWindow struct {
	util, watts []float64
	shares      map[uint32]float64 // percent, by process, summed up
	readings    int                // readings of shares
}

// mean is the mean of readings; missing where there are none.
func mean(values []float64) sharing.Optional[float64] {
	if len(values) == 0 {
		return sharing.Optional[float64]{}
	}
	return sharing.Some(stat.Mean(values, nil))
}

// pageWindow holds the readings of a tenant's metrics page since the last observation.
type pageWindow struct {
	tpot []float64
	load sharing.Optional[float64] // tokens a second
	at   time.Time
}

// Sample, with Begin and Event of Latest, makes a watcher a telemetry.Sink.
func (w *watcher) Sample(x *telemetry.Sample) error {
	w.mu.Lock()
	w.sampled[x.Device] = time.Now()
	d := &w.devices[x.Device]
	if v, ok := x.Get(telemetry.MetricGPUUtilPercent); ok {
		d.util = append(d.util, v)
	}
	if v, ok := x.Get(telemetry.MetricPowerWatts); ok {
		d.watts = append(d.watts, v)
	}
	if x.Groups.Has(telemetry.GroupProcessUtil) {
		if d.readings++; d.shares == nil {
			d.shares = map[uint32]float64{}
		}
		for _, p := range x.Processes {
			d.shares[p.PID] += p.SMUtilPercent.Or(0)
		}
	}
	w.mu.Unlock()
	return w.Latest.Sample(x)
}

// run samples and reads pages until ctx ends, and calls step with an Observation after each window.
func (w *watcher) run(ctx context.Context, reader telemetry.Reader, step func(Observation) error) error {
	sampler, err := telemetry.NewSampler(reader, telemetry.SamplerOptions{
		Period: w.rules.Window / 4, SlowPeriod: w.rules.Window / 2, Skip: telemetry.GroupGPM | telemetry.GroupPCIe,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.start, w.pages = time.Now(), make([]pageWindow, len(w.tenants))
	w.sampled, w.devices = make([]time.Time, len(w.gpus)), make([]deviceWindow, len(w.gpus))
	w.wait.Go(func() {
		if err := sampler.Stream(ctx, w); err != nil {
			cancel(err)
		}
	})
	for i, t := range w.tenants {
		if t.Metrics != "" && lead(w.tenants, i) == i {
			w.wait.Go(func() { w.scrape(ctx, i, t.Metrics) })
		}
	}
	tick := time.NewTicker(w.rules.Window)
	defer tick.Stop()
	for err == nil {
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-tick.C:
			if err = step(w.observe()); err != nil {
				cancel(err)
			}
		}
	}
	w.wait.Wait()
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// scrape reads a server's own metrics twice a window. A page that cannot be read leaves the tenant unevaluated.
func (w *watcher) scrape(ctx context.Context, i int, url string) {
	client := serving.NewClient()
	before := map[string]serving.Reading{}
	var beforeAt time.Time
	tick := time.NewTicker(w.rules.Window / 2)
	defer tick.Stop()
	for {
		within, cancel := context.WithTimeout(ctx, w.rules.Window)
		readings, _ := client.Fetch(within, url) // readings of a damaged page are valid
		cancel()
		var did serving.Reading
		at, whole, now := time.Now(), len(readings) > 0, map[string]serving.Reading{}
		for _, r := range readings {
			key := r.Model + "\x00" + r.Replica
			now[key] = r
			d, err := r.Since(before[key])
			if _, ok := before[key]; !ok || err != nil {
				whole = false
			}
			did.Add(d)
		}
		before = now // models that a page no longer has are forgotten
		if whole {
			w.mu.Lock()
			seen := &w.pages[i]
			seen.at, seen.load = at, sharing.Some(did.GenerationTokens.Or(0)/at.Sub(beforeAt).Seconds())
			if mean, ok := did.ITL.Mean(); ok {
				seen.tpot = append(seen.tpot, 1e3*mean)
			}
			w.mu.Unlock()
		}
		beforeAt = at
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// observe puts together the observation of the window that ends now.
func (w *watcher) observe() Observation {
	o := Observation{
		At: time.Since(w.start), GPUs: make([]GPUSeen, len(w.gpus)), Tenants: make([]TenantSeen, len(w.tenants)),
	}
	w.mu.Lock()
	pages, devices := slices.Clone(w.pages), slices.Clone(w.devices)
	for i := range w.pages {
		w.pages[i].tpot, w.pages[i].load = nil, sharing.Optional[float64]{}
	}
	clear(w.devices)
	for i, at := range w.sampled {
		if o.GPUs[i].At = at.Sub(w.start); at.IsZero() {
			o.GPUs[i].At, o.GPUs[i].Down = 0, "no reading yet"
		}
	}
	w.mu.Unlock()
	var pids []uint32 // others are forgotten
	unclear := false
	for i := range w.gpus {
		g := &o.GPUs[i]
		if e, down := w.Down(i).Get(); down {
			g.Down = string(e.Kind) + " " + e.Detail
		}
		g.UtilPercent, g.Watts = mean(devices[i].util), mean(devices[i].watts)
		if v, ok := w.Get(i, telemetry.MetricEnergyJoules); ok {
			g.Joules = sharing.Some(v)
		}
		list, ok := w.Processes(i)
		if !ok {
			continue
		}
		for k := range w.tenants {
			o.Tenants[k].Gone = o.Tenants[k].Gone || w.tenants[k].GPU == i && w.tenants[k].named()
		}
		for _, p := range list {
			pids = append(pids, p.PID)
			unclear = w.process(&o, i, p, &devices[i]) || unclear
		}
	}
	w.pods.Keep(pids...)
	for i := range o.Tenants {
		t, page := &o.Tenants[i], &pages[lead(w.tenants, i)]
		if unclear { // a share may be any tenant's, and any tenant may be there
			t.Activity, t.Gone = sharing.Optional[float64]{}, false
		}
		t.Load = page.load
		if len(page.tpot) > 0 {
			t.TPOT, t.At, t.Gone = sharing.Some(median(page.tpot)), page.at.Sub(w.start), false
		}
	}
	return o
}

// process adds a process seen on a GPU, and reports whether its tenant is ambiguous.
func (w *watcher) process(o *Observation, gpu int, p telemetry.Process, d *deviceWindow) (unclear bool) {
	// Under MPS the driver attributes the work of clients to the server; otherwise
	// a process without a reading ran nothing.
	known := w.gpus[gpu].Mode != sharing.MechanismMPS && d.readings > 0
	share := d.shares[p.PID] / 100 / float64(max(d.readings, 1))
	k, pod := w.owner(p, gpu)
	switch {
	case k == shared:
		return true
	case k < 0 || w.tenants[k].GPU != gpu:
		if !known {
			share = 1
		}
		if !strings.Contains(p.Name, "nvidia-cuda-mps") { // its clients are listed instead
			o.GPUs[gpu].Others = append(o.GPUs[gpu].Others, ProcessSeen{PID: p.PID, Name: p.Name, Activity: share})
		}
		return false
	}
	t := &o.Tenants[k]
	t.At, t.Gone = o.GPUs[gpu].At, false
	if name := pod.Namespace + "/" + pod.Name; pod != (container.Pod{}) && !slices.Contains(t.Pods, name) {
		t.Pods = append(t.Pods, name)
	}
	if known {
		t.Activity = sharing.Some(t.Activity.Or(0) + share)
	}
	return false
}

// shared marks a process that several tenants' descriptions fit: it is counted for none.
const shared = -2

// owner finds the tenant of a process on a GPU, -1 for none, or shared, and the process's pod.
func (w *watcher) owner(p telemetry.Process, gpu int) (owner int, pod container.Pod) {
	owner = -1
	if id := w.pods.Resolve(p.PID)[0]; id.Known() {
		pod = id.Pod
	}
	args := w.procs(p.PID)
	for i := range w.tenants {
		t, work := &w.tenants[i], w.tenants[i].Workload
		owned := pod.Namespace == work.Namespace && pod.OwnedBy(work.Name) &&
			(work.Container == "" || pod.Container == work.Container)
		switch {
		case !slices.Contains(t.PIDs, p.PID) && !owned && !fits(t.Command, args):
		case owner >= 0 && lead(w.tenants, owner) != lead(w.tenants, i):
			return shared, pod
		case owner < 0 || t.GPU == gpu:
			owner = i
		}
	}
	return owner, pod
}

// fits reports that words are successive whole arguments of a command line. The
// first may be the last element of a path.
func fits(words, args []string) bool {
	for i := 0; len(words) > 0 && i+len(words) <= len(args); i++ {
		first := args[i] == words[0] || path.Base(args[i]) == words[0]
		if first && slices.Equal(args[i+1:i+len(words)], words[1:]) {
			return true
		}
	}
	return false
}

// commandLine reads the arguments of a process; none where it cannot.
func commandLine(pid uint32) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
}
