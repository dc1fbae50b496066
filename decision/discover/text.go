package discover

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// TextOptions tune WriteText. The zero value is the documented default.
type TextOptions struct {
	Width int // columns; 0 means 100
	// Most limits the lines of each list of findings and unknowns; 0 means 12, and less than 0 all.
	Most int
}

// WriteText writes the discovery for people: what shares what today and with which isolation, the workloads, what
// is odd, what could be smaller, and what is not known.
func (d *Discovery) WriteText(w io.Writer, opts TextOptions) error {
	p := opts.page()
	p.today(d)
	p.workloads(d)
	p.findings(d.Findings)
	p.unknown(d)
	_, err := p.out.WriteTo(w)
	return err
}

// page is an empty page with the options' defaults.
func (o TextOptions) page() page {
	if o.Width <= 0 {
		o.Width = 100
	}
	return page{width: o.Width, most: cmp.Or(o.Most, 12)}
}

type page struct {
	out         bytes.Buffer
	width, most int
}

// line writes a line, wrapped.
func (p *page) line(text string) {
	fmt.Fprintln(&p.out, plaintext.Wrap("  "+strings.TrimSpace(text), p.width, 2))
}

func (p *page) head(title string) { fmt.Fprintf(&p.out, "\n%s\n", title) }

func (p *page) list(title string, n int, more string, text func(i int) string) {
	if n == 0 {
		return
	}
	p.head(title)
	for i := range n {
		if p.most > 0 && i == p.most && n > p.most+1 {
			p.line(fmt.Sprintf("and %d more: %s", n-i, more))
			return
		}
		p.line(text(i))
	}
}

func (p *page) today(d *Discovery) {
	gpus := 0
	for i := range d.Fleet.Pools {
		gpus += d.Fleet.Pools[i].Count
	}
	fmt.Fprintf(&p.out, "%s in %s, %s\n", plaintext.Count(gpus, "GPU"), plaintext.Count(len(d.Fleet.Pools), "pool"),
		plaintext.Count(len(d.Fleet.Workloads), "workload"))
	if len(d.Today) > 0 {
		p.head("TODAY")
	}
	for i := range d.Today {
		s := &d.Today[i]
		text := fmt.Sprintf("%s  %v: %s, %s", s.Pool, s.Mechanism, plaintext.Count(s.GPUs, "GPU"),
			plaintext.Count(s.Tenants, "tenant"))
		for k := range d.Fleet.Pools {
			if v := &d.Fleet.Pools[k]; v.Name == s.Pool && s.Mechanism != sharing.MechanismExclusive {
				if len(s.Inside) > 0 {
					text += "; between instances"
				}
				text += "; isolation: " + isolation(v, s.Mechanism)
				for _, in := range s.Inside {
					text += fmt.Sprintf("; each %s is shared by %s among %d pods, isolation between them: %s", in.Profile,
						plain(in.Mechanism), in.Pods, isolation(v, in.Mechanism))
				}
				if s.Mechanism == sharing.MechanismTimeSlicing && d.kai[s.Pool] != "" {
					text += "; " + d.kai[s.Pool]
				}
			}
		}
		p.line(text)
	}
}

// isolation writes a mechanism's isolation on a pool's GPUs, by axis.
func isolation(v *decision.Pool, m sharing.Mechanism) string {
	c, err := decision.CompilePool(v)
	if err != nil {
		return "not known"
	}
	var parts []string
	for a := range sharing.AxisCount {
		i := c.Ground().Isolation(m, sharing.Axis(a))
		parts = append(parts, fmt.Sprintf("%v %v", i.Axis, i.Level))
	}
	return strings.Join(parts, ", ")
}

