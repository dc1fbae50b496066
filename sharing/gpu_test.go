// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/must"
)

func TestLookupGPU(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"},
		{"nvidia-a100-sxm4-80gb", "A100-SXM4-80GB"},
		{"  a100 sxm4 80gb (PG509-210)", "A100-SXM4-80GB"},
		{"A100-80GB", "A100-SXM4-80GB"},
		{"A100-40GB", "A100-SXM4-40GB"},
		{"A100 80GB PCIe", "A100 80GB PCIe"},
		{"NVIDIA A100-PCIE-80GB", "A100 80GB PCIe"},
		{"0x20B2", "A100-SXM4-80GB"},
		{"0x20b210de", "A100-SXM4-80GB"},
		{"0x233510DE:0x18BF10DE", "H200"},
		{"10DE:20B2", "A100-SXM4-80GB"},
		{"10de:1eb8", "Tesla T4"},
		{"T4", "Tesla T4"},
		{"Tesla T4", "Tesla T4"},
		{"V100-32GB", "Tesla V100-SXM2-32GB"},
		{"V100-16GB", "Tesla V100-SXM2-16GB"},
		{"Tesla V100-PCIE-32GB", "Tesla V100-PCIE-32GB"},
		{"RTX 4090", "GeForce RTX 4090"},
		{"NVIDIA GeForce RTX 2080 Ti", "GeForce RTX 2080 Ti"},
		{"H200", "H200"}, {"H200 NVL", "H200 NVL"}, {"H20", "H20"}, {"H800", "H800"},
		{"NVIDIA H100 80GB HBM3 (SXM5)", "H100 80GB HBM3"}, {"H100-80GB", "H100 80GB HBM3"}, {"H100 PCIe", "H100 PCIe"}, {"H100-94GB", "H100 NVL"},
		{"GH200-96GB", "GH200 480GB"}, {"NVIDIA GH200 120GB", "GH200 480GB"}, {"GH200-144GB", "GH200 144G HBM3e"},
		{"B200", "B200"}, {"B300", "B300 SXM6 AC"}, {"GB200", "GB200"}, {"GB300", "GB300"},
		{"A10", "A10"}, {"A10-24GB", "A10"}, {"nvidia-l4-24gb", "L4"}, {"A10G", "A10G"}, {"A16", "A16"}, {"A30", "A30"}, {"A40", "A40"}, {"L4", "L4"}, {"L40", "L40"}, {"L40S", "L40S"},
		{"RTX PRO 6000 Server", "RTX PRO 6000 Blackwell Server Edition"},
		{"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 Blackwell Workstation Edition"},
	} {
		got, err := LookupGPU(c.in)
		if err != nil || got.Name != c.want {
			t.Errorf("LookupGPU(%q) = %+v, %v; want %s", c.in, got, err, c.want)
		}
	}
}

func TestLookupGPUAmbiguous(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"A100", []string{"A100 80GB PCIe", "A100-PCIE-40GB", "A100-SXM4-40GB", "A100-SXM4-80GB"}},
		{"NVIDIA V100", []string{"Tesla V100-PCIE-16GB", "Tesla V100-PCIE-32GB", "Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB"}},
		{"h100", []string{"H100 80GB HBM3", "H100 NVL", "H100 PCIe", "H100 SXM5 94GB"}},
		{"GH200", []string{"GH200 144G HBM3e", "GH200 480GB"}},
		{"RTX PRO 6000", []string{"RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Workstation Edition"}},
		{"0x25B6", []string{"A16", "A2"}},
	} {
		_, err := LookupGPU(c.in)
		var amb *AmbiguousGPUError
		if !errors.As(err, &amb) {
			t.Errorf("LookupGPU(%q): %v, want an AmbiguousGPUError", c.in, err)
			continue
		}
		if diff := cmp.Diff(c.want, amb.Matches); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.in, diff)
		}
		for _, name := range amb.Matches {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%v does not name %s", err, name)
			}
		}
	}
}

