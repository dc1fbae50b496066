// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Build writes the configuration of a decision r for f in memory: documents for every placed workload, and plan.md with
// the rollout, the decision's traps, and the workloads that were left out. Each node is configured for its planned
// delivery. Names that Kubernetes would refuse are folded to lower-case letters, digits and dashes. The error names
// every problem, and comes without a folder.
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
	for _, g := range b.groups {
		b.Groups = append(b.Groups, Group{g.key, g.pool.Name, g.delivery, g.nodes})
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
			id := "not-delivered"
			if slices.Contains(g.modes, sharing.MechanismResearch) {
				id += "/research"
			}
			b.warn(id, g.key).Source = sharing.Delivers(sharing.DeliveryGPUOperator, g.modes[0]).Source
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

// cluster writes the documents for the cluster as a whole.
func (b *builder) cluster() {
	b.eksGroups()
	byPlugin, hasMIG := b.byPlugin(), b.hasEntries()
	if byPlugin {
		b.pluginFiles()
	}
	if hasMIG {
		b.partedFiles()
	}
	if byPlugin || hasMIG {
		b.operatorValues()
	}
	if b.uses(sharing.DeliveryHAMi) {
		b.document("hami/values.yaml", "Helm values", "hami", b.hamiSplit())
	}
	if b.uses(sharing.DeliveryVolcano) {
		b.document("volcano/scheduler.yaml", "for the volcano-scheduler-configmap", "volcano", nil)
	}
}

// Migration writes a plan's steps for a running cluster: plan.md with each step's commands, check and way back, and
// only the files that the steps name. Objects are patched with their own kind and without a number of replicas, which
// remains under its present control. Unchanged nodes are in no file.
func Migration(p *migrate.Plan) (*Folder, error) {
	b := builder{fleet: p.Fleet, result: cmp.Or(p.Result, &decision.Result{}), plan: p, taken: map[string]bool{}}
	for _, o := range p.Fleet.Today.Objects {
		b.taken[o.Labels[pluginLabel]], b.taken[o.Labels[migLabel]] = true, true
	}
	return b.build()
}

// Write puts the files into dir, which must not exist or be an empty folder; otherwise nothing is touched. Missing
// parents are created. A path that is absolute or leaves dir is an error. After an error dir does not exist.
func (f *Folder) Write(dir string) error {
	switch entries, err := os.ReadDir(dir); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("manifest: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("manifest: the folder is not empty: %s; choose another, or remove it", dir)
	}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = f.fill(dir)
	}
	if err != nil {
		return fmt.Errorf("manifest: %w", errors.Join(err, os.RemoveAll(dir)))
	}
	return nil
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
