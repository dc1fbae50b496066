// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

//go:embed rollout.md.tmpl
var pagesText string

// pages are the Markdown pages: "rollout" for a decision, and "plan" for a change of a running cluster.
var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"inline": inline, "cell": cell, "join": strings.Join, "shell": shell,
	"inc": func(n int) int { return n + 1 },
	"items": func(all []string) (text string) {
		for _, s := range all {
			text += "- " + inline(s) + "\n"
		}
		return text
	},
}).Parse(pagesText))

// inline makes one line of a text, of which Markdown takes nothing for an element, a link or code.
func inline(s string) string {
	return markdown.Replace(element.ReplaceAllString(strings.Join(strings.Fields(s), " "), "&lt;$1"))
}

var (
	element  = regexp.MustCompile(`<([A-Za-z/!?])`)
	markdown = strings.NewReplacer("`", "&#96;", "](", "]&#40;")
	bare     = regexp.MustCompile(`^[-A-Za-z0-9_./=:,@+]+$`)
)

// shell makes a word for a shell in a span of code.
func shell(s string) string {
	if bare.MatchString(s) {
		return s
	}
	return "'" + strings.NewReplacer("'", "", "`", "").Replace(strings.Join(strings.Fields(s), " ")) + "'"
}

func cell(s string) string { return strings.ReplaceAll(inline(s), "|", "\\|") }

// page adds plan.md, written of v by one of the pages.
func (b *builder) page(name, note string, v any) {
	var out bytes.Buffer
	b.fail(pages.ExecuteTemplate(&out, name, v))
	b.add("plan.md", note, []byte(plaintext.Show(out.String())))
}

// rolloutPage is the page of a roll-out: a step for the cluster, one for each group, and one for the workloads.
type rolloutPage struct {
	Namespace             string
	Plugin, MIG, MPS, EKS bool
	Provisional           []string
	Gates                 string   // of the DRA driver
	Objects               string   // kinds of the workloads' objects
	Claims                []string // files of claims that several pods name
	Notes                 []string
	Groups                []groupPage
	Workloads             []workloadPage
	Checks                []decision.TrapHit

	step int
}

// Next is the number of the next step.
func (p *rolloutPage) Next() int {
	p.step++
	return p.step
}

// groupPage is a group's step, and how to see that a node, NODE in a step for several, is configured.
type groupPage struct {
	Node, Key, GPU string
	Mechanisms     string
	Size           string // "4 GPUs on 1 node"
	Labels         []string
	VGPU           string // the type of a virtual GPU
	// The signs on a node that it is configured.
	Offers           []string // resources, with their amounts
	MPS, Parted, MIG bool     // clients of MPS; instances, made by the MIG manager and offered as resources
	HAMi             int      // its split of a GPU; 0 = it is not HAMi's
	Claims           bool     // the DRA driver hands them out
	HAMiMode         string   // HAMi's operating mode of the node, where it is not its default
}

// workloadPage describes how to apply a workload's documents and roll them back; without a file there are none.
type workloadPage struct {
	Name, File, Object, Back string
	Mechanism                sharing.Mechanism
}

