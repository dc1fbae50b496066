// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

var (
	describedText = regexp.MustCompile(`^(.*\S)\s*\(([^()]*)\)$`)
	bandwidthText = regexp.MustCompile(`^[0-9.]+GB/s$`)
	smsText       = regexp.MustCompile(`^[0-9]+ SMs$`)
	described     sync.Map // *GPU by its text, so that one text is one GPU
)

// DescribeGPU describes a GPU that the table lacks, in a form that LookupGPU accepts: its product name, with its memory
// and its compute capability, or else its architecture, in parentheses: "GeForce RTX 4080 (16376MiB, 8.9)". Zero values
// are left out; the text is empty for a GPU without a name or without known facts.
func DescribeGPU(product string, memory Bytes, cc ComputeCapability, a Architecture) string {
	var facts []string
	if memory > 0 {
		facts = append(facts, fmt.Sprintf("%dMiB", memory/MiB))
	}
	if cc != (ComputeCapability{}) {
		facts = append(facts, cc.String())
	} else if a != ArchitectureUnknown {
		facts = append(facts, a.String())
	}
	product, _, _ = strings.Cut(strings.TrimPrefix(product, "NVIDIA "), " (")
	if product == "" || len(product) > 64 || len(facts) == 0 || otherVendor(product) != "" {
		return ""
	}
	return product + " (" + strings.Join(facts, ", ") + ")"
}

// GPUDescription is a user's description of a GPU that the table lacks.
type GPUDescription struct {
	Name      string  `yaml:"name,required"`
	Memory    Bytes   `yaml:"memory,required"`    // as the driver reports it
	Bandwidth float64 `yaml:"bandwidth,required"` // of the memory, GB/s
	SMs       int     `yaml:"sms,required"`
	Compute   string  `yaml:"compute,required"` // compute capability, 8.7
}

// String writes the description in a form that LookupGPU accepts: "My GPU (65536MiB, 204.8GB/s, 16 SMs, 8.7)".
func (d *GPUDescription) String() string {
	return fmt.Sprintf("%s (%dMiB, %gGB/s, %d SMs, %s)", d.Name, d.Memory/MiB, d.Bandwidth, d.SMs, d.Compute)
}

// describedGPU reads the text of DescribeGPU and GPUDescription, nil for any other. The abilities follow from the
// architecture.
func describedGPU(text string) *GPU {
	if g, ok := described.Load(text); ok {
		return g.(*GPU)
	}
	m := describedText.FindStringSubmatch(text)
	if m == nil || len(text) > 120 || otherVendor(m[1]) != "" {
		return nil
	}
	g := &GPU{Name: text, Note: "not in the GPU table: what is known is what was stated"}
	for fact := range strings.SplitSeq(m[2], ",") {
		fact = strings.TrimSpace(fact)
		var b Bytes
		var cc ComputeCapability
		switch {
		case cc.UnmarshalText([]byte(fact)) == nil:
			g.ComputeCapability, g.Architecture = KnownCell(cc, ""), cc.architecture()
		case bandwidthText.MatchString(fact):
			v, err := strconv.ParseFloat(strings.TrimSuffix(fact, "GB/s"), 64)
			if err != nil || v <= 0 || v > 1e6 {
				return nil
			}
			g.MemoryBandwidthGBps = KnownCell(v, "")
		case smsText.MatchString(fact):
			n, err := strconv.Atoi(strings.TrimSuffix(fact, " SMs"))
			if err != nil || n < 1 || n > 10_000 {
				return nil
			}
			g.SMs = KnownCell(n, "")
		case g.Architecture.UnmarshalText([]byte(fact)) == nil:
		case b.UnmarshalText([]byte(fact)) == nil && b > 0:
			g.Memory, g.MemoryVisible = KnownCell(b, ""), true
		default:
			return nil
		}
	}
	cc, known := g.ComputeCapability.Get()
	switch a := g.Architecture; {
	case a == ArchitectureUnknown && g.Memory.Value == 0:
		return nil
	case a == ArchitecturePascal, a == ArchitectureVolta, a == ArchitectureTuring, a == ArchitectureAda,
		known && cc.Major == 8 && cc.Minor > 0: // of Ampere GA100 alone has it
		g.MIG = KnownCell(AnswerNo, "nvidia-mig-guide-gpus")
	}
	if g.Architecture >= ArchitectureTuring {
		g.TimesliceSetting = KnownCell(AnswerYes, "nvidia-kernel-timeslice-setting")
	}
	shared, _ := described.LoadOrStore(text, g)
	return shared.(*GPU)
}

// architecture is the generation of a compute capability (https://developer.nvidia.com/cuda-gpus).
func (c ComputeCapability) architecture() Architecture {
	switch {
	case c.Major == 6:
		return ArchitecturePascal
	case c.Major == 7 && c.Minor < 5:
		return ArchitectureVolta
	case c.Major == 7:
		return ArchitectureTuring
	case c.Major == 8 && c.Minor < 9:
		return ArchitectureAmpere
	case c.Major == 8:
		return ArchitectureAda
	case c.Major == 9:
		return ArchitectureHopper
	case c.Major == 10 && c.Minor >= 7, c.Major == 13: // 10.7 as CUDA has it, 13 as the device plugin
		return ArchitectureRubin
	case c.Major >= 10 && c.Major <= 12:
		return ArchitectureBlackwell
	}
	return ArchitectureUnknown
}
