package manifest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// VGPUType is the name of an NVIDIA vGPU type, taken apart: A100D-10C is
// time-sliced, A100D-1-10C is backed by a MIG instance of one slice.
type VGPUType struct {
	Board         string // for example A100D
	Slices        int    // compute slices of the MIG instance; 0 for a time-sliced type
	FrameBufferGB int    // gigabytes of frame buffer, as the name says
	Series        byte   // 'C' compute, 'Q' workstation, 'A' applications, 'B' PC
	Media         bool   // the MIG instance has media engines (ME)
}

var vgpuForm = regexp.MustCompile(`^(?:NVIDIA |GRID )?([A-Z][A-Z0-9]{1,15})(?:-([1-7]))?-([1-9][0-9]{0,2})([CQAB])(ME)?$`)

// ParseVGPUType reads a vGPU type's name, with or without "NVIDIA " or "GRID ".
func ParseVGPUType(s string) (VGPUType, error) {
	m := vgpuForm.FindStringSubmatch(s)
	if m == nil || m[5] != "" && m[2] == "" {
		if r := []rune(s); len(r) > 40 {
			s = string(r[:40]) + "…"
		}
		return VGPUType{}, fmt.Errorf("%w: %q is not a vGPU type such as A100D-10C or A100D-1-10C", ErrInvalid, s)
	}
	t := VGPUType{Board: m[1], Series: m[4][0], Media: m[5] != ""}
	t.Slices, _ = strconv.Atoi(m[2])
	t.FrameBufferGB, _ = strconv.Atoi(m[3])
	return t, nil
}

// String writes the type's name without a vendor.
func (t VGPUType) String() string {
	var b strings.Builder
	b.WriteString(t.Board)
	if t.Slices > 0 {
		fmt.Fprintf(&b, "-%d", t.Slices)
	}
	fmt.Fprintf(&b, "-%d%c", t.FrameBufferGB, t.Series)
	if t.Media {
		b.WriteString("ME")
	}
	return b.String()
}

// MIGBacked reports whether the type is a MIG instance.
func (t VGPUType) MIGBacked() bool { return t.Slices > 0 }

// VGPUPolicy is how the vGPU manager schedules the virtual GPUs of a
// time-sliced type. The zero value is BestEffort, the manager's default.
type VGPUPolicy uint8

// The policies.
const (
	BestEffort VGPUPolicy = iota // a busy neighbour takes what is idle; no share is promised
	EqualShare                   // each running virtual GPU has the same share
	FixedShare                   // each virtual GPU has the share of its type
)

var vgpuPolicies = [...]string{"best-effort", "equal-share", "fixed-share"}

// String returns "best-effort", "equal-share" or "fixed-share".
func (p VGPUPolicy) String() string {
	if int(p) >= len(vgpuPolicies) {
		return fmt.Sprintf("VGPUPolicy(%d)", uint8(p))
	}
	return vgpuPolicies[p]
}

// MarshalText returns the policy's text.
func (p VGPUPolicy) MarshalText() ([]byte, error) {
	if int(p) >= len(vgpuPolicies) {
		return nil, fmt.Errorf("manifest: %d is no vGPU policy", uint8(p))
	}
	return []byte(vgpuPolicies[p]), nil
}

// UnmarshalText reads a policy's text; unknown text is a
// *sharing.UnknownNameError.
func (p *VGPUPolicy) UnmarshalText(b []byte) error {
	i := slices.Index(vgpuPolicies[:], string(b))
	if i < 0 {
		return &sharing.UnknownNameError{Kind: "vGPU policy", Name: string(b), Known: vgpuPolicies[:]}
	}
	*p = VGPUPolicy(i)
	return nil
}

// VGPUScheduler is the scheduling of a time-sliced vGPU group. The zero value
// is the manager's default: best effort.
type VGPUScheduler struct {
	Policy VGPUPolicy
	// TimeSlice, 1 to 30 ms in whole milliseconds, turns strict round robin
	// off and lets each virtual GPU run that long. 0 leaves the policy's own.
	TimeSlice time.Duration
	// AveragingFactor, 1 to 60, and FrequencyHz tune strict round robin; both
	// are given or none. The manager's defaults are 33, and 480 Hz up to 8
	// virtual GPUs on a board or 960 Hz above.
	AveragingFactor int
	FrequencyHz     int
}

const (
	rmEqual    = 0x01
	rmFixed    = 0x11
	rmEqualNRR = 0x03 // without strict round robin, as the guide's example has it
)

func (s VGPUScheduler) check(l *problem.List, at string) {
	if int(s.Policy) >= len(vgpuPolicies) {
		l.Addf(at+".policy", "use best-effort, equal-share or fixed-share", "%v is not known", s.Policy)
	}
	tuned := s.AveragingFactor != 0 || s.FrequencyHz != 0
	if s.Policy == BestEffort && (s.TimeSlice != 0 || tuned) {
		l.Addf(at+".policy", "choose equal-share or fixed-share", "best effort takes no parameters")
	}
	if s.TimeSlice != 0 && tuned {
		l.Addf(at+".time_slice", "give one or the other", "a time slice turns off the strict round robin that the averaging factor tunes")
	}
	if s.TimeSlice != 0 && (s.TimeSlice < time.Millisecond || s.TimeSlice > 30*time.Millisecond || s.TimeSlice%time.Millisecond != 0) {
		l.Addf(at+".time_slice", "", "must be 1 to 30 whole milliseconds, not %v", s.TimeSlice)
	}
	if tuned && (s.AveragingFactor < 1 || s.AveragingFactor > 60) {
		l.Addf(at+".averaging_factor", "", "must be 1 to 60, not %d", s.AveragingFactor)
	}
	if tuned && (s.FrequencyHz < 1 || s.FrequencyHz > 0xfff) {
		l.Addf(at+".frequency_hz", "", "must be 1 to 4095, not %d", s.FrequencyHz)
	}
}

