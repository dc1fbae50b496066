// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"slices"
	"strings"
	"testing"
)

// TestAvailableByGPU holds a widely read table of mechanisms by GPU: MIG on none of the first three, all else on all.
func TestAvailableByGPU(t *testing.T) {
	for _, c := range []struct {
		gpu string
		mig Answer
	}{
		{"T4", AnswerNo}, {"V100-16GB", AnswerNo}, {"V100-32GB", AnswerNo}, {"A10", AnswerNo}, {"L4", AnswerNo}, {"A100-80GB", AnswerYes}, {"H100-80GB", AnswerYes}, {"H200", AnswerYes}, {"B200", AnswerYes},
		// Where an article's "Ampere+" goes wrong.
		{"A10G", AnswerNo}, {"A16", AnswerNo}, {"A40", AnswerNo}, {"L40", AnswerNo}, {"L40S", AnswerNo}, {"RTX 4090", AnswerNo}, {"A30", AnswerYes}, {"GH200-96GB", AnswerYes}, {"RTX PRO 6000 Server", AnswerYes},
	} {
		env := Environment{GPU: gpu(t, c.gpu)}
		for m, want := range map[Mechanism]Answer{MechanismExclusive: AnswerYes, MechanismTimeSlicing: AnswerYes, MechanismMPS: AnswerYes, MechanismHAMi: AnswerYes, MechanismMIG: c.mig, MechanismMIGWithMPS: c.mig, MechanismInServer: AnswerYes, MechanismResearch: AnswerUnknown, MechanismNone: AnswerNo} {
			if got := Available(m, env); got.Answer != want {
				t.Errorf("%v on %s: %v (%s), want %v", m, c.gpu, got.Answer, got.Text, want)
			}
		}
	}
}

func TestAvailable(t *testing.T) {
	for _, c := range []struct {
		name string
		m    Mechanism
		env  Environment
		want Answer
	}{
		{"exclusive needs to know nothing", MechanismExclusive, Environment{}, AnswerYes},
		{"MIG on an unknown GPU", MechanismMIG, Environment{}, AnswerUnknown},
		{"MIG on a GPU with an unknown cell", MechanismMIG, Environment{GPU: &GPU{}}, AnswerUnknown},
		{"MIG on too old a driver", MechanismMIG, Environment{GPU: gpu(t, "B200"), Driver: Driver{550, 90, 7}}, AnswerNo},
		{"MIG+MPS on too old a driver", MechanismMIGWithMPS, Environment{GPU: gpu(t, "B200"), Driver: Driver{550, 90, 7}}, AnswerNo},
		{"MIG on a driver that will do", MechanismMIG, Environment{GPU: gpu(t, "B200"), Driver: Driver{580, 65, 6}}, AnswerYes},
		{"MPS before Volta", MechanismMPS, Environment{GPU: gpu(t, "P100-16GB")}, AnswerYes},
		{"MPS on an unknown architecture", MechanismMPS, Environment{GPU: &GPU{}}, AnswerUnknown},
		{"vGPU on A100", MechanismVGPU, Environment{GPU: gpu(t, "A100-80GB")}, AnswerYes},
		{"vGPU on a board without a source", MechanismVGPU, Environment{GPU: gpu(t, "RTX 4090")}, AnswerUnknown},
		{"MIG-backed vGPU on A100", MechanismMIGBackedVGPU, Environment{GPU: gpu(t, "A100-80GB")}, AnswerYes},
		{"MIG-backed vGPU on A40", MechanismMIGBackedVGPU, Environment{GPU: gpu(t, "A40")}, AnswerNo},
		{"emulation where there is no MIG", MechanismMIGLikeEmulation, Environment{GPU: gpu(t, "L4")}, AnswerYes},
		{"no such mechanism", Mechanism(99), Environment{GPU: gpu(t, "L4")}, AnswerUnknown},
	} {
		if got := Available(c.m, c.env); got.Answer != c.want {
			t.Errorf("%s: %v (%s), want %v", c.name, got.Answer, got.Text, c.want)
		}
	}
	for name, before := range map[string]bool{"P100-16GB": true, "V100-16GB": false} {
		if got := Available(MechanismMPS, Environment{GPU: gpu(t, name)}); strings.Contains(got.Text, "before Volta") != before {
			t.Errorf("MPS on %s: %s", name, got.Text)
		}
	}
}

