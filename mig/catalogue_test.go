// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

func TestCatalogue(t *testing.T) {
	must.Get(loaded())(t)
	profiles, nominal := 0, 0
	for _, m := range Models() {
		if back, err := Lookup(m.Key); err != nil || back != m {
			t.Errorf("Lookup(%s) = %v, %v", m.Key, back, err)
		}
		for _, p := range m.Profiles {
			profiles++
			if p.parsed.Slices != p.ComputeSlices || p.parsed.String() != p.Name {
				t.Errorf("%s %s: %d compute slices", m.Key, p.Name, p.ComputeSlices)
			}
			if back := m.profileByConst(p.Const); back != p {
				t.Errorf("%s %s: constant %d is that of %v", m.Key, p.Name, p.Const, back)
			}
			resource, err1 := ResourceName(p.Name)
			if got, err := ParseResourceName(resource); err1 != nil || err != nil || got.String() != p.Name {
				t.Errorf("%s: %s, %v, %v", p.Name, resource, err1, err)
			}
			mem, ok1 := p.Memory.Get()
			total, ok2 := m.Memory.Get()
			if ok1 && ok2 {
				nominal++
				if gb := nominalGB(mem, total); gb != p.parsed.GB {
					t.Errorf("%s %s: nominal %d GB", m.Key, p.Name, gb)
				}
			}
			if m.PlacementsKnown() {
				if n, err := (Layout{Model: m}).room(p); err != nil || n != p.MaxInstances {
					t.Errorf("%s %s: %d fit (%v), the catalogue has %d", m.Key, p.Name, n, err, p.MaxInstances)
				}
			}
			for _, s := range p.Sources {
				if _, ok := sharing.SourceByID(s); !ok {
					t.Errorf("%s %s: source %s is not listed", m.Key, p.Name, s)
				}
			}
		}
	}
	if len(Models()) != 25 || profiles != 168 {
		t.Errorf("%d models, %d profiles", len(Models()), profiles)
	}
	if nominal < 40 {
		t.Errorf("only %d names checked against memory", nominal)
	}
}

// TestInstanceCountIsImplied shows that on every GPU with known engines
// the instance count follows from placements and engines.
func TestInstanceCountIsImplied(t *testing.T) {
	for _, m := range Models() {
		if !m.PlacementsKnown() || !m.Engines.OFA.Known {
			continue
		}
		free := *m.grid
		free.maximum = slices.Repeat([]int{maxUnits}, len(m.Profiles))
		loose := *m
		loose.grid = &free
		for i, p := range m.Profiles {
			if !p.Engines.JPEG.Known {
				continue
			}
			var n [maxProfiles]int
			n[i] = p.MaxInstances + 1
			if _, ok := loose.search(state{}, n); ok {
				t.Errorf("%s: %d x %s fit without the count rule", m.Key, n[i], p.Name)
			}
		}
	}
}

func TestLookup(t *testing.T) {
	for name, key := range map[string]string{
		"NVIDIA A100-SXM4-80GB": "a100-80gb", "a100-sxm4-80gb": "a100-80gb", "NVIDIA H200": "h200-141gb-sxm", "H200 (SXM)": "h200-141gb-sxm",
		"H100 80GB HBM3": "h100-80gb-sxm", "nvidia h100 nvl": "h100-94gb", "0x2335": "h200-141gb-sxm", "0x233510de": "h200-141gb-sxm",
		"0x233510DE:0x18BF10DE": "h200-141gb-sxm", "10de:2330": "h100-80gb-sxm", "0x2BB310DE:0x204D10DE": "rtx-pro-5000-blackwell-48gb",
		"0x2BB310DE:0x227A10DE": "rtx-pro-5000-blackwell-72gb", "A100 80GB": "a100-80gb", "A100-40GB": "a100-40gb", "A30": "a30", "B200": "b200-180gb",
		"NVIDIA A800-SXM4-40GB": "a100-40gb", "0x20BD": "a100-40gb",
	} {
		m, err := Lookup(name)
		if err != nil || m.Key != key {
			t.Errorf("Lookup(%q) = %v, %v; want %s", name, m, err, key)
		}
	}
	for name, matches := range map[string][]string{
		"A100": {"a100-40gb", "a100-80gb"}, "0x2BB3": {"rtx-pro-5000-blackwell-48gb", "rtx-pro-5000-blackwell-72gb"},
		"GH200": {"gh200-96gb", "gh200-144gb"},
	} {
		_, err := Lookup(name)
		var le *lookupError
		if !errors.Is(err, ErrAmbiguousGPU) || !errors.As(err, &le) || !cmp.Equal(le.Matches, matches) {
			t.Errorf("Lookup(%q): %v", name, err)
		}
	}
	for _, name := range []string{"A100X", "0x230e", "10de:29BC", "NVIDIA-VR200"} {
		if _, err := Lookup(name); !errors.Is(err, sharing.ErrUnknownGPU) || !strings.Contains(err.Error(), "no source gives the MIG profiles") {
			t.Errorf("Lookup(%q): %v", name, err)
		}
	}
	if _, err := Lookup("T4"); !errors.Is(err, sharing.ErrUnknownGPU) || !strings.Contains(err.Error(), "Tesla T4 has no MIG") {
		t.Errorf("a GPU without MIG: %v", err)
	}
	for _, name := range []string{"", " ", "Tesla T4", "0x1234", "0x2335AAAA", "NVIDIA", "H2O0"} {
		if m, err := Lookup(name); !errors.Is(err, sharing.ErrUnknownGPU) {
			t.Errorf("Lookup(%q) = %v, %v", name, m, err)
		}
	}
}

