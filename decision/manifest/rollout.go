package manifest

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/sharing"
)

//go:embed rollout.md.tmpl
var pagesText string

// pages are the Markdown pages: "rollout" of a decision, and "plan" of a change of what runs.
var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"inline": inline, "cell": cell, "join": strings.Join,
	"inc":   func(n int) int { return n + 1 },
	"upper": func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
	"items": func(all []string) (text string) {
		for _, s := range all {
			text += "- " + inline(s) + "\n"
		}
		return text
	},
	"locator": func(id sharing.SourceID) string {
		source, _ := sharing.SourceByID(id)
		return source.Locator
	},
}).Parse(pagesText))

func inline(s string) string { return strings.Join(strings.Fields(s), " ") }

func cell(s string) string { return strings.ReplaceAll(inline(s), "|", "\\|") }

// page adds plan.md, written of v by one of the pages.
func (b *builder) page(name, note string, v any) {
	var out bytes.Buffer
	b.fail(pages.ExecuteTemplate(&out, name, v))
	b.add("plan.md", note, out.Bytes())
}

// rolloutPage is the page of a roll-out: a step for the cluster, one for each group, and one for the workloads.
type rolloutPage struct {
	Namespace                       string
	Plugin, MIG, Operator, DRA, MPS bool
	Gates                           string // of the DRA driver
	Notes                           []string
	Pools                           []decision.PoolResult
	Phases                          []phase
	Groups                          []groupPage
	Workloads                       []workloadPage
	Checks                          []decision.TrapHit
	Cites                           sharing.Citations

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
	Mechanism      sharing.Mechanism
	GPUs, Nodes    int
	Kinds          []nodeKind
	Labels         []string
	VGPU, Conf     string // the type of a virtual GPU, and the file for the host
	Offers         string // of nvidia.com/gpu by a node
	Split          int    // of a GPU under HAMi
	Rights         []Privilege
}

// workloadPage says how to apply a workload's documents; without a file there are none.
type workloadPage struct {
	Name, File, Claims string
	Mechanism          sharing.Mechanism
}

// rollout describes the roll-out.
func (b *builder) rollout() *rolloutPage {
	p := &rolloutPage{Namespace: b.opts.OperatorNamespace, Plugin: b.byPlugin(), MIG: b.any(usesMIG),
		Operator: b.uses(sharing.DeliveryGPUOperator), DRA: b.uses(sharing.DeliveryDRA), MPS: b.any(usesMPS),
		Gates: b.draGates(),
		Notes: slices.Concat(b.opts.Notes, b.notes), Pools: b.result.Pools, Phases: rolloutTable().Phases,
		Checks: b.checks()}
	for _, g := range b.groups {
		p.Groups = append(p.Groups, b.groupPage(g, "NODE"))
	}
	for _, m := range b.members {
		w := workloadPage{Name: m.name, File: "pods/" + m.file() + ".yaml", Mechanism: m.Mechanism}
		switch b.primary(m.group) {
		case sharing.DeliveryBare:
			w.File = ""
		case sharing.DeliveryDRA:
			if w.File = "dra/" + w.File; shared(m.Mechanism) {
				w.Claims = m.group.key
			}
		}
		p.Workloads = append(p.Workloads, w)
	}
	return p
}

func (b *builder) groupPage(g *group, node string) groupPage {
	p := groupPage{Node: node, Key: g.key, GPU: g.gpu.Name, Mechanism: g.Mechanism, GPUs: g.GPUs, Nodes: g.nodes(),
		Kinds: g.nodeKinds(), Split: b.hamiSplit(), Rights: Privileges(g.Mechanism)}
	p.Labels = sortedKeys(b.nodeLabels(g, p.Kinds[0]))
	if isVGPU(g.Mechanism) {
		p.VGPU = g.pool.VGPUType
		if conf := "vgpu/" + g.key + ".conf"; slices.ContainsFunc(b.Files, func(f File) bool { return f.Path == conf }) {
			p.Conf = conf
		}
	}
	times := 1
	if shared(g.Mechanism) {
		times = g.clients()
	}
	switch each, known := g.pool.GPUsPerNode.Get(); {
	case known:
		p.Offers = fmt.Sprint(times * each)
	case times == 1:
		p.Offers = "the node's GPUs"
	default:
		p.Offers = fmt.Sprintf("%d times the node's GPUs", times)
	}
	return p
}

// checks are the traps that the input walks into, and each risk that the layout bears, once.
func (b *builder) checks() []decision.TrapHit {
	checks := slices.Clone(b.result.Traps)
	for i := range b.result.Decisions {
		d := &b.result.Decisions[i]
		for _, t := range d.Accepts {
			if !slices.ContainsFunc(checks, func(c decision.TrapHit) bool { return c.ID == t.ID }) {
				t.Message = d.Workload + ": " + t.Message
				checks = append(checks, t)
			}
		}
	}
	return checks
}

// Privilege is a right that carrying out a mechanism needs.
type Privilege struct {
	Who    string // who or what must hold it
	What   string // the right
	Why    string
	Source sharing.SourceID
}

// phase is a step of a roll-out.
type phase struct {
	When, Focus string
	Do, Check   []string
	Source      sharing.SourceID
}

//go:embed rollout.yaml
var rolloutYAML []byte

var rolloutTable = sync.OnceValue(func() (all struct {
	Privileges []struct {
		Privilege `yaml:",inline"`
		Of        []sharing.Mechanism
	}
	Phases []phase
}) {
	_ = yaml.Unmarshal(rolloutYAML, &all) // a test reads the file that is built in
	return all
})

// Privileges lists what m needs beyond the right to create pods, in the order
// in which the rollout meets it. It is empty for a mechanism that needs none.
func Privileges(m sharing.Mechanism) (out []Privilege) {
	if m == sharing.MechanismExclusive || m == sharing.MechanismInServer {
		return nil
	}
	for _, p := range rolloutTable().Privileges {
		if slices.Contains(p.Of, m) || p.Of == nil && out == nil {
			out = append(out, p.Privilege)
		}
	}
	return out
}
