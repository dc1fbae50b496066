// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/sharing"
)

// ErrInvalid is matched by every error about an input: a decision that cannot be configured, or a document that
// cannot be read or that its reader would refuse. Such an error names every problem with its path and, where there
// is one, the remedy.
var ErrInvalid = errors.New("manifest: invalid")

func invalid(err error) error { return problem.Under(ErrInvalid, err) }

// Folder holds the documents of Build in memory. Folder.Write puts it on disk.
type Folder struct {
	Files  []File  // by path; plan.md is the one to read first
	Groups []Group // of the nodes that the files set up
	// Warnings list settings that are legal and do otherwise than they look.
	Warnings []sharing.Warning
}

// Group is the nodes of a pool that are configured alike.
type Group struct {
	Key      string // the value of their label GroupLabel, and the name of their files
	Pool     string
	Delivery sharing.Delivery // by which pods/ gets their GPUs; DeliveryBare where nothing delivers them
	Nodes    []*layout.Node
}

// File is a document in memory.
type File struct {
	Path string // relative, with forward slashes
	Data []byte
	Note string // what it is for, in a few words
}

// Options tune Build. The zero value is the documented default.
type Options struct {
	// Deliveries are the ways to write each workload for. nil stands for DeliveryGPUOperator, DeliveryDRA,
	// DeliveryHAMi and DeliveryVGPUManager, and for DeliveryVolcano and DeliveryKAI on the pools that state them, where
	// they come first. A delivery that cannot deliver a mechanism is left out for it.
	// DeliveryBare has no documents; DeliveryDevicePlugin is DeliveryGPUOperator without the Operator's values.
	Deliveries        []sharing.Delivery
	OperatorNamespace string // the namespace of the GPU Operator; "" is gpu-operator
	KAIQueue          string // the queue of the pods under KAI; "" leaves the label out
}

// order is that of the deliveries: the first that delivers a workload writes
// pods/, the others have a folder of their own. DRA always has its own.
var order = []sharing.Delivery{sharing.DeliveryGPUOperator, sharing.DeliveryDevicePlugin, sharing.DeliveryHAMi,
	sharing.DeliveryVGPUManager,
	sharing.DeliveryDRA, sharing.DeliveryVolcano, sharing.DeliveryKAI}

func (o Options) deliveries(pools []decision.Pool) []sharing.Delivery {
	want := o.Deliveries
	if want == nil {
		want = []sharing.Delivery{sharing.DeliveryGPUOperator, sharing.DeliveryDRA, sharing.DeliveryHAMi,
			sharing.DeliveryVGPUManager}
		for _, p := range pools {
			want = append(want, p.Delivery)
		}
	}
	var out []sharing.Delivery
	for _, d := range order {
		if slices.Contains(want, d) && (d != sharing.DeliveryDevicePlugin || !slices.Contains(want,
			sharing.DeliveryGPUOperator)) {
			out = append(out, d)
		}
	}
	return out
}

// Build writes the configuration of a decision r for f in memory: documents for every workload that has a place,
// and plan.md with the rollout, the decision's traps, and what was left out. Names that Kubernetes would refuse are
// folded to lower-case letters, digits and dashes. The error matches ErrInvalid, names every problem, and comes
// without a folder.
func Build(f *decision.Fleet, r *decision.Result, opts Options) (*Folder, error) {
	if err := f.Validate(); err != nil {
		return nil, invalid(err)
	}
	opts.OperatorNamespace = cmp.Or(opts.OperatorNamespace, "gpu-operator")
	b := builder{result: r, opts: opts, deliveries: opts.deliveries(f.Pools), taken: map[string]bool{}}
	return b.build(f)
}

// build writes all documents.
func (b *builder) build(f *decision.Fleet) (*Folder, error) {
	var l problem.List
	b.read(f, &l)
	b.check(&l)
	if err := l.Err(); err != nil {
		return nil, invalid(err)
	}
	for _, g := range b.groups {
		b.Groups = append(b.Groups, Group{g.key, g.pool.Name, g.primary(), g.nodes})
		for _, n := range g.nodes {
			if x, y := n.Strangers(); x != nil {
				b.warn(WarnStrangers, g.key, layout.RuleAnyDevice.Source(), "give them nodes of their own, deliver by DRA, or "+
					"state trust", "%s and %s do not trust each other, and may get one GPU of %s: %v", x.Workload.Name,
					y.Workload.Name, n.Name, layout.RuleAnyDevice)
				break
			}
		}
	}
	if b.run(); b.err != nil {
		return nil, b.err
	}
	slices.SortStableFunc(b.Files, func(x, y File) int { return strings.Compare(x.Path, y.Path) })
	seen := map[sharing.Warning]bool{}
	b.Warnings = slices.DeleteFunc(b.Warnings, func(w sharing.Warning) bool {
		dup := seen[w]
		seen[w] = true
		return dup
	})
	return &b.Folder, nil
}

