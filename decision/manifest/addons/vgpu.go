package addons

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// vgpuForm is a vGPU type's name: A100D-10C, with 10 GB of frame buffer, is time-sliced; A100D-1-10C is backed by a
// MIG instance of one slice, and only such a one can have media engines (ME).
var vgpuForm = regexp.MustCompile(`^(?:NVIDIA |GRID )?[A-Z][A-Z0-9]{1,15}-` +
	`(?:([1-7])-[1-9][0-9]{0,2}[CQAB](?:ME)?|[1-9][0-9]{0,2}[CQAB])$`)

// VGPUPolicy names the way in which the vGPU manager schedules the virtual GPUs of a time-sliced type. The zero
// value is VGPUPolicyBestEffort, the manager's default.
type VGPUPolicy uint8

// The policies.
const (
	VGPUPolicyBestEffort VGPUPolicy = iota // a busy neighbour takes what is idle; no share is promised
	VGPUPolicyEqualShare                   // each running virtual GPU has the same share
	VGPUPolicyFixedShare                   // each virtual GPU has the share of its type
)

var vgpuPolicies = enum.Of[VGPUPolicy](manifest.ErrInvalid, "vGPU policy", "best-effort", "equal-share", "fixed-share")

// VGPUScheduler is the scheduling of a time-sliced vGPU group. The zero value is the manager's default: best effort.
type VGPUScheduler struct {
	Policy VGPUPolicy
	// TimeSlice, 1 to 30 ms in whole milliseconds, turns strict round robin
	// off and lets each virtual GPU run that long. 0 leaves the policy's own.
	TimeSlice time.Duration
	// AveragingFactor, 1 to 60, and FrequencyHz tune strict round robin; both are given or none. The manager's
	// defaults are 33, and 480 Hz up to 8 virtual GPUs on a board or 960 Hz above.
	AveragingFactor int
	FrequencyHz     int
}

const (
	rmEqual    = 0x01
	rmFixed    = 0x11
	rmEqualNRR = 0x03 // without strict round robin, as the guide's example has it
)

func (s VGPUScheduler) check(l *problem.List, at string) {
	l.If(!vgpuPolicies.Has(s.Policy), at+".policy", "use best-effort, equal-share or fixed-share",
		"%v is not known", s.Policy)
	tuned := s.AveragingFactor != 0 || s.FrequencyHz != 0
	l.If(s.Policy == VGPUPolicyBestEffort && (s.TimeSlice != 0 || tuned), at+".policy",
		"choose equal-share or fixed-share", "best effort takes no parameters")
	l.If(s.TimeSlice != 0 && tuned, at+".time_slice", "give one or the other",
		"a time slice turns off the strict round robin that the averaging factor tunes")
	if s.TimeSlice != 0 && (s.TimeSlice < time.Millisecond || s.TimeSlice > 30*time.Millisecond ||
		s.TimeSlice%time.Millisecond != 0) {
		l.Addf(at+".time_slice", "", "must be 1 to 30 whole milliseconds, not %v", s.TimeSlice)
	}
	l.If(tuned && (s.AveragingFactor < 1 || s.AveragingFactor > 60), at+".averaging_factor", "",
		"must be 1 to 60, not %d", s.AveragingFactor)
	l.If(tuned && (s.FrequencyHz < 1 || s.FrequencyHz > 0xfff), at+".frequency_hz", "",
		"must be 1 to 4095, not %d", s.FrequencyHz)
}

// RmPVMRL returns the word of the vGPU manager's registry key RmPVMRL (source VGPU). For equal share with a time
// slice it is the form of the guide's example, 0x00TT0003.
func (s VGPUScheduler) RmPVMRL() (uint32, error) {
	var l problem.List
	s.check(&l, "vgpu_scheduler")
	if err := l.Under(manifest.ErrInvalid); err != nil {
		return 0, err
	}
	return s.word(), nil
}

func (s VGPUScheduler) word() uint32 {
	var word uint32
	switch s.Policy {
	case VGPUPolicyEqualShare:
		word = rmEqual
	case VGPUPolicyFixedShare:
		word = rmFixed
	default:
		return 0
	}
	if s.TimeSlice > 0 {
		if s.Policy == VGPUPolicyEqualShare {
			word = rmEqualNRR
		}
		return word | uint32(s.TimeSlice/time.Millisecond)<<16
	}
	return word | uint32(s.AveragingFactor)<<24 | uint32(s.FrequencyHz)<<12
}

