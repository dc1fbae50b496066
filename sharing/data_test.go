// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// checkSource fails unless id resolves.
func checkSource(t *testing.T, where string, id SourceID) {
	t.Helper()
	if _, ok := SourceByID(id); !ok {
		t.Errorf("%s: source %q does not resolve", where, id)
	}
}

func checkCell[T any](t *testing.T, where string, c Cell[T]) {
	t.Helper()
	if c.Known {
		checkSource(t, where, c.Source)
	} else if c.Source != "" {
		t.Errorf("%s: an unknown cell names source %q", where, c.Source)
	}
}

func checkFinding(t *testing.T, where string, f Finding) {
	t.Helper()
	checkSource(t, where, f.Source)
	if f.Text == "" {
		t.Errorf("%s: no text", where)
	}
}

func TestSourcesResolve(t *testing.T) {
	for _, m := range append(Mechanisms(), MechanismNone) {
		for a := Axis(0); int(a) < AxisCount; a++ {
			for _, p := range propertiesOf(m, a) {
				switch p.When.Mode {
				case "", "static-sm-partitions", "pinned-memory-limits", "cgroup-memory-limits", "vgpu-equal-share", "vgpu-fixed-share":
				default:
					t.Errorf("%v %v: mode %q", m, a, p.When.Mode)
				}
				where := fmt.Sprintf("%v/%v", m, a)
				checkSource(t, where, p.Source)
				if p.Text == "" || p.Mechanism != m || p.Axis != a {
					t.Errorf("%s: malformed: %+v", where, p)
				}
				if (p.Level == LevelUnknown) != (p.Basis == BasisUnknown) {
					t.Errorf("%s: level %v with basis %v", where, p.Level, p.Basis)
				}
			}
		}
		info := InfoFor(m)
		where := "info of " + m.String()
		checkSource(t, where, info.Overhead.Source)
		checkCell(t, where, info.MaxTenants)
		for _, o := range info.Overheads {
			checkSource(t, where, o.Source)
			if !o.Known || o.Low > o.High || o.Low < 0 {
				t.Errorf("%s: overhead %+v", where, o)
			}
		}
		if info.Mechanism != m || info.Title == "" || info.Summary == "" {
			t.Errorf("%s is incomplete: %+v", where, info)
		}
		for _, d := range Deliveries() {
			checkFinding(t, fmt.Sprintf("%v delivers %v", d, m), Delivers(d, m))
		}
		for _, g := range GPUs() {
			checkFinding(t, fmt.Sprintf("%v on %s", m, g.Name), Available(m, Environment{GPU: &g}))
		}
	}
	for _, tr := range Traps() {
		for _, id := range tr.Sources {
			checkSource(t, "trap "+tr.ID, id)
		}
	}
}

func TestGPUTable(t *testing.T) {
	table := GPUs()
	if !slices.IsSortedFunc(table, func(a, b GPU) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the table is not sorted by name")
	}
	keys := map[string]string{}
	for _, g := range table {
		checkSource(t, g.Name, g.Source)
		checkCell(t, g.Name, g.ComputeCapability)
		checkCell(t, g.Name, g.Memory)
		checkCell(t, g.Name, g.MemoryBandwidthGBps)
		checkCell(t, g.Name, g.SMs)
		checkCell(t, g.Name, g.MIG)
		checkCell(t, g.Name, g.MIGMinDriver)
		checkCell(t, g.Name, g.TimesliceSetting)
		checkCell(t, g.Name, g.VGPU)
		if g.Architecture == ArchitectureUnknown || strings.HasPrefix(g.Name, "NVIDIA") {
			t.Errorf("%s: architecture %v", g.Name, g.Architecture)
		}
		if g.MIGMinDriver.Known && g.MIG.Value != AnswerYes {
			t.Errorf("%s has a driver for a MIG it has not", g.Name)
		}
		key := FoldGPUName(g.Name)
		if keys[key] != "" {
			t.Errorf("%s and %s fold alike", g.Name, keys[key])
		}
		keys[key] = g.Name
		for _, id := range g.PCIIDs {
			if k, ok := pciKey(id); !ok || k != id {
				t.Errorf("%s: PCI id %q is not in the table's form", g.Name, id)
			}
		}
		aliases := map[string]bool{}
		for _, alias := range g.Aliases {
			if aliases[FoldGPUName(alias)] {
				t.Errorf("%s: alias %q is there twice", g.Name, alias)
			}
			aliases[FoldGPUName(alias)] = true
		}
		if got, err := LookupGPU("NVIDIA " + g.Name); err != nil || got.Name != g.Name {
			t.Errorf("LookupGPU(%q) = %v, %v", g.Name, got, err)
		}
	}
}

func TestTrapsAreComplete(t *testing.T) {
	for _, tr := range Traps() {
		if tr.Sources == nil || tr.Statement == "" || tr.Truth == "" || tr.Detection == "" || tr.Remedy == "" || tr.Severity == SeverityUnknown {
			t.Errorf("trap %+v is not complete", tr)
		}
		if got, ok := TrapByID(tr.ID); !ok || got.Statement != tr.Statement {
			t.Errorf("TrapByID(%s) = %+v, %v", tr.ID, got, ok)
		}
	}
	if _, ok := TrapByID("no-such-trap"); ok {
		t.Error("there is a trap no-such-trap")
	}
}

func TestTables(t *testing.T) {
	read := func(file string, rows int, err error) {
		t.Helper()
		if err != nil || rows == 0 {
			t.Errorf("%s: %d rows, %v", file, rows, err)
		}
	}
	sources, err := readTable[sourceRow]("sources.json")
	read("sources.json", len(sources), err)
	gpus, err := readTable[GPU]("gpus.json")
	read("gpus.json", len(gpus), err)
	traps, err := readTable[Trap]("traps.json")
	read("traps.json", len(traps), err)
	isolation, err := readTable[Property]("isolation.json")
	read("isolation.json", len(isolation), err)
	infos, err := readTable[Info]("mechanisms.json")
	read("mechanisms.json", len(infos), err)
	deliveries, err := readTable[deliveryRow]("deliveries.json")
	read("deliveries.json", len(deliveries), err)
	if _, err := readTable[GPU]("traps.json"); err == nil {
		t.Error("traps were read as GPUs")
	}
}
