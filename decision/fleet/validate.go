// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Limits of a fleet: larger numbers are taken for mistakes.
const (
	maxGPUs      = 1_000_000
	maxReplicas  = 100_000
	maxPools     = 10_000
	maxWorkloads = 100_000
)

// Validate checks a fleet that was built in Go, as ParseFleet checks a file.
func (f *Fleet) Validate() error { return f.validate(false) }

// validate with partial set ignores missing and zero figures, for fleets that were only partly decoded.
func (f *Fleet) validate(partial bool) error {
	c := &checker{partial: partial}
	c.If(f.Version != "v1" && !(partial && f.Version == ""), "version", `write version: v1`, "must be v1, not %q",
		problem.Clip(f.Version))
	if !partial {
		c.count("pools", len(f.Pools), maxPools)
		if len(f.Workloads) > 0 || f.Today == nil { // a cluster that is seen may have none yet
			c.count("workloads", len(f.Workloads), maxWorkloads)
		}
	}
	currency, pools := "", map[string]*Pool{}
	for i := range f.Pools {
		p, path := &f.Pools[i], fmt.Sprintf("pools[%d]", i)
		c.name(path+".name", p.Name)
		if _, dup := pools[p.Name]; dup && p.Name != "" {
			c.Addf(path+".name", "give each pool a name of its own", "duplicate pool name %q", problem.Clip(p.Name))
		}
		pools[p.Name] = p
		c.pool(path, p, &currency)
	}
	seen := map[string]bool{}
	for i := range f.Workloads {
		w, path := &f.Workloads[i], fmt.Sprintf("workloads[%d]", i)
		if !spacedPattern.MatchString(w.Name) {
			c.name(path+".name", w.Name)
		}
		c.If(seen[w.Name] && w.Name != "", path+".name", "give each workload a name of its own", "duplicate workload name %q",
			problem.Clip(w.Name))
		seen[w.Name] = true
		c.workload(path, w)
		if w.Pool != "" && pools[w.Pool] == nil {
			c.noPool(path+".pool", w.Pool, f.Pools)
		}
		if p := pools[w.Pool]; p != nil && p.Count > 0 && w.GPUs > p.Count {
			c.Addf(path+".gpus", "pin another pool or use fewer GPUs", "a replica needs %d GPUs and pool %q has %d", w.GPUs,
				p.Name, p.Count)
		}
	}
	oneOf(c, "trust", f.Trust, []Trust{"all"})
	if f.Today != nil && !partial {
		c.today(f, pools)
	}
	return c.Err()
}

func (c *checker) pool(path string, p *Pool, currency *string) {
	gpu, err := sharing.LookupGPU(p.GPU)
	if err != nil && !(c.partial && p.GPU == "") {
		c.AddErr(path+".gpu", err)
	}
	_, facts, _ := strings.Cut(strings.TrimSuffix(p.GPU, ")"), " (")
	for fact := range strings.SplitSeq(facts, ", ") {
		var b sharing.Bytes
		if gpu == nil || gpu.Memory.Value == 0 || b.UnmarshalText([]byte(fact)) != nil {
			continue
		}
		ratio := float64(b) / float64(gpu.Memory.Value)
		c.If(ratio > 1.1 || ratio < 1/1.1, path+".gpu", "leave its description out, or give another GPU a name of its own",
			"states %s of memory, and one %s has %s", b, gpu.Name, gpu.Memory.Value)
	}
	if !(c.partial && p.Count == 0) {
		c.within(path+".count", p.Count, 1, maxGPUs)
	}
	c.optional(path+".gpus_per_node", p.GPUsPerNode, 1024)
	c.optionalPrice(path+".price_per_gpu_hour", p.PricePerGPUHour, currency)
	c.optionalPrice(path+".node_price_per_hour", p.NodePricePerHour, currency)
	c.capacity(path, p, currency)
	c.If(!p.PricePerGPUHour.IsZero() && !p.NodePricePerHour.IsZero(), path+".node_price_per_hour", "keep one of the two",
		"contradicts price_per_gpu_hour")
	c.If(!p.NodePricePerHour.IsZero() && p.GPUsPerNode.IsZero(), path+".gpus_per_node",
		"add gpus_per_node, so that the node's price can be divided", "is missing next to node_price_per_hour")
	if n := p.CPUNodes; n != nil {
		c.within(path+".cpu_nodes.dedicated", n.Dedicated, 0, maxGPUs)
		c.within(path+".cpu_nodes.shared", n.Shared, 0, maxGPUs)
		c.price(path+".cpu_nodes.price_per_hour", n.PricePerHour, currency)
	}
	c.If(p.Delivery == sharing.DeliveryVGPUManager, path+".delivery", "set vgpu: true",
		"vGPU types are handed out by the hypervisor")
	c.If(len(p.Layouts) > p.Count && p.Count > 0, path+".layouts", "list one layout for each GPU at most",
		"%d layouts for %d GPUs", len(p.Layouts), p.Count)
	if gpu == nil || len(p.Layouts) == 0 {
		return
	}
	model, err := mig.Lookup(gpu.Name)
	if err != nil {
		c.Addf(path+".layouts", "remove layouts", "%s has no MIG profiles that are known", gpu.Name)
		return
	}
	for i, s := range p.Layouts {
		_, err := model.ParseLayout(s)
		c.AddErr(fmt.Sprintf("%s.layouts[%d]", path, i), err)
	}
}

