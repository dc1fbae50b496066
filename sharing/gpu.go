// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
)

// Architecture is a generation of NVIDIA GPUs; generations are ordered from
// oldest to newest. The zero value is ArchitectureUnknown.
type Architecture uint8

// The architectures.
const (
	ArchitectureUnknown   Architecture = iota
	ArchitecturePascal                 // P100, P40, GTX 1080 Ti
	ArchitectureVolta                  // V100
	ArchitectureTuring                 // T4, RTX 2080 Ti, Quadro RTX 6000
	ArchitectureAmpere                 // A100, A10, A30, A40, RTX 3090, RTX A6000
	ArchitectureAda                    // L4, L40S, RTX 4090, RTX 6000 Ada
	ArchitectureHopper                 // H100, H200
	ArchitectureBlackwell              // B200, RTX PRO 6000, RTX 5090, GB10; B300 and GB300 (Blackwell Ultra) too
	ArchitectureRubin                  // VR200
)

var architectureNames = enum.Of[Architecture](ErrUnknownName, "architecture", "unknown", "pascal", "volta", "turing",
	"ampere", "ada", "hopper", "blackwell", "rubin")

// ComputeCapability is the CUDA compute capability of a GPU, for example {9, 0}.
type ComputeCapability struct{ Major, Minor int }

// String formats it as CUDA does: "9.0".
func (c ComputeCapability) String() string { return fmt.Sprintf("%d.%d", c.Major, c.Minor) }

func (c ComputeCapability) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads "9.0".
func (c *ComputeCapability) UnmarshalText(b []byte) error {
	parts, ok := parseVersion(string(b), 2)
	if !ok || !strings.Contains(string(b), ".") {
		return fmt.Errorf("sharing: %q is not a compute capability: write, for example, 9.0", problem.Clip(string(b)))
	}
	*c = ComputeCapability{parts[0], parts[1]}
	return nil
}

// GPU is a row of the GPU table: the abilities of a product, as far as sources give them. Where a board carries several
// GPUs (A16) or one GPU and a CPU (GH200), all figures are per GPU.
type GPU struct {
	// Name is the product name as NVML prints it, without "NVIDIA ".
	Name string
	// Aliases are other names that LookupGPU accepts. An alias may belong to several GPUs and is then ambiguous.
	Aliases []string
	// PCIIDs are vendor and device, as "10DE:20B2". Boards may share one.
	PCIIDs []string
	// Source is the source of the name and the PCI ids.
	Source SourceID

	Chip         string // the chip's name, for example "GA100"
	Architecture Architecture

	ComputeCapability Cell[ComputeCapability]
	// Memory is the total that NVML, or CUDA where NVML has none, reports if MemoryVisible is set. Otherwise it is the
	// nominal size in GiB; drivers report up to 2% less on HBM and up to 7% less on GDDR boards with ECC.
	Memory        Cell[Bytes]
	MemoryVisible bool
	// MemoryBandwidthGBps is the peak bandwidth of device memory in 10^9 bytes
	// per second, as NVIDIA's data sheet rounds it where the source is one.
	MemoryBandwidthGBps Cell[float64]
	// SMs is the number of streaming multiprocessors with MIG off. In MIG mode fewer may be usable: 98 of 108 on A100.
	SMs Cell[int]

	// MIG is Yes for GPUs with MIG.
	MIG Cell[Answer]
	// MIGMinDriver is the oldest driver with MIG on this GPU.
	MIGMinDriver Cell[Driver]
	// TimesliceSetting is Yes where the length of a time slice can be set (nvidia-smi compute-policy --set-timeslice). MIG
	// devices do not have the setting.
	TimesliceSetting Cell[Answer]
	// VGPU is Yes for GPUs that NVIDIA vGPU supports, with a licence and a hypervisor.
	VGPU Cell[Answer]
	// Note is advice for users of the row; it may be empty.
	Note string
}

var gpuTable = table[GPU]("gpus.json")

// GPUs lists the table, sorted by name. The slice is the caller's; pointers in
// its rows are shared and must not be modified.
func GPUs() []GPU { return slices.Clone(gpuTable()) }

// ErrUnknownGPU is returned for text that matches no name, alias or PCI id of the table.
var ErrUnknownGPU = errors.New("sharing: unknown GPU")

type unknownGPUError struct {
	Name    string   // the name that was given
	Nearest []string // the product names nearest to it; may be empty
}

func (e *unknownGPUError) Unwrap() error { return ErrUnknownGPU }