func (p *page) workloads(d *Discovery) {
	p.list("WORKLOADS", len(d.Fleet.Workloads), "the fleet file has all", func(i int) string {
		v := &d.Fleet.Workloads[i]
		at := fmt.Sprintf("workloads[%d]", i)
		replicas := plaintext.Count(max(1, v.Replicas.Max), "replica")
		for _, a := range d.Fleet.Today.Autoscalers {
			if a.Workload == v.Name {
				replicas += fmt.Sprintf(" (autoscaled, %d to %d)", a.Min, a.Max)
			}
		}
		text := fmt.Sprintf("%s  %v (%v), %s", v.Name, v.Kind, d.Provenance[at+".kind"], replicas)
		if v.GPUs > 1 {
			text += fmt.Sprintf(" of %d GPUs", v.GPUs)
		}
		if r := v.Request; r != nil {
			text += strings.TrimSuffix(fmt.Sprintf("; %v %s", r.Mechanism, r.Profile), " ")
			if r.Replicas > 0 {
				text += fmt.Sprintf(" %d to %s", r.Replicas, map[bool]string{true: "an instance", false: "a GPU"}[r.Profile != ""])
			}
		}
		memory, busy := "not known", "not known"
		if m, ok := v.Memory.Get(); ok {
			memory = fmt.Sprintf("%v (%v)", m, d.Provenance[at+".memory"].Basis)
		}
		if f, ok := v.GPUBusy.Get(); ok {
			busy = fmt.Sprintf("%.0f%% (%v)", 100*f, d.Provenance[at+".gpu_busy"].Basis)
		}
		for k := range d.Used {
			u := &d.Used[k]
			if u.Workload != v.Name {
				continue
			}
			if high, ok := u.MemoryMax.Get(); ok {
				memory = fmt.Sprintf("P50 %v, P95 %v, at most %v", u.MemoryP50, u.MemoryP95, high)
			}
			if mean, ok := u.BusyMean.Get(); ok {
				busy = fmt.Sprintf("%.0f%%, P50 %.0f%%, P95 %.0f%%", 100*mean, 100*u.BusyP50.Or(0), 100*u.BusyP95.Or(0))
			}
		}
		return text + fmt.Sprintf("; memory %s, busy %s", memory, busy)
	})
}

const alike = 3 // the number of findings of one code that are listed one by one

func (p *page) findings(all []Finding) {
	if len(all) > 0 {
		p.head("FINDINGS")
	}
	of, told := map[string]int{}, map[string]int{}
	for i := range all {
		of[all[i].Code]++
	}
	for i := range all {
		f := &all[i]
		told[f.Code]++
		if n := told[f.Code]; p.most < 0 || n <= alike || of[f.Code] == alike+1 {
			p.line(fmt.Sprintf("%s  %s: %s: %s [%s]", f.Severity, f.Code, f.Object, f.Message, f.Source))
		} else if n == alike+1 {
			p.line(fmt.Sprintf("%s  %s: and %d more: the JSON has all", f.Severity, f.Code, of[f.Code]-alike))
		}
	}
}

// unknown lists what is not known by workload, pool and node, and once for each way to know it what that settles.
func (p *page) unknown(d *Discovery) {
	type entry struct {
		name, money string
		keys        []string
	}
	var entries []*entry
	byName := map[string]*entry{}
	var ways []string
	settles := map[string][]string{}
	for i := range d.Unknown {
		u := &d.Unknown[i]
		parent, key := cutLast(u.Path, '.')
		name, model := parent, ""
		var k int
		switch {
		case scan(parent, "workloads[%d]", &k):
			name = d.Fleet.Workloads[k].Name
		case scan(parent, "pools[%d]", &k):
			name = "pool " + d.Fleet.Pools[k].Name
			model = d.Fleet.Pools[k].GPU
		case parent == "":
			name = "the cluster"
		}
		if byName[name] == nil {
			byName[name] = &entry{name: name, money: u.MonthlyAtStake}
			entries = append(entries, byName[name])
		}
		byName[name].keys = append(byName[name].keys, key)
		way := strings.ReplaceAll(u.SettleBy, name, "NAME")
		if model != "" {
			way = strings.ReplaceAll(way, fmt.Sprintf("%q", model), "the GPU's model")
		}
		if settles[way] == nil {
			ways = append(ways, way)
		}
		if !slices.Contains(settles[way], key) {
			settles[way] = append(settles[way], key)
		}
	}
	p.list("NOT KNOWN, by the money a month that hangs on it", len(entries), "the JSON has all", func(i int) string {
		e := entries[i]
		text := e.name + ": " + strings.Join(e.keys, ", ")
		if e.money != "" {
			text += " (" + e.money + ")"
		}
		return text
	})
	for _, way := range ways {
		p.line(fmt.Sprintf("To know %s: %s", strings.Join(settles[way], ", "), way))
	}
}

func scan(s, format string, k *int) bool {
	_, err := fmt.Sscanf(s, format, k)
	return err == nil
}