// RmPVMRL returns the word of the vGPU manager's registry key RmPVMRL (source
// VGPU). For equal share with a time slice it is the form of the guide's
// example, 0x00TT0003.
func (s VGPUScheduler) RmPVMRL() (uint32, error) {
	var l problem.List
	s.check(&l, "vgpu_scheduler")
	if err := l.Err(); err != nil {
		return 0, invalid(err)
	}
	var word uint32
	switch s.Policy {
	case EqualShare:
		word = rmEqual
	case FixedShare:
		word = rmFixed
	default:
		return 0, nil
	}
	if s.TimeSlice > 0 {
		if s.Policy == EqualShare {
			word = rmEqualNRR
		}
		return word | uint32(s.TimeSlice/time.Millisecond)<<16, nil
	}
	return word | uint32(s.AveragingFactor)<<24 | uint32(s.FrequencyHz)<<12, nil
}

// ParseRmPVMRL reads a word of RmPVMRL, in hexadecimal with 0x or in decimal.
// It takes both forms that NVIDIA's guide gives for equal share with a time
// slice (0x00TT0001 and 0x00TT0003).
func ParseRmPVMRL(s string) (VGPUScheduler, error) {
	word, err := strconv.ParseUint(s, 0, 32)
	if err != nil || strings.Contains(s, "_") {
		if r := []rune(s); len(r) > 40 {
			s = string(r[:40]) + "…"
		}
		return VGPUScheduler{}, fmt.Errorf("%w: RmPVMRL: %q is not a 32-bit number such as 0x00030003", ErrInvalid, s)
	}
	var out VGPUScheduler
	switch low := word & 0xfff; {
	case word == 0:
		return out, nil
	case low == rmEqual:
		out.Policy = EqualShare
	case low == rmEqualNRR && word>>16 != 0:
		out.Policy = EqualShare
	case low == rmFixed:
		out.Policy = FixedShare
	default:
		return VGPUScheduler{}, fmt.Errorf("%w: RmPVMRL: 0x%08x is no form of the guide", ErrInvalid, word)
	}
	switch {
	case word&0xf000 != 0 || word>>24 != 0:
		out.AveragingFactor, out.FrequencyHz = int(word>>24), int(word>>12&0xfff)
	default:
		out.TimeSlice = time.Duration(word>>16) * time.Millisecond
	}
	if word&0xfff == rmEqualNRR && out.TimeSlice == 0 {
		return VGPUScheduler{}, fmt.Errorf("%w: RmPVMRL: 0x%08x is no form of the guide", ErrInvalid, word)
	}
	var l problem.List
	out.check(&l, "RmPVMRL")
	if err := l.Err(); err != nil {
		return VGPUScheduler{}, invalid(err)
	}
	return out, nil
}

func (g *Group) checkVGPU(l *problem.List, at string) {
	t, err := ParseVGPUType(g.VGPUType)
	switch {
	case err != nil:
		l.Addf(at+".vgpu_type", "name a type such as A100D-10C", "%q is not a vGPU type", g.VGPUType)
	case t.MIGBacked() != (g.Mechanism == sharing.MechanismMIGBackedVGPU):
		l.Addf(at+".vgpu_type", "vgpu takes a time-sliced type, mig-vgpu a MIG-backed one", "%s does not go with %v", t, g.Mechanism)
	}
	g.VGPUScheduler.check(l, at+".vgpu_scheduler")
	if g.Mechanism == sharing.MechanismMIGBackedVGPU && g.VGPUScheduler != (VGPUScheduler{}) {
		l.Addf(at+".vgpu_scheduler", "remove it", "the vGPU schedulers are for time-sliced types only")
	}
}

// vgpuFile writes the settings of the hypervisor's host.
func (g *Group) vgpuFile() (File, []sharing.Warning, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# vGPU group %s: type %s on each of %d GPUs.\n", g.Key(), g.VGPUType, g.GPUs)
	var ws []sharing.Warning
	note := "choose the type in the hypervisor"
	if g.Mechanism == sharing.MechanismVGPU {
		word, err := g.VGPUScheduler.RmPVMRL()
		if err != nil {
			return File{}, nil, err
		}
		fmt.Fprintf(&b, "# Scheduler: %v. Put this file into the host's modprobe.d and load the driver anew.\n", g.VGPUScheduler.Policy)
		fmt.Fprintf(&b, "options nvidia NVreg_RegistryDwords=\"RmPVMRL=0x%08x\"\n", word)
		note = "for modprobe.d of the hypervisor's host"
		if g.VGPUScheduler.Policy == EqualShare && g.VGPUScheduler.TimeSlice > 0 {
			ws = append(ws, sharing.Warning{Code: WarnRmPVMRLForm, Path: g.Key(), Source: "nvidia-vgpu-guide",
				Message: "NVIDIA's guide gives two words for equal share with a time slice, ending in 0001 and in 0003; this is the second",
				Remedy:  "read the scheduler in force back with nvidia-smi vgpu -ss"})
		}
		if g.VGPUScheduler.Policy == BestEffort {
			ws = append(ws, sharing.Warning{Code: WarnBestEffort, Path: g.Key(), Source: "nvidia-vgpu-guide",
				Message: "the best-effort scheduler promises no share of compute; only the frame buffer is divided",
				Remedy:  "choose equal-share or fixed-share"})
		}
	} else {
		b.WriteString("# MIG-backed: no scheduler setting; make the GPU instances in the host first.\n")
	}
	return File{Path: "vgpu/" + g.Key() + ".conf", Data: []byte(b.String()), Note: note}, ws, nil
}