func (c *checker) optionalPrice(path string, m sharing.Optional[cost.Money], currency *string) {
	if price, stated := m.Get(); stated {
		c.price(path, price, currency)
	}
}

func (c *checker) price(path string, m cost.Money, currency *string) {
	if c.partial && m.Currency() == "" {
		return
	}
	c.If(m.Micros() < 0 || m.Micros() > 1_000_000*1_000_000, path, "use a price per hour between 0 and 1,000,000",
		"%s is out of range", m)
	switch {
	case *currency == "":
		*currency = m.Currency()
	case *currency != m.Currency():
		c.Addf(path, "use one currency in a fleet", "is in %s and an earlier price in %s", m.Currency(), *currency)
	}
}

func (c *checker) workload(path string, w *Workload) {
	c.If(w.Kind == "" && !c.partial, path+".kind", known(kinds), "is missing")
	oneOf(c, path+".kind", w.Kind, kinds)
	c.load(path, w)
	c.within(path+".gpus", w.GPUs, 0, 1024)
	c.If(!w.Memory.IsZero() && w.Model != nil, path+".model", "keep memory or model", "contradicts memory")
	c.bytes(path+".memory", w.Memory)
	if m := w.Model; m != nil {
		unread := m.Config != "" && m.Parameters == 0
		c.If(unread && !c.partial, path+".model.config", "fill the model in by ParseModelConfig", "was not read")
		c.If((m.Parameters < 1e6 || m.Parameters > 1e14) && !unread, path+".model.parameters",
			"write the number of parameters, for example 8e9", "%d is out of range", m.Parameters)
		if m.Weights == "" && !c.partial && !unread {
			c.Addf(path+".model.weights", known(precisions), "is missing")
		}
		oneOf(c, path+".model.weights", m.Weights, precisions)
		oneOf(c, path+".model.kv_dtype", m.KVDtype, precisions)
		if kv, stated := m.KVCache.Get(); !stated || kv != 0 { // none, of models that keep no context
			c.bytes(path+".model.kv_cache", m.KVCache)
			c.If(m.Draft < 0 || m.Draft > 1e14, path+".model.draft_parameters",
				"write the number of parameters, for example 5e8", "%d is out of range", m.Draft)
		}
	}
	if p, stated := w.Priority.Get(); stated {
		c.within(path+".priority", p, 0, Priorities-1)
	}
	oneOf(c, path+".evidence", w.Evidence, evidences)
	c.share(path+".gpu_busy", w.GPUBusy)
	c.share(path+".peak_busy", w.PeakBusy)
	if mean, peak := w.GPUBusy.Or(0), w.PeakBusy.Or(1); peak < mean && mean <= 1 {
		c.Addf(path+".peak_busy", "the peak is at least the mean", "%v is below gpu_busy %v", peak, mean)
	}
	if f := w.Framework; f != nil {
		c.share(path+".framework.memory_fraction", f.MemoryFraction)
		c.If(f.MemoryFraction.Or(1) == 0, path+".framework.memory_fraction", "use a share between 0 and 1, for example 0.9",
			"0 is out of range")
		c.within(path+".framework.processes", f.Processes, 0, 4096)
		c.within(path+".framework.max_batch_prefill_tokens", f.MaxPrefill, 0, 1<<30)
		c.If(f.Name == "" && !c.partial, path+".framework.name", "for example vllm, tgi, sglang or pytorch", "is empty")
	}
	on := [][2]string{{"gpu_busy", w.BusyOn}, {"solo", w.SoloOn}}
	if w.Job != nil {
		on = append(on, [2]string{"job", w.Job.On})
		c.job(path+".job", w)
	}
	for _, v := range on {
		if _, err := sharing.LookupGPU(v[1]); v[1] != "" {
			c.AddErr(path+"."+v[0]+".on", err)
		}
	}
	c.latencies(path+".slo", w.Kind, &w.SLO)
	c.latencies(path+".solo", w.Kind, &w.Solo)
	c.service(path+".service", w)
	c.tenants(path, w)
	c.request(path, w)
	if t := w.Today; t != nil && !c.partial {
		c.If(t.Mechanism == sharing.MechanismNone, path+".today.mechanism", "leave today out, or name what it runs under",
			"none is not a way to run")
		c.profileOf(path+".today", t.Mechanism, t.Profile)
	}
	if r := w.Profile; r != nil && !c.partial {
		if r.Load != (profile.Load{}) { // else it names one that serves no tokens
			c.AddErr(path+".profile.load", r.Load.Validate())
		}
		c.If(r.Server == (profile.Server{}), path+".profile.server",
			"write the server as the profiles have it, for example {model: 8b}", "is empty")
	}
	u := w.UID.Or(0)
	c.If(u < 0 || u > 1<<31-2, path+".uid", "use a user id from 0", "%d is out of range", u)
}