func TestProfileLookup(t *testing.T) {
	for _, c := range []struct {
		gpu, name, want string
		constant        int
	}{
		{"gb200", "1g.24gb", "1g.23gb", 0}, {"gb200", "1g.24gb+me", "1g.23gb+me", 7}, {"gb200", "7g.189gb", "7g.186gb", 4},
		{"a100-80gb", "7g.79gb", "7g.80gb", 4}, {"a100-40gb", "1g.10gb", "1g.10gb", 9}, {"a100-80gb", "1g.10gb", "1g.10gb", 0},
		{"H200", "1g.35gb", "1g.35gb", 9}, {"GB300", "1g.35gb", "1g.35gb", 0}, {"a100-80gb", "MIG 1c.3g.40gb", "3g.40gb", 2},
	} {
		p, err := gpu(t, c.gpu).Profile(c.name)
		if err != nil || p.Name != c.want || p.Const != c.constant {
			t.Errorf("%s %s = %v, %v", c.gpu, c.name, p, err)
		}
	}
	for _, bad := range []string{"9g.99gb", "1g.5gb", "nonsense", "", "3g.41gb"} {
		if p, err := gpu(t, "a100-80gb").Profile(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q = %v, %v", bad, p, err)
		}
	}
}

// TestLookupAgreesWithSharing: every MIG board of the product table is found
// by each of its names, and means the same board.
func TestLookupAgreesWithSharing(t *testing.T) {
	found := 0
	for _, g := range sharing.GPUs() {
		if g.MIG.Value != sharing.AnswerYes {
			continue
		}
		want, err := Lookup(g.Name)
		if err != nil {
			t.Errorf("%s: %v", g.Name, err)
			continue
		}
		found++
		for _, alias := range g.Aliases {
			if _, err := sharing.LookupGPU(alias); err != nil {
				continue // ambiguous there
			}
			if got, err := Lookup(alias); err != nil || got != want {
				t.Errorf("%s: alias %q: %v, %v", g.Name, alias, got, err)
			}
		}
	}
	if found < 25 {
		t.Errorf("%d boards found", found)
	}
}

// TestCatalogueAgainstProbe compares the H200 of the catalogue with the answers of a real one.
func TestCatalogueAgainstProbe(t *testing.T) {
	b := must.Get(os.ReadFile("testdata/h200-nvml-probe.json"))(t)
	var probe struct {
		Profiles []struct {
			Const int
			Info  struct {
				ID                  int `json:"Id"`
				InstanceCount       int
				MultiprocessorCount int
				MemorySizeMB        int64
			}
			Placements []Placement
			InfoRet    string
		}
	}
	must.Do(t, json.Unmarshal(b, &probe))
	m, found := gpu(t, "H200"), 0
	for _, want := range probe.Profiles {
		if want.InfoRet != "Success" {
			continue
		}
		found++
		i := slices.IndexFunc(m.Profiles, func(p *Profile) bool { return p.Const == want.Const })
		if i < 0 {
			t.Errorf("constant %d is not in the catalogue", want.Const)
			continue
		}
		p := m.Profiles[i]
		if p.ID.Value != want.Info.ID || p.SMs.Value != want.Info.MultiprocessorCount || p.Memory.Value.MiB() != want.Info.MemorySizeMB ||
			p.MaxInstances != want.Info.InstanceCount || !slices.Equal(p.Placements, want.Placements) {
			t.Errorf("%s: %+v, the device answered %+v", p.Name, p, want)
		}
	}
	if found != 7 {
		t.Errorf("%d profiles", found)
	}
}
