package sharing

import "testing"

// TestAvailableA12 holds A12: MIG on none of the first three, all else on all.
func TestAvailableA12(t *testing.T) {
	for _, c := range []struct {
		gpu string
		mig Answer
	}{
		{"T4", No}, {"V100-16GB", No}, {"V100-32GB", No}, {"A10", No}, {"L4", No}, {"A100-80GB", Yes}, {"H100-80GB", Yes}, {"H200", Yes}, {"B200", Yes},
		// Where S0's "Ampere+" goes wrong (D4).
		{"A10G", No}, {"A16", No}, {"A40", No}, {"L40", No}, {"L40S", No}, {"RTX 4090", No}, {"A30", Yes}, {"GH200-96GB", Yes}, {"RTX PRO 6000 Server", Yes},
	} {
		env := Environment{GPU: gpu(t, c.gpu)}
		for m, want := range map[Mechanism]Answer{Exclusive: Yes, TimeSlicing: Yes, MPS: Yes, HAMi: Yes, MIG: c.mig, MIGWithMPS: c.mig, InServer: Yes, Research: Unknown, None: No} {
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
		{"exclusive needs to know nothing", Exclusive, Environment{}, Yes},
		{"MIG on an unknown GPU", MIG, Environment{}, Unknown},
		{"MIG on a GPU with an unknown cell", MIG, Environment{GPU: &GPU{}}, Unknown},
		{"MIG on too old a driver", MIG, Environment{GPU: gpu(t, "B200"), Driver: Driver{550, 90, 7}}, No},
		{"MIG+MPS on too old a driver", MIGWithMPS, Environment{GPU: gpu(t, "B200"), Driver: Driver{550, 90, 7}}, No},
		{"MIG on a driver that will do", MIG, Environment{GPU: gpu(t, "B200"), Driver: Driver{580, 65, 6}}, Yes},
		{"MPS before Volta", MPS, Environment{GPU: gpu(t, "P100-16GB")}, Yes},
		{"MPS on an unknown architecture", MPS, Environment{GPU: &GPU{}}, Unknown},
		{"vGPU on A100", VGPU, Environment{GPU: gpu(t, "A100-80GB")}, Yes},
		{"vGPU on a board without a source", VGPU, Environment{GPU: gpu(t, "RTX 4090")}, Unknown},
		{"MIG-backed vGPU on A100", MIGBackedVGPU, Environment{GPU: gpu(t, "A100-80GB")}, Yes},
		{"MIG-backed vGPU on A40", MIGBackedVGPU, Environment{GPU: gpu(t, "A40")}, No},
		{"emulation where there is no MIG", MIGLikeEmulation, Environment{GPU: gpu(t, "L4")}, Yes},
		{"no such mechanism", Mechanism(99), Environment{GPU: gpu(t, "L4")}, Unknown},
	} {
		if got := Available(c.m, c.env); got.Answer != c.want {
			t.Errorf("%s: %v (%s), want %v", c.name, got.Answer, got.Text, c.want)
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
		{"before Volta", gpu(t, "P100-16GB"), Driver{580, 65, 6}, 16, Yes, BasisDocumented},
		{"driver 580, measured", gpu(t, "H200"), Driver{580, 159, 4}, 48, Yes, BasisMeasured},
		{"driver 550", gpu(t, "V100-32GB"), Driver{550, 54, 14}, 48, Yes, BasisDocumented},
		{"driver 590", gpu(t, "L40S"), Driver{590, 44, 1}, 60, Yes, BasisDocumented},
		{"a driver newer than the table", gpu(t, "L40S"), Driver{700, 0, 0}, 60, Yes, BasisDocumented},
		{"between two branches", gpu(t, "L40S"), Driver{585, 0, 0}, 48, Unknown, BasisDocumented},
		{"unknown driver", gpu(t, "L40S"), Driver{}, 48, Unknown, BasisDocumented},
		{"unknown GPU", nil, Driver{590, 44, 1}, 16, Unknown, BasisDocumented},
	} {
		n, f := MPSClientLimit(c.gpu, c.driver)
		if n.Value != c.want || !n.Known || f.Answer != c.answer || f.Basis != c.basis {
			t.Errorf("%s: %+v, %+v; want %d, %v", c.name, n, f, c.want, c.answer)
		}
		checkCell(t, c.name, n)
		checkFinding(t, c.name, f)
	}
}

func TestStaticSMPartitions(t *testing.T) {
	for _, c := range []struct {
		gpu    *GPU
		driver Driver
		want   Answer
	}{
		{gpu(t, "A30"), Driver{590, 44, 1}, Yes}, {gpu(t, "A30"), Driver{580, 65, 6}, No}, {gpu(t, "T4"), Driver{590, 44, 1}, No},
		{gpu(t, "A30"), Driver{}, Unknown}, {nil, Driver{590, 44, 1}, Unknown}, {nil, Driver{580, 65, 6}, No},
	} {
		f := StaticSMPartitions(c.gpu, c.driver)
		if f.Answer != c.want {
			t.Errorf("%v on %v: %v (%s), want %v", c.driver, c.gpu, f.Answer, f.Text, c.want)
		}
		checkFinding(t, "static partitions", f)
	}
}

func TestDelivers(t *testing.T) {
	for _, c := range []struct {
		d    Delivery
		m    Mechanism
		want Answer
	}{
		{DevicePlugin, MPS, Yes}, {DevicePlugin, MIGWithMPS, No}, {DevicePlugin, HAMi, No}, {DevicePlugin, VGPU, No}, {DevicePlugin, InServer, Yes},
		{GPUOperator, MIG, Yes}, {GPUOperator, MIGWithMPS, No}, {DRA, MIGWithMPS, Yes}, {DRA, TimeSlicing, Yes},
		{HAMiDelivery, HAMiWithMPS, Yes}, {HAMiDelivery, MIG, Yes}, {Volcano, HAMi, Yes}, {Volcano, MPS, Unknown},
		{KAI, TimeSlicing, Yes}, {KAI, MPS, Unknown}, {VGPUManager, VGPU, Yes}, {VGPUManager, MPS, No}, {Bare, MIGWithMPS, Yes}, {Bare, HAMi, Unknown},
		{DevicePlugin, None, No}, {Bare, Research, Unknown}, {Delivery(99), MPS, Unknown}, {Bare, Mechanism(99), No},
	} {
		if got := Delivers(c.d, c.m); got.Answer != c.want {
			t.Errorf("%v delivers %v: %v (%s), want %v", c.d, c.m, got.Answer, got.Text, c.want)
		}
	}
	for _, m := range Mechanisms() {
		if len(InfoFor(m).Deliveries) == 0 && m != Research {
			t.Errorf("nothing delivers %v", m)
		}
	}
	if got := InfoFor(Mechanism(99)); got.Mechanism != Mechanism(99) || got.Title != "" {
		t.Errorf("got %+v", got)
	}
}