type builder struct {
	Folder
	result     *decision.Result
	opts       Options
	deliveries []sharing.Delivery
	groups     []*group
	members    []*member // in the order of the decisions
	memberOf   map[run]*member
	untyped    []string // pools of virtual GPUs without a type
	notes      []string // for plan.md
	plan       *migrate.Plan
	taken      map[string]bool // configurations that nodes choose today, which keep their names
	err        error           // the first that writing a document met
}

func (b *builder) fail(err error) {
	b.err = cmp.Or(b.err, err)
}

func (b *builder) add(path, note string, data []byte) {
	b.Files = append(b.Files, File{Path: path, Data: data, Note: note})
}

// encode adds a file of documents under a header of comments.
func (b *builder) encode(path, note string, header []string, docs ...*yaml.Node) {
	data, err := yamlnode.Encode(header, docs...)
	b.add(path, note, data)
	b.fail(err)
}

func (b *builder) warn(code sharing.WarningCode, path string, source sharing.SourceID, remedy, format string,
	args ...any) {
	b.Warnings = append(b.Warnings, sharing.Warning{Code: code, Path: path, Source: source, Remedy: remedy,
		Message: fmt.Sprintf(format, args...)})
}

func (b *builder) uses(ds ...sharing.Delivery) bool {
	return slices.ContainsFunc(ds, func(d sharing.Delivery) bool { return slices.Contains(b.deliveries, d) })
}

// any reports whether a group shares in the way that is asked for.
func (b *builder) any(is func(sharing.Mechanism) bool) bool {
	return slices.ContainsFunc(b.groups, func(g *group) bool { return g.any(is) })
}

// delivers are the chosen deliveries of a group, the primary one first. Unasked that is the one that its nodes are
// planned for, and claims as another way to what the device plugin does.
func (b *builder) delivers(g *group) []sharing.Delivery {
	var out []sharing.Delivery
	own := g.nodes[0].Delivery
	if b.opts.Deliveries == nil && own != sharing.DeliveryBare && !plugin(own) && b.carries(own, g) {
		return []sharing.Delivery{own}
	}
	for _, d := range b.deliveries {
		// HAMi's plugin and NVIDIA's cannot both hand out a node's GPUs.
		wrongNode := (d == sharing.DeliveryHAMi || d == sharing.DeliveryVolcano) && !slices.ContainsFunc(g.modes, usesHAMi)
		stated := b.opts.Deliveries == nil && (d == sharing.DeliveryVolcano || d == sharing.DeliveryKAI)
		if !wrongNode && !stated && b.carries(d, g) {
			out = append(out, d)
		}
	}
	return out
}

// plugin reports whether NVIDIA's device plugin hands out the GPUs.
func plugin(d sharing.Delivery) bool {
	return d == sharing.DeliveryGPUOperator || d == sharing.DeliveryDevicePlugin
}

// carries reports whether a delivery can set up a group's nodes as they are planned.
func (b *builder) carries(d sharing.Delivery, g *group) bool {
	for _, m := range g.modes {
		if sharing.Delivers(d, m).Answer != sharing.AnswerYes {
			return false
		}
	}
	if !plugin(d) || plugin(g.nodes[0].Delivery) {
		return true
	}
	rules := layout.RulesOf(d)
	for _, n := range g.nodes {
		other := layout.Node{Name: n.Name, Delivery: d, Devices: slices.Clone(n.Devices), Assignments: n.Assignments}
		for i := range other.Devices {
			if o := &other.Devices[i]; shared(o.Mode) {
				rules.Configure(o, o.Mode, int32(g.slots()))
			}
		}
		if _, problems := layout.Observe([]layout.Node{other}); len(problems) > 0 {
			return false
		}
	}
	return true
}

func (b *builder) run() {
	if b.plan != nil {
		b.runPlan()
		return
	}
	if len(b.groups) == 0 {
		b.page("rollout", "why there is nothing to apply", b.rollout())
		return
	}
	b.vgpuFiles()
	b.routers()
	for _, g := range b.groups {
		if len(g.by) == 0 {
			b.undelivered(g)
		}
		b.nodeFile(g)
	}
	b.claims()
	for _, m := range b.members {
		for i, d := range m.by() {
			if d != sharing.DeliveryDRA {
				b.pods(m, d, i == 0)
			}
		}
		b.limitWarnings(m)
	}
	b.canaries()
	b.cluster()
	b.page("rollout", "the rollout, step by step: read it first", b.rollout())
}

