// SPDX-License-Identifier: Apache-2.0

//go:build gpu && linux && cgo

package mignvml

import (
	"context"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// TestCatalogueAgainstGPU compares the catalogue with every MIG-capable GPU of
// the machine. It only reads: no mode and no instance is changed.
func TestCatalogueAgainstGPU(t *testing.T) {
	driver := must.Get(Open())(t)
	defer func() { must.Do(t, driver.Close()) }()
	gpus := must.Get(driver.Devices(context.Background()))(t)
	if len(gpus) == 0 {
		t.Fatal("no GPU here can do MIG")
	}
	for _, g := range gpus {
		pci, r := g.lockedDevice.(*device).handle.GetPciInfo()
		must.Do(t, opError("GetPciInfo", g.UUID, r))
		models := identity(pci).Models()
		if len(models) == 0 {
			t.Errorf("%s %v is not in the catalogue", g.Name, identity(pci))
			continue
		}
		byName, err := mig.Lookup(g.Name)
		if err != nil || byName != models[0] {
			t.Errorf("Lookup(%q) = %v, %v; the PCI id gives %s", g.Name, byName, err, models[0])
		}
		if g.Model != models[0] {
			t.Errorf("%s: the device's placements or ids differ from the catalogue's %s", g.Name, models[0])
		}
		profiles := must.Get(g.lockedDevice.(*device).profiles())(t)
		for _, d := range profiles {
			compare(t, models[0], d)
		}
		state := must.Get(g.State(context.Background()))(t)
		if state.Resetless != sharing.AnswerUnknown && (state.Resetless == sharing.AnswerYes) != models[0].Resetless {
			t.Errorf("%s: field 184: resetless %s, the catalogue %v", g.Name, state.Resetless, models[0].Resetless)
		}
		t.Logf("%s: %s, MIG enabled %v, [%s], %d profiles compared", g.Name, models[0], state.Mode, state.Layout(), len(profiles))
	}
}

func compare(t *testing.T, m *mig.Model, d mig.DeviceProfile) {
	t.Helper()
	at := slices.IndexFunc(m.Profiles, func(p *mig.Profile) bool { return p.Const == d.Const })
	if at < 0 {
		t.Errorf("%s: the catalogue lacks the profile of constant %d (id %d)", m, d.Const, d.ID)
		return
	}
	p := m.Profiles[at]
	check := func(figure string, got int, want sharing.Cell[int]) {
		if v, ok := want.Get(); ok && v != got {
			t.Errorf("%s %s: %s %d, the catalogue has %d", m, p, figure, got, v)
		}
	}
	check("id", d.ID, p.ID)
	check("SMs", d.SMs, p.SMs)
	check("copy engines", d.Copy, p.Engines.Copy)
	check("NVDEC", d.NVDEC, p.Engines.NVDEC)
	check("NVENC", d.NVENC, p.Engines.NVENC)
	check("JPEG", d.JPEG, p.Engines.JPEG)
	check("OFA", d.OFA, p.Engines.OFA)
	if d.MaxInstances != p.MaxInstances || d.Slices != p.ComputeSlices {
		t.Errorf("%s %s: at most %d of %d slices, the catalogue has %d of %d", m, p, d.MaxInstances, d.Slices, p.MaxInstances, p.ComputeSlices)
	}
	if mem, ok := p.Memory.Get(); ok {
		// Memory differs by some percent between drivers.
		if diff := float64(d.Memory-mem) / float64(mem); diff > 0.1 || diff < -0.1 {
			t.Errorf("%s %s: memory %s, the catalogue has %s", m, p, d.Memory, mem)
		}
		if d.Memory != mem {
			t.Logf("%s %s: memory %s on this driver, %s in the catalogue", m, p, d.Memory, mem)
		}
	}
	if len(d.Placements) != len(p.Placements) {
		t.Errorf("%s %s: placements %v, the catalogue has %v", m, p, d.Placements, p.Placements)
		return
	}
	for i := range d.Placements {
		if d.Placements[i] != p.Placements[i] {
			t.Errorf("%s %s: placements %v, the catalogue has %v", m, p, d.Placements, p.Placements)
			return
		}
	}
}
