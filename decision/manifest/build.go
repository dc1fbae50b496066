package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// File is a document in memory.
type File struct {
	Path string // relative, with forward slashes
	Data []byte
	Note string // what it is for, in a few words
}

// Options tune Build. The zero value is the documented default.
type Options struct {
	// Deliveries are the ways to write each workload for. nil stands for
	// GPUOperator, DRA, HAMiDelivery and VGPUManager. A delivery that cannot
	// deliver a mechanism is left out for it. Bare has no documents;
	// DevicePlugin is GPUOperator without the Operator's values.
	Deliveries []sharing.Delivery
	// OperatorNamespace is where the GPU Operator runs; "" is gpu-operator.
	OperatorNamespace string
	// KAIQueue is the queue of the pods under KAI; "" leaves the label out.
	KAIQueue string
	// Plan replaces the plan that is made of the fleet; PlanNotes and Traps are
	// added to either.
	Plan      *Plan
	PlanNotes []string
	Traps     []PlanTrap
}

// order is that of the deliveries: the first that delivers a workload writes
// pods/, the others have a folder of their own. DRA always has its own.
var order = []sharing.Delivery{sharing.DeliveryGPUOperator, sharing.DeliveryDevicePlugin, sharing.DeliveryHAMi, sharing.DeliveryVGPUManager,
	sharing.DeliveryDRA, sharing.DeliveryVolcano, sharing.DeliveryKAI}

func (o Options) deliveries() []sharing.Delivery {
	want := o.Deliveries
	if want == nil {
		want = []sharing.Delivery{sharing.DeliveryGPUOperator, sharing.DeliveryDRA, sharing.DeliveryHAMi, sharing.DeliveryVGPUManager}
	}
	var out []sharing.Delivery
	for _, d := range order {
		if slices.Contains(want, d) && (d != sharing.DeliveryDevicePlugin || !slices.Contains(want, sharing.DeliveryGPUOperator)) {
			out = append(out, d)
		}
	}
	return out
}

func (o Options) namespace() string {
	if o.OperatorNamespace == "" {
		return "gpu-operator"
	}
	return o.OperatorNamespace
}

// Build writes the configuration of f in memory. The files are ordered by path;
// plan.md is the one to read first. Warnings are what is legal and does not do
// what it looks like. The error matches ErrInvalid, names every problem, and
// comes without files.
func Build(f Fleet, opt Options) ([]File, []sharing.Warning, error) {
	var l problem.List
	f.check(&l)
	checkName(&l, "options.operator_namespace", opt.namespace())
	for i, d := range opt.Deliveries {
		if d == sharing.DeliveryBare || int(d) >= len(sharing.Deliveries()) {
			l.Addf(fmt.Sprintf("options.deliveries[%d]", i), "", "%v has no documents", d)
		}
	}
	if err := l.Err(); err != nil {
		return nil, nil, invalid(err)
	}
	b := builder{fleet: &f, opt: opt, deliveries: opt.deliveries()}
	if err := b.run(); err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(b.files, func(x, y File) int { return strings.Compare(x.Path, y.Path) })
	return b.files, dedupe(b.warnings), nil
}

func dedupe(ws []sharing.Warning) []sharing.Warning {
	seen := map[sharing.Warning]bool{}
	return slices.DeleteFunc(ws, func(w sharing.Warning) bool {
		dup := seen[w]
		seen[w] = true
		return dup
	})
}

type builder struct {
	fleet      *Fleet
	opt        Options
	deliveries []sharing.Delivery
	files      []File
	warnings   []sharing.Warning
}

func (b *builder) add(files []File, ws []sharing.Warning, err error) error {
	b.files = append(b.files, files...)
	b.warnings = append(b.warnings, ws...)
	return err
}

func (b *builder) uses(ds ...sharing.Delivery) bool {
	return slices.ContainsFunc(ds, func(d sharing.Delivery) bool { return slices.Contains(b.deliveries, d) })
}

// delivers are the chosen deliveries of a group, the primary one first.
func (b *builder) delivers(g *Group) []sharing.Delivery {
	var out []sharing.Delivery
	for _, d := range b.deliveries {
		if sharing.Delivers(d, g.Mechanism).Answer == sharing.AnswerYes && !wrongNode(g.Mechanism, d) {
			out = append(out, d)
		}
	}
	return out
}

// primary is the first delivery, or Bare.
func primary(ds []sharing.Delivery) sharing.Delivery {
	if len(ds) == 0 {
		return sharing.DeliveryBare
	}
	return ds[0]
}

// wrongNode reports whether the group's nodes are set up for another delivery:
// HAMi's plugin and NVIDIA's cannot both hand out a node's GPUs.
func wrongNode(m sharing.Mechanism, d sharing.Delivery) bool {
	hami := m == sharing.MechanismHAMi || m == sharing.MechanismHAMiWithMPS
	return (d == sharing.DeliveryHAMi || d == sharing.DeliveryVolcano) && !hami
}