// job checks the times of a workload that ends, up to ten years.
func (c *checker) job(path string, w *Workload) {
	c.If(w.Kind == "online-inference" || w.Kind == "notebook", path, "leave it out, or write kind: batch",
		"states an end that kind %s does not have", w.Kind)
	c.If(w.Load != nil || w.Service != nil || w.SLO != (profile.SLO{}), path,
		"leave load, service and slo out: duration holds the whole work", "contradicts the requests of a server")
	for i, v := range []profile.Duration{w.Job.Duration, w.Job.Deadline} {
		c.If((v <= 0 || v.Seconds() > 10*365*24*3600) && !(c.partial && v == 0), path+[]string{".duration", ".deadline"}[i],
			"write the time of the whole work, for example 40h", "%s is out of range", v)
	}
}

// latencies of tokens only servers have, and those of requests all but training.
func (c *checker) latencies(path string, k Kind, s *profile.SLO) {
	c.AddErr(path, s.Validate())
	trains, tokens := k == "training" || k == "distributed-training", *s != (profile.SLO{E2EP99: s.E2EP99})
	c.If(*s != (profile.SLO{}) && (trains || tokens && k != "" && !k.Serves()), path,
		"leave it out, or write kind: online-inference", "states latencies that kind %s does not have", k)
}

// maxBytesPerGPU is far above any GPU's memory; more is a mistake of units.
const maxBytesPerGPU = 16 * sharing.TiB

func (c *checker) bytes(path string, b sharing.Optional[sharing.Bytes]) {
	if b, stated := b.Get(); stated && (b <= 0 || b > maxBytesPerGPU) {
		c.Addf(path, "write the memory of one GPU, for example 18GiB", "%s is out of range", b)
	}
}

func (c *checker) tenants(path string, w *Workload) {
	if w.Tenant != "" {
		c.name(path+".tenant", w.Tenant)
	}
	seen := map[string]bool{}
	for i, t := range w.Trust {
		at := fmt.Sprintf("%s.trust[%d]", path, i)
		c.name(at, t)
		c.If(t != "" && t == w.Tenant, at, "a tenant trusts itself already", "names the workload's own tenant")
		c.If(seen[t], at, "keep one", "duplicate tenant %q", problem.Clip(t))
		seen[t] = true
	}
	for a := sharing.Axis(0); int(a) < sharing.AxisCount; a++ {
		if l := w.Isolation.Level(a); int(l) > int(sharing.LevelHardware) {
			c.Addf(path+".isolation."+a.String(), "", "is no level")
		}
	}
}

func (c *checker) request(path string, w *Workload) {
	r := w.Request
	if r == nil {
		return
	}
	c.within(path+".request.replicas_per_gpu", r.Replicas, 0, 10_000)
	c.within(path+".request.shared_gpus", r.SharedGPUs, 0, 1024)
	c.within(path+".request.cores_percent", r.Cores, 0, 100)
	c.profileOf(path+".request", r.Mechanism, r.Profile)
	c.If(r.MPSNamespace != "" && r.Mechanism != sharing.MechanismMPS, path+".request.mps_namespace",
		"leave it out, or request mps", "contradicts mechanism %s", r.Mechanism)
	c.If(w.GPUs > 1 && r.SharedGPUs > 1, path+".request.shared_gpus", "state the replica's GPUs in gpus",
		"contradicts gpus")
}

// profileOf checks that only mechanisms with MIG instances have a profile.
func (c *checker) profileOf(path string, m sharing.Mechanism, profile string) {
	instances := []sharing.Mechanism{sharing.MechanismMIG, sharing.MechanismMIGWithMPS, sharing.MechanismMIGBackedVGPU}
	c.If(profile != "" && !slices.Contains(instances, m), path+".profile", "leave it out, or name mig",
		"contradicts mechanism %s", m)
}

// joinProblems puts the problems of two stages into one error, without repeating a path that the first has reported.
func joinProblems(first, second error) error {
	var all, later problem.List
	all.AddErr("", first)
	later.AddErr("", second)
	taken := map[string]bool{}
	for _, p := range all.Problems() {
		taken[p.Path] = true
	}
	for _, p := range later.Problems() {
		if !taken[p.Path] {
			all.Add(p)
		}
	}
	return all.Err()
}