// rollout describes the roll-out.
func (b *builder) rollout() *rolloutPage {
	p := &rolloutPage{Namespace: operatorNamespace, Plugin: b.byPlugin(), MIG: b.hasEntries(),
		MPS: b.any(usesMPS), EKS: slices.ContainsFunc(b.groups, (*group).onEKS), Provisional: b.provisional(),
		Objects: b.objects(), Gates: b.draGates(), Notes: b.notes, Checks: b.checks()}
	for _, g := range b.groups {
		p.Groups = append(p.Groups, b.groupPage(g, "NODE"))
	}
	for i := range b.fleet.Pools {
		pool := &b.fleet.Pools[i]
		each, known := pool.GPUsPerNode.Get()
		all := (pool.Count + each - 1) / max(1, each)
		free := all
		for _, g := range b.groups {
			if g.pool == pool {
				free -= len(g.nodes)
			}
		}
		if known && free > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("%d of %s of pool %s get no configuration here: once the workloads have "+
				"moved, nothing needs them.", free, plaintext.Count(all, "node"), pool.Name))
		}
	}
	for _, m := range b.members {
		w := workloadPage{Name: m.name, File: "pods/" + m.file() + ".yaml", Mechanism: m.Mechanism, Object: m.object(),
			Back: m.back()}
		if m.delivery() == sharing.DeliveryBare {
			w.File = ""
		}
		for _, key := range m.keys() {
			if m.delivery() == sharing.DeliveryDRA && b.named(m) && !slices.Contains(p.Claims, key) {
				p.Claims = append(p.Claims, key)
			}
		}
		p.Workloads = append(p.Workloads, w)
	}
	return p
}

// provisional lists the answers that rest on assumptions, with the measurements that would confirm them.
func (b *builder) provisional() (out []string) {
	for i := range b.result.Decisions {
		d := &b.result.Decisions[i]
		if d.Status != decision.StatusProvisional || d.Mechanism == sharing.MechanismNone {
			continue
		}
		text := fmt.Sprintf("%s by %v is right if what it assumes is.", d.Workload, d.Mechanism)
		if d.Measurement != nil {
			text += " " + d.Measurement.Text
		}
		out = append(out, text)
	}
	return out
}

func (b *builder) groupPage(g *group, node string) groupPage {
	p := groupPage{Node: node, Key: g.key, GPU: g.gpu.Name, Mechanisms: named(g.modes),
		Size: plaintext.Count(g.gpus(), "GPU"), Labels: sortedKeys(b.nodeLabels(g)), MPS: usesMPS(g.full()) && g.byPlugin(),
		Claims: g.delivery == sharing.DeliveryDRA, Parted: g.entries != nil, MIG: g.entries != nil && g.byPlugin()}
	if n := g.count(); n > 0 {
		p.Size += " on " + plaintext.Count(n, "node")
	}
	if g.delivery == sharing.DeliveryHAMi {
		p.HAMi = b.hamiSplit()
		switch {
		case g.any(usesMIG):
			p.HAMiMode = "mig"
		case slices.Contains(g.modes, sharing.MechanismHAMiWithMPS):
			p.HAMiMode = "mps"
		}
	}
	if g.any(isVGPU) {
		p.VGPU = cmp.Or(g.pool.VGPUType, "virtual GPU with the memory that its tenant needs")
	}
	if g.byPlugin() {
		offers := b.offered(g, g.nodes[0])
		for _, name := range sortedKeys(offers) {
			text := fmt.Sprint(offers[name])
			if len(g.nodes[0].Devices) == 1 && g.pool.GPUsPerNode.IsZero() {
				text += " times the node's GPUs"
			}
			p.Offers = append(p.Offers, name+": "+text)
		}
	}
	return p
}

// offered counts the resources that the device plugin offers on a node, by name.
func (b *builder) offered(g *group, n *layout.Node) map[string]int {
	out, times := map[string]int{}, 1
	if shared(g.full()) {
		times = g.slots()
	}
	for _, d := range n.Devices {
		if !usesMIG(d.Mode) {
			out[gpuResource] += times
		}
		for _, in := range d.Instances {
			out[b.resource(in.Profile.Name)]++
		}
	}
	return out
}

// checks are the traps that the input walks into, and each risk that the layout bears, once.
func (b *builder) checks() []decision.TrapHit {
	checks := slices.Clone(b.result.Traps)
	for _, d := range b.result.Decisions {
		for _, t := range d.Accepts {
			if !slices.ContainsFunc(checks, func(c decision.TrapHit) bool { return c.ID == t.ID }) {
				t.Message = d.Workload + ": " + t.Message
				checks = append(checks, t)
			}
		}
	}
	return checks
}