// Error names the nearest products and other ways to name a GPU; for another
// vendor's GPU it names the functions that work all the same.
func (e *unknownGPUError) Error() string {
	if v := otherVendor(e.Name); v != "" {
		return fmt.Sprintf("sharing: GPU %q is by %s: not an NVIDIA GPU; not supported. What still applies: load "+
			"generation (loadgen, cotenant bench -endpoint) and comparing costs (cotenant cost)",
			problem.Clip(e.Name), v)
	}
	if v, ok := ParseVGPUType(e.Name); ok {
		return fmt.Sprintf("sharing: %q is a vGPU, %v of a board %s as its virtual machine sees it; give the host's board, "+
			"or describe the vGPU by its memory and compute capability, such as \"%s (%v, 8.6)\"", problem.Clip(e.Name),
			v.Memory, v.Board, v.Name, v.Memory)
	}
	if len(e.Nearest) == 0 {
		return fmt.Sprintf("sharing: unknown GPU %q; give the product name that nvidia-smi prints, a PCI id such as "+
			"10DE:20B2, or a description: gpu: {name: My GPU, memory: 16GiB, bandwidth: 448, sms: 46, compute: \"8.6\"}",
			problem.Clip(e.Name))
	}
	return fmt.Sprintf("sharing: unknown GPU %q; did you mean %s? Or describe it: gpu: {name: My GPU, memory: 16GiB, "+
		"bandwidth: 448, sms: 46, compute: \"8.6\"}", problem.Clip(e.Name), orList(e.Nearest))
}

// AmbiguousGPUError is returned for a name that fits several GPUs.
type AmbiguousGPUError struct {
	Name    string   // the name that was given
	Matches []string // the product names it fits, sorted
}

func (e *AmbiguousGPUError) Error() string {
	return fmt.Sprintf("sharing: GPU %q is ambiguous: it can be %s", problem.Clip(e.Name), orList(e.Matches))
}

// otherVendors know GPUs of other vendors by their folded names.
var otherVendors = []struct {
	vendor, pci string
	names       *regexp.Regexp
}{
	{"AMD", "1002:", regexp.MustCompile(`^(amd|advancedmicrodevices)|radeon|instinct|firepro|` +
		`^mi(25|50|60|8|[1-4]\d\d)[a-z]?($|oam|pcie|\d)|^gfx\d|^rx\d{3,4}`)},
	{"Intel", "8086:", regexp.MustCompile(`^intel|gaudi|pontevecchio|` +
		`^(datacenter)?(gpu)?max(series)?1(100|350|450|550)|` +
		`^(datacenter)?(gpu)?flex(series)?1[47]0|^arc(pro)?[ab]?\d|^arc(pro)?$`)},
}

// otherVendor returns the vendor of a GPU that is known not to be NVIDIA's.
func otherVendor(name string) string {
	id, isID := pciKey(name)
	key := FoldGPUName(name)
	for _, o := range otherVendors {
		if isID && strings.HasPrefix(id, o.pci) || !isID && len(key) <= 64 && o.names.MatchString(key) {
			return o.vendor
		}
	}
	return ""
}

func orList(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	if len(quoted) == 1 {
		return quoted[0]
	}
	return strings.Join(quoted[:len(quoted)-1], ", ") + " or " + quoted[len(quoted)-1]
}

// FoldGPUName returns the loose key under which GPU names compare equal: lower case, without a leading "NVIDIA", text
// in parentheses, spaces, hyphens, underscores, slashes and dots. "NVIDIA A100-SXM4-80GB" and "a100 sxm4 80gb (PG509)"
// both fold to "a100sxm480gb".
func FoldGPUName(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	depth := 0
	for _, r := range s {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth = max(0, depth-1)
		case depth > 0 || r == ' ' || r == '\t' || r == '-' || r == '_' || r == '/' || r == '.':
		case r >= 'A' && r <= 'Z':
			b.WriteRune(r + 'a' - 'A')
		default:
			b.WriteRune(r)
		}
	}
	return strings.TrimPrefix(b.String(), "nvidia")
}

// pciKey returns the table's form of a PCI id, and whether s is one at all.
func pciKey(s string) (string, bool) {
	t := strings.ToUpper(strings.TrimSpace(s))
	if rest, ok := strings.CutPrefix(t, "0X"); ok {
		rest, _, _ = strings.Cut(rest, ":")
		switch {
		case !isHex(rest):
			return "", false
		case len(rest) == 4:
			return "10DE:" + rest, true
		case len(rest) == 8:
			return rest[4:] + ":" + rest[:4], true
		}
		return "", false
	}
	if len(t) == 9 && t[4] == ':' && isHex(t[:4]) && isHex(t[5:]) {
		return t, true
	}
	return "", false
}

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789ABCDEF") == "" }