func TestLookupGPUUnknown(t *testing.T) {
	for _, c := range []struct{ in, near string }{
		{"A1000-SXM4-80GB", "A100-SXM4-80GB"}, {"H10O PCIe", "H100 PCIe"}, {"L40X", "L40"}, {"Tesla V100-SMX2-16GB", "Tesla V100-SXM2-16GB"},
		{"RTX PRO 600", "RTX PRO 6000 Blackwell Server Edition"},
		{"", ""}, {"(A100-80GB)", ""}, {"MI300X", ""}, {"0x9999", ""}, {"1002:20B2", ""}, {"0x20B2100", ""}, {strings.Repeat("A", 1000), ""},
	} {
		g, err := LookupGPU(c.in)
		var unknown *unknownGPUError
		if !errors.As(err, &unknown) || g != nil {
			t.Errorf("LookupGPU(%q) = %v, %v; want an ErrUnknownGPU", c.in, g, err)
			continue
		}
		if c.near != "" && !strings.Contains(err.Error(), `"`+c.near+`"`) {
			t.Errorf("%v does not suggest %s", err, c.near)
		}
		if len(err.Error()) > 400 || len(unknown.Nearest) > 3 {
			t.Errorf("long error: %v", err)
		}
	}
}

// TestNamesakes: a name with another model in it is no typing error of a product.
func TestNamesakes(t *testing.T) {
	for in, want := range map[string][]string{
		"RTX A6000 Ti": nil, "RTX 8000": nil, "RTX A5500": nil, "RTX A2000": nil, "GeForce RTX 3090 Ti": nil, "RTX 4090 D": nil,
		"GeForce RTX 4080 SUPER": nil, "RTX A1000": nil, "T1000": nil, "H100-SMX": {"H100 80GB HBM3", "H100 SXM5 94GB"}, "RTZ A6000": {"RTX A6000"},
		"GeForce RTX 3900": nil, "Tesla P4": nil, "RTX A600": {"RTX A6000"}, "H2000": {"H200", "H200 NVL"},
		"A100-SXM5-80GB": {"A100-SXM4-80GB", "A100-SXM4-40GB"},
	} {
		_, err := LookupGPU(in)
		var unknown *unknownGPUError
		if !errors.As(err, &unknown) || !slices.Equal(unknown.Nearest, want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

// TestVGPUNames distinguishes names that a guest's driver prints from boards.
func TestVGPUNames(t *testing.T) {
	for in, want := range map[string]string{
		"NVIDIA A10-12Q": "a vGPU, 12GiB of a board A10 as its", "GRID T4-8C": "8GiB of a board T4", "NVIDIA RTXA6000-48Q": "of a board RTXA6000",
		"A100D-1-10C": "10GiB of a board A100D", "L2-24Q": `"L2-24Q (24GiB, 8.6)"`, "A10-Q": "unknown GPU",
	} {
		if _, err := LookupGPU(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

// TestOtherVendors distinguishes GPUs of other vendors from misspelt names.
func TestOtherVendors(t *testing.T) {
	for _, c := range []struct{ in, vendor string }{
		{"MI300X", "AMD"}, {"AMD Instinct MI210", "AMD"}, {"mi250x", "AMD"}, {"MI325X-OAM", "AMD"}, {"MI100", "AMD"}, {"MI50", "AMD"}, {"Radeon RX 7900 XTX", "AMD"}, {"RX 7900 XTX", "AMD"}, {"gfx942", "AMD"}, {"1002:74A1", "AMD"},
		{"Gaudi3", "Intel"}, {"HL-225 Gaudi 2", "Intel"}, {"Intel Data Center GPU Max 1550", "Intel"}, {"Max 1550", "Intel"}, {"Max-1100", "Intel"}, {"Arc A770", "Intel"}, {"Arc Pro B60", "Intel"}, {"Flex 170", "Intel"}, {"0x0BD58086", "Intel"},
	} {
		_, err := LookupGPU(c.in)
		if err == nil || strings.Contains(err.Error(), "did you mean") || !strings.Contains(err.Error(), "is by "+c.vendor+": not an NVIDIA GPU; not supported") || !strings.Contains(err.Error(), "load generation") || !strings.Contains(err.Error(), "costs") {
			t.Errorf("LookupGPU(%q): %v", c.in, err)
		}
	}
	for _, in := range []string{"A100O", "MIG 1g.5gb", "Maxwell", "Archer", "M40", "RTX 600", "10DE:FFFF"} {
		if _, err := LookupGPU(in); err == nil || strings.Contains(err.Error(), "not an NVIDIA GPU") {
			t.Errorf("LookupGPU(%q): %v", in, err)
		}
	}
	for _, g := range GPUs() {
		if v := otherVendor(g.Name); v != "" {
			t.Errorf("%s is taken for one by %s", g.Name, v)
		}
	}
}

func TestGPUFacts(t *testing.T) {
	for _, c := range []struct {
		name      string
		arch      Architecture
		cc        string
		memoryMiB int64
		visible   bool
		sms       int
		mig       Answer
		timeslice Answer
	}{
		{"H200", ArchitectureHopper, "9.0", 143771, true, 132, AnswerYes, AnswerYes},
		{"A100-SXM4-80GB", ArchitectureAmpere, "8.0", 81920, true, 108, AnswerYes, AnswerYes},
		{"A16", ArchitectureAmpere, "8.6", 15356, true, 0, AnswerNo, AnswerYes},
		{"Tesla T4", ArchitectureTuring, "7.5", 15360, true, 40, AnswerNo, AnswerYes},
		{"Tesla P100-SXM2-16GB", ArchitecturePascal, "6.0", 16384, false, 56, AnswerNo, AnswerUnknown},
		{"RTX 6000 Ada", ArchitectureAda, "8.9", 49140, true, 142, AnswerNo, AnswerYes},
		{"GB10", ArchitectureBlackwell, "12.1", 122570, true, 48, AnswerNo, AnswerYes},
		{"NVIDIA-RTX-A4000", ArchitectureAmpere, "8.6", 16376, true, 48, AnswerNo, AnswerYes},
		{"Rubin", ArchitectureRubin, "10.7", 288 << 10, false, 0, AnswerUnknown, AnswerUnknown},
	} {
		g, err := LookupGPU(c.name)
		if err != nil {
			t.Error(err)
			continue
		}
		if g.Architecture != c.arch || g.ComputeCapability.Value.String() != c.cc || g.Memory.Value.MiB() != c.memoryMiB ||
			g.MemoryVisible != c.visible || g.SMs.Value != c.sms || g.SMs.Known != (c.sms > 0) || g.MIG.Value != c.mig || g.TimesliceSetting.Value != c.timeslice {
			t.Errorf("%s: %+v, want %+v", c.name, *g, c)
		}
	}
}

func TestCellJSON(t *testing.T) {
	type row struct {
		SMs    Cell[int]   `json:"sms,omitzero"`
		Memory Cell[Bytes] `json:"memory"`
	}
	b, err := json.Marshal(row{Memory: KnownCell(18*GiB, "nvidia-mig-guide")})
	if err != nil || string(b) != `{"memory":{"value":"18GiB","source":"nvidia-mig-guide"}}` {
		t.Errorf("got %s, %v", b, err)
	}
	var back row
	if err := json.Unmarshal(b, &back); err != nil || back.SMs.Known || back.Memory != KnownCell(18*GiB, "nvidia-mig-guide") {
		t.Errorf("got %+v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"memory":null}`), &back); err != nil || back.Memory.Known {
		t.Errorf("null reads as %+v, %v", back.Memory, err)
	}
	if err := json.Unmarshal([]byte(`{"memory":7}`), &back); err == nil {
		t.Error("7 reads as a cell")
	}
}

func FuzzLookupGPU(f *testing.F) {
	for _, g := range GPUs() {
		f.Add(g.Name)
	}
	for _, s := range []string{"", "0x20B2", "10DE:20B2", "A100", "(((", "0x", "nvidia", "NVIDIA (x)", "ÅÄÖ", "\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := LookupGPU(s)
		if (g == nil) == (err == nil) {
			t.Fatalf("LookupGPU(%q) = %v, %v", s, g, err)
		}
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
			return
		}
		if back, err := LookupGPU(g.Name); err != nil || back != g {
			t.Errorf("%q -> %s -> %v, %v", s, g.Name, back, err)
		}
	})
}

func BenchmarkLookupGPU(b *testing.B) {
	for _, name := range []string{"NVIDIA A100-SXM4-80GB", "0x20B210DE"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must.Get(LookupGPU(name))(b)
			}
		})
	}
}
