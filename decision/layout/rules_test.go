// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// TestRules holds each rule of a delivery against a node that keeps it and one that breaks it.
func TestRules(t *testing.T) {
	h100, v100 := testGPUs[0], GPUOf("V100-SXM2-16GB")
	with := func(delivery sharing.Delivery, ds ...Device) Node {
		for i := range ds {
			if ds[i].GPU == nil {
				ds[i].GPU = h100
			}
			if ds[i].Limit == 0 {
				ds[i].Limit = RulesOf(delivery).Limit(ds[i].Mode, ds[i].GPU, int32(ds[i].Slots))
			}
		}
		return Node{Name: "n", Delivery: delivery, Devices: ds}
	}
	instances := func(counts ...string) (out []Instance) {
		var want []mig.Count
		for _, c := range counts {
			want = append(want, mig.Count{Profile: c, N: 1})
		}
		l, err := h100.MIG.Place(want, mig.Layout{})
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range l.Instances {
			out = append(out, Instance{Profile: in.Profile, Start: int8(in.Start)})
		}
		return out
	}
	mps := func(slots int16) Device { return Device{Mode: sharing.MechanismMPS, Slots: slots} }
	turns := func(slots int16) Device { return Device{Mode: sharing.MechanismTimeSlicing, Slots: slots} }
	cut := func(profiles ...string) Device {
		return Device{Mode: sharing.MechanismMIG, Instances: instances(profiles...)}
	}
	made := Device{Mode: sharing.MechanismMIG, Dynamic: true}
	whole := Device{Mode: sharing.MechanismExclusive}
	strategy := func(s string, n Node) Node { n.MIGStrategy = s; return n }
	consumable := func(n Node) Node { n.Consumable = true; return n }
	slots := func(n int16, d Device) Device { d.Slots = n; return d }
	plugin, operator, dra := sharing.DeliveryDevicePlugin, sharing.DeliveryGPUOperator, sharing.DeliveryDRA
	hami, volcano, kai, bare := sharing.DeliveryHAMi, sharing.DeliveryVolcano, sharing.DeliveryKAI, sharing.DeliveryBare
	for name, c := range map[string]struct {
		node   Node
		source sharing.SourceID // of the only problem; empty = none
		path   string
	}{
		"one mode":                  {with(plugin, mps(4), mps(4)), "", ""},
		"two modes":                 {with(plugin, mps(4), turns(4)), "k8s-device-plugin-config", "devices[1].mode"},
		"two numbers":               {with(operator, turns(3), turns(4)), "k8s-device-plugin-config", "devices[1].mode"},
		"whole beside shared":       {with(plugin, turns(4), whole), "k8s-device-plugin-config", "devices[1].mode"},
		"two modes by DRA":          {with(dra, mps(4), turns(3)), "", ""},
		"two modes on a machine":    {with(bare, mps(4), turns(3)), "", ""},
		"two modes by KAI":          {with(kai, turns(4), whole), "", ""},
		"one replica":               {with(plugin, turns(1)), "k8s-device-plugin-config", "devices[0].slots"},
		"49 clients":                {with(plugin, mps(49)), "k8s-device-plugin-mps", "devices[0].slots"},
		"48 clients":                {with(plugin, mps(48)), "", ""},
		"17 clients on a V100":      {with(plugin, Device{GPU: v100, Mode: sharing.MechanismMPS, Slots: 17}), "k8s-device-plugin-mps", "devices[0].slots"},
		"61 clients on a machine":   {with(bare, mps(61)), "nvidia-mps-guide-limits", "devices[0].slots"},
		"60 clients on a machine":   {with(bare, mps(60)), "", ""},
		"limit of another size":     {with(plugin, Device{Mode: sharing.MechanismMPS, Slots: 6, Limit: 36 * sharing.GiB}), "k8s-device-plugin-mps", "devices[0].limit"},
		"limit on a machine":        {with(bare, Device{Mode: sharing.MechanismMPS, Slots: 6, Limit: 36 * sharing.GiB}), "", ""},
		"mixed":                     {with(plugin, cut("1g.10gb", "3g.40gb"), whole), "", ""},
		"turns beside MIG":          {with(plugin, cut("1g.10gb"), turns(4)), "", ""},
		"MPS beside MIG":            {with(plugin, cut("1g.10gb"), mps(4)), "k8s-device-plugin", "devices[1].mode"},
		"MPS under mixed":           {strategy("mixed", with(plugin, mps(4))), "k8s-device-plugin", "devices[0].mode"},
		"MPS beside MIG by DRA":     {with(dra, cut("1g.10gb"), mps(4)), "", ""},
		"MIG without strategy":      {strategy("none", with(plugin, cut("1g.10gb"))), "k8s-device-plugin", "mig_strategy"},
		"single":                    {strategy("single", with(plugin, cut("1g.10gb", "1g.10gb"), cut("1g.10gb"))), "", ""},
		"single, two profiles":      {strategy("single", with(plugin, cut("1g.10gb"), cut("2g.20gb"))), "k8s-device-plugin", "devices[1].instances"},
		"single beside whole":       {strategy("single", with(plugin, cut("1g.10gb"), whole)), "k8s-device-plugin", "devices[1].mode"},
		"turns on MIG":              {with(plugin, slots(3, cut("1g.10gb")), slots(3, cut("1g.10gb"))), "", ""},
		"turns on one profile":      {with(plugin, slots(3, cut("1g.10gb")), slots(2, cut("1g.10gb"))), "k8s-device-plugin-config", "devices[1].slots"},
		"turns on two profiles":     {with(plugin, slots(3, cut("1g.10gb")), slots(2, cut("2g.20gb"))), "", ""},
		"MPS on MIG":                {with(plugin, Device{Mode: sharing.MechanismMIGWithMPS, Slots: 2, Instances: instances("1g.10gb")}), "k8s-device-plugin", "devices[0].mode"},
		"MPS on MIG by DRA":         {with(dra, Device{Mode: sharing.MechanismMIGWithMPS, Slots: 2, Instances: instances("1g.10gb")}), "", ""},
		"made on demand":            {with(operator, made), "k8s-device-plugin", "devices[0].dynamic"},
		"made on demand by DRA":     {with(dra, made), "", ""},
		"DynamicMIG and MPS":        {with(dra, made, mps(4)), "nvidia-dra-driver", "devices[1].mode"},
		"consumable shares":         {consumable(with(dra, turns(4))), "", ""},
		"consumable shares and MPS": {consumable(with(dra, mps(4))), "nvidia-dra-driver", "devices[0].mode"},
		"HAMi's MIG":                {with(hami, made, made), "", ""},
		"HAMi's cores beside whole": {with(hami, whole, Device{Mode: sharing.MechanismHAMi}, whole), "", ""},
		"HAMi's cores and MPS":      {with(hami, Device{Mode: sharing.MechanismHAMi}, whole, Device{Mode: sharing.MechanismHAMiWithMPS}), "hami", "devices[2].mode"},
		"HAMi's MIG beside whole":   {with(hami, whole, made), "hami", "devices[1].mode"},
		"Volcano's MIG and cores":   {with(volcano, made, Device{Mode: sharing.MechanismHAMi}), "hami", "devices[1].mode"},
		"HAMi by hand":              {with(hami, cut("1g.10gb")), "hami", "devices[0].instances"},
		"HAMi's splits":             {with(volcano, Device{Mode: sharing.MechanismHAMi, Slots: 4}, Device{Mode: sharing.MechanismHAMi}), "hami-values", "devices[1].slots"},
		"HAMi by Volcano":           {with(volcano, Device{Mode: sharing.MechanismHAMiWithMPS}), "volcano-vgpu", "devices[0].mode"},
		"vGPU":                      {with(sharing.DeliveryVGPUManager, Device{Mode: sharing.MechanismVGPU}, Device{Mode: sharing.MechanismVGPU, Slots: 3}), "", ""},
		"vGPU on a machine":         {with(bare, Device{Mode: sharing.MechanismVGPU}), "nvidia-vgpu-guide", "devices[0].mode"},
		"MIG on a T4":               {with(plugin, Device{GPU: testGPUs[2], Mode: sharing.MechanismMIG}), "cotenant-mig-catalogue", "devices[0].mode"},
	} {
		t.Run(name, func(t *testing.T) {
			seen, problems := Observe([]Node{c.node})
			problems = slices.DeleteFunc(problems, func(p Problem) bool { return strings.Contains(p.Path, "instances") && p.Source == "" })
			if c.source == "" {
				if err := Err(problems); err != nil {
					t.Error(err)
				}
				return
			}
			if len(problems) == 0 || problems[0].Source != c.source || problems[0].Path != "nodes[0]."+c.path || problems[0].Text == "" {
				t.Errorf("%v, want %s at %s", problems, c.source, c.path)
			}
			own := seen.At(0).Check()
			if len(own) != len(problems) || own[0].Path != c.path {
				t.Errorf("the node alone says %v", own)
			}
			for _, p := range problems {
				if _, ok := sharing.SourceByID(p.Source); !ok {
					t.Errorf("no source %q", p.Source)
				}
			}
		})
	}
}