func TestMPSClientLimit(t *testing.T) {
	for _, c := range []struct {
		name   string
		gpu    *GPU
		driver Driver
		want   int
		answer Answer
		basis  Basis
	}{
		{"before Volta", gpu(t, "P100-16GB"), Driver{580, 65, 6}, 16, AnswerYes, BasisDocumented},
		{"driver 580, measured", gpu(t, "H200"), Driver{580, 159, 4}, 48, AnswerYes, BasisMeasured},
		{"driver 550", gpu(t, "V100-32GB"), Driver{550, 54, 14}, 48, AnswerYes, BasisDocumented},
		{"driver 590", gpu(t, "L40S"), Driver{590, 44, 1}, 60, AnswerYes, BasisDocumented},
		{"a driver newer than the table", gpu(t, "L40S"), Driver{700, 0, 0}, 60, AnswerYes, BasisDocumented},
		{"between two branches", gpu(t, "L40S"), Driver{585, 0, 0}, 48, AnswerUnknown, BasisDocumented},
		{"unknown driver", gpu(t, "L40S"), Driver{}, 48, AnswerUnknown, BasisDocumented},
		{"unknown GPU", nil, Driver{590, 44, 1}, 16, AnswerUnknown, BasisDocumented},
	} {
		n, f := MPSClientLimit(c.gpu, c.driver)
		if n.Value != c.want || !n.Known || f.Answer != c.answer || f.Basis != c.basis {
			t.Errorf("%s: %+v, %+v; want %d, %v", c.name, n, f, c.want, c.answer)
		}
		checkCell(t, c.name, n)
		checkFinding(t, c.name, f)
	}
}

func TestDelivers(t *testing.T) {
	for _, c := range []struct {
		d    Delivery
		m    Mechanism
		want Answer
	}{
		{DeliveryDevicePlugin, MechanismMPS, AnswerYes}, {DeliveryDevicePlugin, MechanismMIGWithMPS, AnswerNo}, {DeliveryDevicePlugin, MechanismHAMi, AnswerNo}, {DeliveryDevicePlugin, MechanismVGPU, AnswerNo}, {DeliveryDevicePlugin, MechanismInServer, AnswerYes},
		{DeliveryGPUOperator, MechanismMIG, AnswerYes}, {DeliveryGPUOperator, MechanismMIGWithMPS, AnswerNo}, {DeliveryDRA, MechanismMIGWithMPS, AnswerYes}, {DeliveryDRA, MechanismTimeSlicing, AnswerYes},
		{DeliveryHAMi, MechanismHAMiWithMPS, AnswerYes}, {DeliveryHAMi, MechanismMIG, AnswerYes}, {DeliveryVolcano, MechanismHAMi, AnswerYes}, {DeliveryVolcano, MechanismMPS, AnswerUnknown},
		{DeliveryKAI, MechanismTimeSlicing, AnswerYes}, {DeliveryKAI, MechanismMPS, AnswerUnknown}, {DeliveryVGPUManager, MechanismVGPU, AnswerYes}, {DeliveryVGPUManager, MechanismMPS, AnswerNo}, {DeliveryBare, MechanismMIGWithMPS, AnswerYes}, {DeliveryBare, MechanismHAMi, AnswerUnknown},
		{DeliveryDevicePlugin, MechanismNone, AnswerNo}, {DeliveryBare, MechanismResearch, AnswerUnknown}, {Delivery(99), MechanismMPS, AnswerUnknown}, {DeliveryBare, Mechanism(99), AnswerUnknown}, {DeliveryVGPUManager, MechanismInServer, AnswerNo}, {DeliveryVGPUManager, MechanismResearch, AnswerUnknown}, {DeliveryDRA, MechanismHAMiWithMPS, AnswerNo}, {DeliveryKAI, MechanismHAMi, AnswerUnknown},
	} {
		if got := Delivers(c.d, c.m); got.Answer != c.want {
			t.Errorf("%v delivers %v: %v (%s), want %v", c.d, c.m, got.Answer, got.Text, c.want)
		}
	}
	for _, m := range Mechanisms() {
		by := slices.ContainsFunc(Deliveries(), func(d Delivery) bool { return Delivers(d, m).Answer == AnswerYes })
		if !by && m != MechanismResearch {
			t.Errorf("nothing delivers %v", m)
		}
	}
	if got := InfoFor(Mechanism(99)); got.Mechanism != Mechanism(99) || got.Title != "" {
		t.Errorf("got %+v", got)
	}
}
