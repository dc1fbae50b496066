package manifest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// read takes over the decision's groups and workloads, and notes what is left out of them.
func (b *builder) read(f *decision.Fleet, l *problem.List) {
	fleetPools, fleetWorkloads := map[string]*decision.Pool{}, map[string]*decision.Workload{}
	for i := range f.Pools {
		fleetPools[f.Pools[i].Name] = &f.Pools[i]
	}
	for i := range f.Workloads {
		fleetWorkloads[f.Workloads[i].Name] = &f.Workloads[i]
	}
	var pools, workloads []string
	for i, p := range b.result.Pools {
		switch {
		case fleetPools[p.Pool] == nil:
			l.Addf(fmt.Sprintf("result.pools[%d].pool", i), "give the fleet that was decided", "the fleet has no pool %q",
				p.Pool)
		case len(p.Groups) > 0:
			pools = append(pools, p.Pool)
		}
	}
	for i := range b.result.Decisions {
		switch d := &b.result.Decisions[i]; {
		case fleetWorkloads[d.Workload] == nil:
			l.Addf(fmt.Sprintf("result.decisions[%d].workload", i), "give the fleet that was decided",
				"the fleet has no workload %q", d.Workload)
		case d.Mechanism == sharing.MechanismNone:
			b.notes = append(b.notes, d.Workload+" fits nowhere and has no documents.")
		default:
			workloads = append(workloads, d.Workload)
		}
	}
	poolNames, names := b.fold("pool", pools), b.fold("workload", workloads)
	type where struct {
		pool      string
		mechanism sharing.Mechanism
	}
	groups := map[where]*group{}
	for i, p := range b.result.Pools {
		pool := fleetPools[p.Pool]
		if pool == nil {
			continue
		}
		gpu, _ := sharing.LookupGPU(pool.GPU) // known, or the fleet would not be valid
		for j, r := range p.Groups {
			g := &group{GroupResult: r, at: fmt.Sprintf("result.pools[%d].groups[%d]", i, j), pool: pool, gpu: gpu,
				key: poolNames[p.Pool] + "-" + strings.ReplaceAll(r.Mechanism.String(), "+", "-")}
			for i, key := 2, g.key; b.taken[g.key]; i++ {
				g.key = fmt.Sprintf("%s-%d", key, i)
			}
			g.model, _ = mig.Lookup(gpu.Name)
			l.If(groups[where{p.Pool, r.Mechanism}] != nil, g.at, "put all GPUs of one pool and mechanism into one group",
				"repeats an earlier group")
			groups[where{p.Pool, r.Mechanism}] = g
			if isVGPU(r.Mechanism) && pool.VGPUType == "" {
				b.notes = append(b.notes, fmt.Sprintf("Pool %s shares by %s, and its vgpu_type is not given: its documents are "+
					"left out.", p.Pool, r.Mechanism))
				continue
			}
			b.groups = append(b.groups, g)
		}
	}
	for i := range b.result.Decisions {
		d := &b.result.Decisions[i]
		w, g := fleetWorkloads[d.Workload], groups[where{d.Pool, d.Mechanism}]
		switch {
		case w == nil || d.Mechanism == sharing.MechanismNone:
		// Of a plan also on nodes that stay as they are, whose layouts are not the group's.
		case b.plan != nil && fleetPools[d.Pool] != nil && (g == nil || usesMIG(d.Mechanism)):
			gpu, _ := sharing.LookupGPU(fleetPools[d.Pool].GPU)
			g = &group{GroupResult: decision.GroupResult{Mechanism: d.Mechanism}, pool: fleetPools[d.Pool], gpu: gpu}
			g.model, _ = mig.Lookup(gpu.Name)
			b.members = append(b.members, newMember(d, w, g, names[d.Workload]))
		case g == nil:
			l.Addf(fmt.Sprintf("result.decisions[%d].pool", i), "", "no group of pool %q shares by %v", d.Pool, d.Mechanism)
		case slices.Contains(b.groups, g):
			m := newMember(d, w, g, names[d.Workload])
			m.at = fmt.Sprintf("result.decisions[%d]", i)
			g.members, b.members = append(g.members, m), append(b.members, m)
		}
	}
}

// fold makes DNS labels of names, each unlike the others of its namespace. Names
// that are labels stay, whatever stands before them.
func (b *builder) fold(kind string, names []string) map[string]string {
	out, taken := map[string]string{}, map[string]bool{}
	for _, name := range names {
		if _, short := spaced(name); dnsLabel.MatchString(short) {
			out[name], taken[name] = short, true
		}
	}
	for _, full := range names {
		if out[full] != "" {
			continue
		}
		namespace, name := spaced(full)
		key := func(label string) string { return strings.TrimPrefix(namespace+"/"+label, "/") }
		base := strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
		base = strings.Trim(base[:min(len(base), 60)], "-")
		folded := base
		for i := 2; taken[key(folded)]; i++ {
			folded = fmt.Sprintf("%s-%d", base, i)
		}
		out[full], taken[key(folded)] = folded, true
		b.notes = append(b.notes, fmt.Sprintf("The %s %q is called %s in the documents.", kind, name, folded))
	}
	return out
}

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func checkName(l *problem.List, path, name string) {
	l.If(!dnsLabel.MatchString(name), path,
		"use up to 63 lower-case letters, digits and dashes, with a letter or digit at both ends",
		"%q is not a Kubernetes name", name)
}

// check finds every reason for which no configuration can be written.
func (b *builder) check(l *problem.List) {
	checkName(l, "options.operator_namespace", b.opts.OperatorNamespace)
	for i, d := range b.opts.Deliveries {
		l.If(d == sharing.DeliveryBare || int(d) >= len(sharing.Deliveries()),
			fmt.Sprintf("options.deliveries[%d]", i), "", "%v has no documents", d)
	}
	for _, g := range b.groups {
		l.If(len(g.key) > 63, g.at, "shorten the pool's name",
			"pool %q with the mechanism makes a label of %d characters; 63 is the most", g.pool.Name, len(g.key))
		l.If(g.GPUs < 1, g.at+".gpus", "", "must be 1 or more, not %d", g.GPUs)
		l.If(shared(g.Mechanism) && g.clients() < 1, g.at+".layouts", "say who runs on each GPU",
			"%v needs tenants that share", g.Mechanism)
		if usesMIG(g.Mechanism) {
			g.checkMIG(l)
		}
	}
	for _, m := range b.members {
		m.check(l)
	}
}

func (m *member) check(l *problem.List) {
	l.If(len(m.name) > 63 || len(m.name) > 56 && shared(m.Mechanism), m.at+".workload",
		"shorten the workload's name to 56 characters",
		"%q, with the number of a shared device, makes a label of more than 63", m.Workload)
	if m.space != "" {
		checkName(l, m.at+".workload", m.space)
	}
	l.If(shared(m.Mechanism) && m.gpus() > 1, m.at+".gpus", "give the workload whole GPUs",
		"%d shared GPUs are no more than one: replicas may land on the same GPU", m.gpus())
	if m.group.key != "" && usesMIG(m.Mechanism) && !slices.ContainsFunc(m.group.Layouts,
		func(x decision.LayoutResult) bool { return instances(x)[m.Profile] > 0 }) {
		l.Addf(m.at+".profile", "name a profile that a layout of the group has", "no GPU of %s has an instance %q",
			m.group.key, m.Profile)
	}
}

// spaced divides a workload's name into its namespace, where it has one, and the rest.
func spaced(name string) (namespace, rest string) {
	i := strings.Index(name, "/")
	return name[:max(i, 0)], name[i+1:]
}
