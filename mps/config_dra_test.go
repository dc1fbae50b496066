package mps

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
)

const draHead = "apiVersion: resource.nvidia.com/v1beta1\n"

func TestParseDRASettings(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     *DRASettings
		warn     []sharing.WarningCode
	}{
		{"bare", draHead + "kind: GpuConfig\nsharing: {strategy: MPS}", &DRASettings{}, []sharing.WarningCode{sharing.WarnFeatureGate, sharing.WarnClaimScope}},
		{"limits", draHead + `kind: GpuConfig
sharing:
  strategy: MPS
  mpsConfig:
    defaultActiveThreadPercentage: 0
    defaultPinnedDeviceMemoryLimit: 1500k
    defaultPerDevicePinnedMemoryLimit: {"0": 10Gi, GPU-b1028956-cfa2-0990-bf4a-5da9abb51763: 1.5Gi, "1": 2097152}
    multiUser: true
`, &DRASettings{
			DefaultActiveThreadPercentage: Some(0), DefaultPinnedDeviceMemoryLimit: 1500 * 1000, MultiUser: Some(true),
			DefaultPerDevicePinnedMemoryLimit: map[string]sharing.Bytes{"0": 10 * sharing.GiB, "1": 2 * sharing.MiB, "GPU-b1028956-cfa2-0990-bf4a-5da9abb51763": 1536 * sharing.MiB},
		}, []sharing.WarningCode{sharing.WarnFeatureGate, sharing.WarnClaimScope, sharing.WarnZeroPercentage, sharing.WarnLimitRoundedDown}},
		{"mig", draHead + "kind: MigDeviceConfig\nsharing: {strategy: MPS, mpsConfig: {defaultPinnedDeviceMemoryLimit: 4Gi}}",
			&DRASettings{MIGDevice: true, DefaultPinnedDeviceMemoryLimit: 4 * sharing.GiB},
			[]sharing.WarningCode{sharing.WarnFeatureGate, sharing.WarnClaimScope, sharing.WarnMIGMemoryLimit}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ws, err := ParseDRASettings([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.warn, configCodes(ws)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseDRASettingsRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"time-slicing": {draHead + "kind: GpuConfig\nsharing: {strategy: TimeSlicing}", []string{`is "TimeSlicing", not MPS`}},
		"no sharing":   {draHead + "kind: GpuConfig", []string{`is "", not MPS`}},
		"zero":         {draHead + "kind: GpuConfig\nsharing: {strategy: MPS, mpsConfig: {defaultPinnedDeviceMemoryLimit: 0}}", []string{"below 1Mi"}},
		"rules": {`apiVersion: resource.nvidia.com/v1
kind: GPUConfig
sharing:
  strategy: MPS
  timeSlicingConfig: {interval: Long}
  mpsConfig:
    defaultActiveThreadPercentage: 101
    defaultPinnedDeviceMemoryLimit: 500k
    defaultPerDevicePinnedMemoryLimit: {gpu0: 1Gi, "0": 0}
`, []string{`apiVersion: "resource.nvidia.com/v1"`, `kind: "GPUConfig"`, "timeSlicingConfig: does not go with the MPS strategy",
			"between 0 and 100, not 101", "defaultPinnedDeviceMemoryLimit: the driver refuses", `Limit.gpu0: "gpu0" names no device`, "Limit.0: the driver refuses"}},
		"forms": {draHead + `kind: GpuConfig
sharing:
  strategi: MPS
  strategy: mps
  mpsConfig: {defaultActiveThreadPercentage: 50.5, defaultPinnedDeviceMemoryLimit: 10GiB}
`, []string{`sharing.strategi: unknown key (did you mean "strategy"?)`, "must be a whole number", `"10GiB" is not a quantity`}},
		"unknown strategy": {draHead + "kind: GpuConfig\nsharing: {strategy: mps}", []string{`"mps" is not a strategy of the DRA driver (write TimeSlicing or MPS)`}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := ParseDRASettings([]byte(c.in))
			if got != nil || !errors.Is(err, ErrConfig) {
				t.Fatalf("got %+v, %v", got, err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error lacks %q:\n%v", w, err)
				}
			}
		})
	}
}

func TestDRAConfigGolden(t *testing.T) {
	for name, c := range map[string]*DRASettings{
		"dra-gpu": {DefaultActiveThreadPercentage: Some(50), DefaultPinnedDeviceMemoryLimit: 10 * sharing.GiB, MultiUser: Some(true),
			DefaultPerDevicePinnedMemoryLimit: map[string]sharing.Bytes{"1": 4096 * sharing.MiB, "0": 9728 * sharing.MiB}},
		"dra-mig": {MIGDevice: true, DefaultActiveThreadPercentage: Some(50)},
		"dra-min": {},
	} {
		got, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "testdata/config/"+name+".yaml", got)
		back, _, err := ParseDRASettings(got)
		if diff := cmp.Diff(c, back); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	bad := &DRASettings{DefaultActiveThreadPercentage: Some(-1), DefaultPinnedDeviceMemoryLimit: 5}
	if b, err := bad.Marshal(); b != nil || !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "-1") || !strings.Contains(err.Error(), "1Mi") {
		t.Errorf("got %q, %v", b, err)
	}
}

func FuzzParseDRASettings(f *testing.F) {
	f.Add([]byte(draHead + "kind: GpuConfig\nsharing: {strategy: MPS, mpsConfig: {defaultActiveThreadPercentage: 50, defaultPinnedDeviceMemoryLimit: 1.5Gi, multiUser: false}}"))
	f.Add([]byte(draHead + "kind: MigDeviceConfig\nsharing: {strategy: MPS, mpsConfig: {defaultPerDevicePinnedMemoryLimit: {\"0\": 1e9}}}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, ws, err := ParseDRASettings(in)
		if err != nil {
			if c != nil || ws != nil {
				t.Fatalf("value with error %v", err)
			}
			return
		}
		out, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		back, _, err := ParseDRASettings(out)
		if diff := cmp.Diff(c, back); err != nil || diff != "" {
			t.Fatalf("%v %s", err, diff)
		}
	})
}