func (b *builder) run() error {
	f := b.fleet
	for i := range f.Groups {
		g := &f.Groups[i]
		ds := b.delivers(g)
		if len(ds) == 0 {
			b.undelivered(g)
		}
		if rest := g.GPUsPerNode; rest > 0 && g.GPUs%rest != 0 {
			b.warnings = append(b.warnings, sharing.Warning{Code: WarnPartialNode, Path: g.Key(), Source: "k8s-device-plugin",
				Message: fmt.Sprintf("%d GPUs are %d whole nodes of %d and a part; a node shares by one mechanism, so the other GPUs of that node serve it too or idle",
					g.GPUs, g.GPUs/rest, rest),
				Remedy: "count whole nodes"})
		}
		files, err := g.nodeFiles(primary(ds))
		if err := b.add(files, nil, err); err != nil {
			return err
		}
		for n, d := range ds {
			if err := b.deliver(g, d, n == 0); err != nil {
				return err
			}
		}
		if isVGPU(g.Mechanism) && b.uses(sharing.DeliveryVGPUManager) {
			file, ws, err := g.vgpuFile()
			if err := b.add([]File{file}, ws, err); err != nil {
				return err
			}
		}
	}
	for i := range f.Workloads {
		w := &f.Workloads[i]
		b.warnings = append(b.warnings, f.group(w).warnings(w)...)
	}
	if err := b.cluster(); err != nil {
		return err
	}
	return b.plan()
}

func (b *builder) undelivered(g *Group) {
	reason := fmt.Sprintf("nothing of %s delivers %v", deliveryNames(b.deliveries), g.Mechanism)
	if g.Mechanism == sharing.MechanismResearch {
		reason = "research systems bring their own deployment; only the nodes' labels are written"
	}
	var can []string
	for _, d := range sharing.Deliveries() {
		if d != sharing.DeliveryBare && sharing.Delivers(d, g.Mechanism).Answer == sharing.AnswerYes {
			can = append(can, d.String())
		}
	}
	remedy := ""
	if len(can) > 0 {
		remedy = "ask for one of " + joinSorted(can)
	}
	b.warnings = append(b.warnings, sharing.Warning{Code: WarnNotDelivered, Path: g.Key(), Message: reason, Remedy: remedy,
		Source: sharing.Delivers(sharing.DeliveryGPUOperator, g.Mechanism).Source})
}

// deliver writes the workloads of g for one delivery.
func (b *builder) deliver(g *Group, d sharing.Delivery, first bool) error {
	if d == sharing.DeliveryDRA {
		files, ws, err := b.fleet.draFiles(g)
		return b.add(files, ws, err)
	}
	for i := range b.fleet.Workloads {
		w := &b.fleet.Workloads[i]
		if b.fleet.group(w) != g {
			continue
		}
		request := g.pluginPod
		switch d {
		case sharing.DeliveryHAMi:
			request = g.hamiPod
		case sharing.DeliveryVolcano:
			request = g.volcanoPod
		case sharing.DeliveryKAI:
			request = g.kaiPod
		case sharing.DeliveryVGPUManager:
			request = g.vgpuPod
		}
		p, ws, err := request(w)
		if err != nil {
			return err
		}
		if d == sharing.DeliveryKAI && b.opt.KAIQueue != "" {
			p.queue = b.opt.KAIQueue
		}
		folder := "pods/"
		if !first {
			folder = d.String() + "/pods/"
		}
		file, err := p.file(folder+w.file()+".yaml", w, g, fmt.Sprintf("%s, by %v", w.Name, d))
		if err := b.add([]File{file}, ws, err); err != nil {
			return err
		}
	}
	return nil
}

// byPlugin reports whether a group is delivered by the device plugin.
func (b *builder) byPlugin() bool {
	return b.uses(sharing.DeliveryGPUOperator, sharing.DeliveryDevicePlugin) && slices.ContainsFunc(b.fleet.Groups, func(g Group) bool { return g.byPlugin() })
}

// cluster writes what the cluster as a whole needs.
func (b *builder) cluster() error {
	f := b.fleet
	if b.byPlugin() {
		files, ws, err := f.pluginFiles(b.opt.namespace())
		if err := b.add(files, ws, err); err != nil {
			return err
		}
	}
	parted, ws := f.partedConfig()
	b.warnings = append(b.warnings, ws...)
	if parted != nil {
		files, err := partedFiles(parted, b.opt.namespace())
		if err := b.add(files, nil, err); err != nil {
			return err
		}
	}
	if b.uses(sharing.DeliveryGPUOperator) && (parted != nil || b.byPlugin()) {
		file, ws, err := f.operatorValues(parted != nil, b.byPlugin())
		if err := b.add([]File{file}, ws, err); err != nil {
			return err
		}
	}
	hami := slices.ContainsFunc(f.Groups, func(g Group) bool {
		return g.Mechanism == sharing.MechanismHAMi || g.Mechanism == sharing.MechanismHAMiWithMPS
	})
	if hami && b.uses(sharing.DeliveryHAMi) {
		file, err := f.hamiValues()
		if err := b.add([]File{file}, nil, err); err != nil {
			return err
		}
	}
	if hami && b.uses(sharing.DeliveryVolcano) {
		file, err := volcanoScheduler()
		if err := b.add([]File{file}, nil, err); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) plan() error {
	p := RolloutPlan(*b.fleet, b.opt)
	if b.opt.Plan != nil {
		p = *b.opt.Plan
	}
	p.Notes = append(slices.Clone(p.Notes), b.opt.PlanNotes...)
	p.Traps = append(slices.Clone(p.Traps), b.opt.Traps...)
	return b.add([]File{{Path: "plan.md", Data: p.Markdown(), Note: "the rollout, step by step: read it first"}}, nil, nil)
}