func (b *builder) undelivered(g *group) {
	var asked, can []string
	for _, d := range b.deliveries {
		asked = append(asked, d.String())
	}
	for _, d := range sharing.Deliveries() {
		if d != sharing.DeliveryBare && b.carries(d, g) {
			can = append(can, d.String())
		}
	}
	reason := fmt.Sprintf("nothing of %s delivers %s", strings.Join(asked, ", "), named(g.modes))
	if slices.Contains(g.modes, sharing.MechanismResearch) {
		reason = "research systems bring their own deployment; only the nodes' labels are written"
	}
	remedy := ""
	if len(can) > 0 {
		slices.Sort(can)
		remedy = "ask for one of " + strings.Join(can, ", ")
	}
	source := sharing.Delivers(sharing.DeliveryGPUOperator, g.modes[0]).Source
	b.warn(WarnNotDelivered, g.key, source, remedy, "%s", reason)
}

// byPlugin reports whether the device plugin delivers a group.
func (b *builder) byPlugin() bool {
	return slices.ContainsFunc(b.groups, (*group).byPlugin)
}

// hasEntries reports whether nodes have MIG instances that are made beforehand.
func (b *builder) hasEntries() bool {
	return slices.ContainsFunc(b.groups, func(g *group) bool { return g.entries != nil })
}

// cluster writes what the cluster as a whole needs.
func (b *builder) cluster() {
	byPlugin, hasMIG, hasHAMi := b.byPlugin(), b.hasEntries(), b.any(usesHAMi)
	for _, f := range []struct {
		needed bool
		write  func()
	}{{true, b.eksGroups}, {byPlugin, b.pluginFiles}, {hasMIG, b.partedFiles},
		{b.uses(sharing.DeliveryGPUOperator) && (hasMIG || byPlugin), b.operatorValues},
		{hasHAMi && b.uses(sharing.DeliveryHAMi), b.hamiValues},
		{hasHAMi && b.uses(sharing.DeliveryVolcano), b.volcanoScheduler},
	} {
		if f.needed {
			f.write()
		}
	}
}

// Codes of the warnings that Build gives besides those about configuration documents, which stand in package sharing.
const (
	// no delivery that was asked for can deliver the mechanism
	WarnNotDelivered    sharing.WarningCode = "not-delivered"
	WarnPerProcess      sharing.WarningCode = "limit-per-process" // MPS limits processes, not containers
	WarnFractionUnknown sharing.WarningCode = "fraction-unknown"  // the memory fraction cannot be computed
	WarnNoMemoryLimit   sharing.WarningCode = "no-memory-limit"   // one tenant can take all memory
	WarnCUDAGraphs      sharing.WarningCode = "cuda-graphs"       // HAMi's compute limit does not see graphs
	WarnNodeSizeUnknown sharing.WarningCode = "node-size-unknown" // layouts cannot be divided into nodes
	// a cluster-wide MIG strategy would override MPS nodes
	WarnMIGStrategyEnv  sharing.WarningCode = "mig-strategy-env"
	WarnClaimNamespaces sharing.WarningCode = "claim-namespaces" // claims do not reach across namespaces
	WarnClaimsLeftOut   sharing.WarningCode = "claims-left-out"  // too many devices for a named claim each
	WarnNotEnforced     sharing.WarningCode = "not-enforced"     // the scheduler places and enforces nothing
	WarnStrangers       sharing.WarningCode = "strangers"        // the delivery may put them on one GPU
)

// ErrExists is matched when Folder.Write would have to replace something.
var ErrExists = errors.New("manifest: the folder is not empty")

// Write puts the files into dir, all or none: they are written and synced beside it and put in place by one rename.
// dir must not exist or be an empty folder; else the error matches ErrExists and nothing is touched. Its parents
// are made. A path that is absolute, leaves dir or stands twice is an error.
func (f *Folder) Write(dir string) error {
	dir, err := resolve(dir)
	if err == nil {
		err = f.swap(dir)
	}
	if err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("manifest: %w", err)
	}
	return err
}

// swap fills a folder beside dir and puts it in dir's place.
func (f *Folder) swap(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%w: %s; choose another, or remove it", ErrExists, dir)
	}
	stage, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".new-*")
	if err != nil {
		return err
	}
	if err = os.Chmod(stage, 0o755); err == nil {
		err = f.fill(stage)
	}
	if err == nil {
		if err = os.Remove(dir); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = os.Rename(stage, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(stage))
	}
	return nil
}

// resolve makes dir absolute, follows links to a folder that exists, and makes its parents.
func resolve(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		return target, nil
	}
	return dir, os.MkdirAll(filepath.Dir(dir), 0o755)
}

// fill writes the files into a folder.
func (f *Folder) fill(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, file := range f.Files {
		if err := root.MkdirAll(path.Dir(file.Path), 0o755); err != nil {
			return err
		}
		out, err := root.OpenFile(file.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		if _, err = out.Write(file.Data); err == nil {
			err = out.Sync()
		}
		if err = errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
	return nil
}