// TestCarries holds that what a delivery takes for an open device is what Check finds nothing wrong with.
func TestCarries(t *testing.T) {
	asked, refused := 0, 0
	for _, delivery := range sharing.Deliveries() {
		for _, first := range sharing.Mechanisms() {
			for _, second := range sharing.Mechanisms() {
				for _, gpu := range testGPUs[:3] {
					n := Node{Name: "n", Delivery: delivery, Devices: []Device{{GPU: gpu}, {GPU: gpu}}}
					set := func(i int, m sharing.Mechanism) bool {
						if !n.Carries(i, m) {
							return false
						}
						RulesOf(delivery).Configure(&n.Devices[i], m, 4)
						n.Devices[i].Dynamic = Sliced(m) && RulesOf(delivery).MadeOnDemand
						return true
					}
					asked++
					if !set(0, first) || !set(1, second) {
						refused++
						continue
					}
					if problems := n.Check(); len(problems) > 0 {
						t.Errorf("%v carries %v beside %v on %s: %v", delivery, second, first, gpu.Name, problems)
					}
				}
			}
		}
	}
	if refused == 0 || refused == asked {
		t.Errorf("%d of %d refused", refused, asked)
	}
}

// TestStrangers: tenants that do not trust one another are on one node only where nobody chooses the device for them.
func TestStrangers(t *testing.T) {
	for _, c := range []struct {
		delivery sharing.Delivery
		mode     sharing.Mechanism
		tenants  [2]string
		want     bool
	}{{sharing.DeliveryDevicePlugin, sharing.MechanismMPS, [2]string{"a", "b"}, true}, {sharing.DeliveryGPUOperator, sharing.MechanismTimeSlicing, [2]string{"a", "b"}, true},
		{sharing.DeliveryDevicePlugin, sharing.MechanismMPS, [2]string{"a", "a"}, false}, {sharing.DeliveryDevicePlugin, sharing.MechanismExclusive, [2]string{"a", "b"}, false},
		{sharing.DeliveryDevicePlugin, sharing.MechanismMIG, [2]string{"a", "b"}, false},
		{sharing.DeliveryDRA, sharing.MechanismMPS, [2]string{"a", "b"}, false}, {sharing.DeliveryHAMi, sharing.MechanismHAMi, [2]string{"a", "b"}, false}} {
		n := Node{Name: "n", Delivery: c.delivery}
		for i, tenant := range c.tenants {
			n.Devices = append(n.Devices, Device{GPU: testGPUs[0], Mode: c.mode, Slots: 2})
			n.Assignments = append(n.Assignments, Assignment{Key: fmt.Sprint(i), Device: int16(i), Workload: &Workload{Tenant: tenant}})
		}
		got := slices.ContainsFunc(n.Check(), func(p Problem) bool { return strings.Contains(p.Text, "do not trust each other") })
		if got != c.want {
			t.Errorf("%+v: %v", c, n.Check())
		}
	}
}

func TestRulesText(t *testing.T) {
	for r := range ruleCount {
		row := ruleTable[r]
		if _, ok := sharing.SourceByID(row.source); !ok || row.text == "" || len(row.deliveries) == 0 {
			t.Errorf("%d: %+v", r, row)
		}
	}
	var got []string
	for _, d := range sharing.Deliveries() {
		n := 0
		for r := range ruleCount {
			if r.of(d) {
				n++
			}
		}
		got = append(got, fmt.Sprint(d, " ", n))
	}
	want := []string{"bare 0", "device-plugin 10", "gpu-operator 10", "dra 2", "hami 3", "volcano 3", "kai 0", "vgpu-manager 0"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	rules := RulesOf(sharing.DeliveryGPUOperator)
	if l, c := rules.Limit(sharing.MechanismMPS, testGPUs[0], 6), rules.Cap(sharing.MechanismMPS, 6); l.MiB() != 81559/6 || c != 160 {
		t.Errorf("%v, %d", l, c)
	}
}
