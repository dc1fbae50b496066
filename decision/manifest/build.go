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

// ErrInvalid is matched by every error about an input: a decision that cannot be configured. It names every problem
// with its path and, where there is one, the remedy.
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
	Key      string // the value of their label cotenant.dev/sharing-group, and the name of their files
	Pool     string
	Delivery sharing.Delivery // by which pods/ gets their GPUs; DeliveryBare where nothing delivers them
	Nodes    []*layout.Node
}

// File is a document in memory.
type File struct {
	Path string // relative, with forward slashes
	Data []byte
	Note string // its purpose, in a few words
}

// operatorNamespace is the GPU Operator's, as its installation guide has it.
const operatorNamespace = "gpu-operator"

// Build writes the configuration of a decision r for f in memory: documents for every workload that has a place, and
// plan.md with the rollout, the decision's traps, and the workloads that were left out. Each node is set up by the
// delivery that it was planned for. Names that Kubernetes would refuse are folded to lower-case letters, digits and
// dashes. The error matches ErrInvalid, names every problem, and comes without a folder.
func Build(f *decision.Fleet, r *decision.Result) (*Folder, error) {
	if err := f.Validate(); err != nil {
		return nil, invalid(err)
	}
	b := builder{fleet: f, result: r, taken: map[string]bool{}}
	return b.build()
}

