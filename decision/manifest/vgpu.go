// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// WarnBestEffort warns that the vGPU manager's default scheduler promises no share of compute.
const WarnBestEffort sharing.WarningCode = "vgpu-best-effort"

// vgpuForm is a vGPU type's name: A100D-10C, with 10 GB of frame buffer, is time-sliced; A100D-1-10C is backed by a
// MIG instance of one slice, and only such a one can have media engines (ME).
var vgpuForm = regexp.MustCompile(`^(?:NVIDIA |GRID )?[A-Z][A-Z0-9]{1,15}-` +
	`(?:([1-7])-[1-9][0-9]{0,2}[CQAB](?:ME)?|[1-9][0-9]{0,2}[CQAB])$`)

// checkVGPU asks whether a group's type of virtual GPUs is one of its mechanism.
func (g *group) checkVGPU(l *problem.List) {
	if !g.any(isVGPU) {
		return
	}
	form := vgpuForm.FindStringSubmatch(g.pool.VGPUType)
	switch {
	case form == nil:
		l.Addf(g.at, "set the pool's vgpu_type to a type such as A100D-10C", "%q is not a vGPU type", g.pool.VGPUType)
	case (form[1] != "") != slices.Contains(g.modes, sharing.MechanismMIGBackedVGPU):
		l.Addf(g.at, "vgpu takes a time-sliced type, mig-vgpu a MIG-backed one",
			"the pool's vgpu_type %s does not go with %s", g.pool.VGPUType, named(g.modes))
	}
}

// vgpuFiles writes the settings of the hypervisor's host for each group that shares by virtual GPUs: the manager's
// default, best effort, by the word of its registry key RmPVMRL (nvidia-vgpu-guide).
func (b *builder) vgpuFiles() {
	for _, g := range b.groups {
		if !g.any(isVGPU) || g.primary() != sharing.DeliveryVGPUManager {
			continue
		}
		text := fmt.Sprintf("# vGPU group %s: type %s on %s.\n", g.key, g.pool.VGPUType,
			plaintext.Count(g.gpus(), "GPU"))
		note := "for modprobe.d of the hypervisor's host"
		if slices.Contains(g.modes, sharing.MechanismMIGBackedVGPU) {
			note = "choose the type in the hypervisor"
			text += "# MIG-backed: no scheduler setting; make the GPU instances in the host first.\n"
		} else {
			text += "# Scheduler: best-effort. Put this file into the host's modprobe.d and load the driver anew.\n" +
				"options nvidia NVreg_RegistryDwords=\"RmPVMRL=0x00000000\"\n"
			b.warn(WarnBestEffort, g.key, "nvidia-vgpu-guide", "write 0x00000001 for equal shares, 0x00000011 for fixed ones",
				"the best-effort scheduler promises no share of compute; only the frame buffer is divided")
		}
		path := "vgpu/" + g.key + ".conf"
		b.add(path, note, []byte(text))
		b.notes = append(b.notes, fmt.Sprintf("%s: %s.", path, note))
	}
}