// VGPU writes the settings of the hypervisor's host for each group that shares by virtual GPUs.
type VGPU struct {
	Schedulers map[string]VGPUScheduler // by pool; of time-sliced types only
}

// The codes of the warnings about virtual GPUs.
const (
	WarnRmPVMRLForm sharing.WarningCode = "rmpvmrl-form"     // the guide gives two forms of the word
	WarnBestEffort  sharing.WarningCode = "vgpu-best-effort" // no share of compute is promised
)

// Labels returns none.
func (VGPU) Labels(*manifest.Group) map[string]string { return nil }

// PodLabels returns none.
func (VGPU) PodLabels(*manifest.Member) map[string]string { return nil }

// Documents writes a file vgpu/GROUP.conf for each group.
func (v VGPU) Documents(groups []manifest.Group) ([]manifest.File, []sharing.Warning, error) {
	var l problem.List
	pools := map[string]bool{}
	for i := range groups {
		pools[groups[i].Pool.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(v.Schedulers)) {
		l.If(!pools[name], "vgpu.schedulers."+name, "name one that the decision uses", "no GPU of such a pool is used")
	}
	var files []manifest.File
	var warnings []sharing.Warning
	for i := range groups {
		if g := &groups[i]; slices.Contains(g.Mechanisms, sharing.MechanismVGPU) ||
			slices.Contains(g.Mechanisms, sharing.MechanismMIGBackedVGPU) {
			if file, found := v.file(g, &l); g.Delivery == sharing.DeliveryVGPUManager {
				files, warnings = append(files, file), append(warnings, found...)
			}
		}
	}
	return files, warnings, l.Err()
}

func (v VGPU) file(g *manifest.Group, l *problem.List) (manifest.File, []sharing.Warning) {
	s, backed := v.Schedulers[g.Pool.Name], slices.Contains(g.Mechanisms, sharing.MechanismMIGBackedVGPU)
	form := vgpuForm.FindStringSubmatch(g.Pool.VGPUType)
	switch {
	case form == nil:
		l.Addf(g.Key, "set the pool's vgpu_type to a type such as A100D-10C", "%q is not a vGPU type", g.Pool.VGPUType)
	case (form[1] != "") != backed:
		l.Addf(g.Key, "vgpu takes a time-sliced type, mig-vgpu a MIG-backed one",
			"the pool's vgpu_type %s does not go with %v", g.Pool.VGPUType, g.Mechanisms[0])
	}
	at := "vgpu.schedulers." + g.Pool.Name
	s.check(l, at)
	l.If(backed && s != (VGPUScheduler{}), at, "remove it", "the vGPU schedulers are for time-sliced types only")
	text := fmt.Sprintf("# vGPU group %s: type %s on each of %d GPUs.\n", g.Key, g.Pool.VGPUType, g.GPUs)
	if backed {
		return manifest.File{Path: "vgpu/" + g.Key + ".conf", Note: "choose the type in the hypervisor",
			Data: []byte(text + "# MIG-backed: no scheduler setting; make the GPU instances in the host first.\n")}, nil
	}
	text += fmt.Sprintf("# Scheduler: %v. Put this file into the host's modprobe.d and load the driver anew.\noptions "+
		"nvidia NVreg_RegistryDwords=\"RmPVMRL=0x%08x\"\n", s.Policy, s.word())
	var warnings []sharing.Warning
	if s.Policy == VGPUPolicyEqualShare && s.TimeSlice > 0 {
		warnings = append(warnings, sharing.Warning{Code: WarnRmPVMRLForm, Path: g.Key, Source: "nvidia-vgpu-guide",
			Message: "NVIDIA's guide gives two words for equal share with a time slice, ending in 0001 and in 0003; this is " +
				"the second",
			Remedy: "read the scheduler in force back with nvidia-smi vgpu -ss"})
	}
	if s.Policy == VGPUPolicyBestEffort {
		warnings = append(warnings, sharing.Warning{Code: WarnBestEffort, Path: g.Key, Source: "nvidia-vgpu-guide",
			Message: "the best-effort scheduler promises no share of compute; only the frame buffer is divided",
			Remedy:  "choose equal-share or fixed-share"})
	}
	return manifest.File{Path: "vgpu/" + g.Key + ".conf", Note: "for modprobe.d of the hypervisor's host",
		Data: []byte(text)}, warnings
}