// build writes all documents.
func (b *builder) build() (*Folder, error) {
	var l problem.List
	b.read(&l)
	b.check(&l)
	if err := l.Err(); err != nil {
		return nil, invalid(err)
	}
	tenants := b.fleet.Tenants()
	for _, g := range b.groups {
		b.Groups = append(b.Groups, Group{g.key, g.pool.Name, g.delivery, g.nodes})
		for _, n := range g.nodes {
			stated := layout.Node{Delivery: n.Delivery, Devices: n.Devices, Assignments: slices.Clone(n.Assignments)}
			for i := range stated.Assignments { // a layout does not have the fleet's trust of all
				a := &stated.Assignments[i]
				a.Workload = cmp.Or(tenants[a.Workload.Name], a.Workload)
			}
			if x, y := stated.Strangers(); x != nil {
				b.warn(warnStrangers, g.key, layout.RuleAnyDevice.Source(), "give them nodes of their own, deliver by DRA, or "+
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
	fleet    *decision.Fleet
	result   *decision.Result
	groups   []*group
	members  []*member // in the order of the decisions
	memberOf map[run]*member
	notes    []string // for plan.md
	plan     *migrate.Plan
	taken    map[string]bool // configurations that nodes choose today, which keep their names
	err      error           // the first that writing a document met
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

// any reports whether a GPU of a group shares by a mechanism for which is answers true.
func (b *builder) any(is func(sharing.Mechanism) bool) bool {
	return slices.ContainsFunc(b.groups, func(g *group) bool { return g.any(is) })
}

// uses reports whether nodes are set up by a delivery.
func (b *builder) uses(d sharing.Delivery) bool {
	return slices.ContainsFunc(b.groups, func(g *group) bool { return g.delivery == d })
}

// deliveryOf is the delivery that a group's nodes are planned for, or the DRA driver where the pool's own can't share
// as planned and the driver can.
func deliveryOf(g *group) sharing.Delivery {
	d := g.nodes[0].Delivery
	if d == sharing.DeliveryBare && !g.pool.Standalone && !slices.ContainsFunc(g.modes, func(m sharing.Mechanism) bool {
		return sharing.Delivers(sharing.DeliveryDRA, m).Answer != sharing.AnswerYes
	}) {
		return sharing.DeliveryDRA
	}
	return d
}

// plugin reports whether NVIDIA's device plugin hands out the GPUs.
func plugin(d sharing.Delivery) bool {
	return d == sharing.DeliveryGPUOperator || d == sharing.DeliveryDevicePlugin
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
	b.routers()
	for _, g := range b.groups {
		if g.delivery == sharing.DeliveryBare {
			b.undelivered(g)
		}
		b.nodeFile(g)
	}
	b.claims()
	for _, m := range b.members {
		b.pods(m)
		b.limitWarnings(m)
		if m.part == 0 {
			b.canary(m.workload, m.Mechanism, b.result.Layout)
		}
	}
	b.cluster()
	b.page("rollout", "the rollout, step by step: read it first", b.rollout())
}

func (b *builder) undelivered(g *group) {
	reason, remedy := "no orchestrator hands out its GPUs", "set them up with packages mps and mig, or state its delivery"
	if slices.Contains(g.modes, sharing.MechanismResearch) {
		reason, remedy = "research systems bring their own deployment", ""
	}
	source := sharing.Delivers(sharing.DeliveryGPUOperator, g.modes[0]).Source
	b.warn(warnNotDelivered, g.key, source, remedy, "%s: only the nodes' labels are written", reason)
}

// byPlugin reports whether the device plugin delivers a group.
func (b *builder) byPlugin() bool {
	return slices.ContainsFunc(b.groups, (*group).byPlugin)
}

// hasEntries reports whether nodes have MIG instances that are made beforehand.
func (b *builder) hasEntries() bool {
	return slices.ContainsFunc(b.groups, func(g *group) bool { return g.entries != nil })
}

// cluster writes the documents for the cluster as a whole.
func (b *builder) cluster() {
	byPlugin, hasMIG := b.byPlugin(), b.hasEntries()
	for _, f := range []struct {
		needed bool
		write  func()
	}{{true, b.eksGroups}, {byPlugin, b.pluginFiles}, {hasMIG, b.partedFiles},
		{hasMIG || byPlugin, b.operatorValues}, {b.uses(sharing.DeliveryHAMi), b.hamiValues},
		{b.uses(sharing.DeliveryVolcano), b.volcanoScheduler},
	} {
		if f.needed {
			f.write()
		}
	}
}

// Codes of the warnings of Build and Migration.
const (
	warnNotDelivered    sharing.WarningCode = "not-delivered"
	warnPerProcess      sharing.WarningCode = "limit-per-process" // MPS limits processes, not containers
	warnFractionUnknown sharing.WarningCode = "fraction-unknown"  // the memory fraction cannot be computed
	warnNoMemoryLimit   sharing.WarningCode = "no-memory-limit"   // one tenant can take all memory
	warnCUDAGraphs      sharing.WarningCode = "cuda-graphs"       // HAMi's compute limit does not see graphs
	warnNodeSizeUnknown sharing.WarningCode = "node-size-unknown" // layouts cannot be divided into nodes
	// a cluster-wide MIG strategy would override MPS nodes
	warnMIGStrategyEnv  sharing.WarningCode = "mig-strategy-env"
	warnClaimNamespaces sharing.WarningCode = "claim-namespaces" // claims do not reach across namespaces
	warnClaimsLeftOut   sharing.WarningCode = "claims-left-out"  // too many devices for a named claim each
	warnNotEnforced     sharing.WarningCode = "not-enforced"     // the scheduler places and enforces nothing
	warnStrangers       sharing.WarningCode = "strangers"        // the delivery may put them on one GPU
	// replicas of the device plugin have no memory or compute of their own
	warnReplicasNotCapacity sharing.WarningCode = "replicas-not-capacity"
	warnUnevenPercentage    sharing.WarningCode = "uneven-percentage" // whole percentages leave SMs unused
)

// ErrExists is matched when Folder.Write would have to replace something.
var ErrExists = errors.New("manifest: the folder is not empty")

// Write puts the files into dir, all or none: they are written next to it and put in place by one rename. dir must not
// exist or be an empty folder; else the error matches ErrExists and nothing is touched. Its parents are made. A path
// that is absolute or leaves dir is an error.
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

// swap fills a folder next to dir and puts it in dir's place.
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
		err := root.MkdirAll(path.Dir(file.Path), 0o755)
		if err == nil {
			err = root.WriteFile(file.Path, file.Data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
