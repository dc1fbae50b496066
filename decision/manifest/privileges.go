package manifest

import "github.com/cotenant/cotenant/sharing"

// Privilege is a right that carrying out a mechanism needs.
type Privilege struct {
	Who    string // who or what must hold it
	What   string // the right
	Why    string
	Source sharing.SourceID
}

// Privileges lists what m needs beyond the right to create pods, in the order
// in which the rollout meets it. It is empty for a mechanism that needs none.
func Privileges(m sharing.Mechanism) []Privilege {
	switch m {
	case sharing.MechanismExclusive, sharing.MechanismInServer:
		return nil
	case sharing.MechanismTimeSlicing:
		return []Privilege{clusterAdmin,
			{"root on the node", "nvidia-smi compute-policy --set-timeslice",
				"only where the length of a slice is set, which does not survive a reboot", "nvidia-kernel-timeslice-setting"}}
	case sharing.MechanismMPS, sharing.MechanismMIGLikeEmulation:
		return []Privilege{clusterAdmin, mpsDaemon, mpsUser}
	case sharing.MechanismMIG:
		return []Privilege{clusterAdmin, migAdmin}
	case sharing.MechanismMIGWithMPS:
		return []Privilege{clusterAdmin, migAdmin, mpsUser,
			{"cluster administrator", "the DRA driver's feature gate MPSSupport", "it is alpha and off by default",
				"nvidia-dra-driver"}}
	case sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		return []Privilege{clusterAdmin,
			{"HAMi's device plugin", "a privileged DaemonSet",
				"it mounts /etc/ld.so.preload and its library into each container", "hami"},
			{"HAMi's scheduler", "a mutating webhook and a scheduler of its own", "pods are rewritten and placed by it", "hami"}}
	case sharing.MechanismVGPU, sharing.MechanismMIGBackedVGPU:
		out := []Privilege{
			{"hypervisor administrator", "the vGPU manager in the host, and a vGPU licence", "virtual GPUs are made there",
				"nvidia-vgpu-guide"},
			{"root in the hypervisor's host", "load the driver with other parameters",
				"the scheduler is a parameter of the driver", "nvidia-vgpu-guide"}}
		if m == sharing.MechanismMIGBackedVGPU {
			out[1] = migAdmin
		}
		return out
	}
	return []Privilege{{"whoever runs the system", "what its own documentation asks for", "research systems differ",
		"cotenant-reading"}}
}

var (
	clusterAdmin = Privilege{"cluster administrator",
		"write ConfigMaps in the Operator's namespace, label and drain nodes",
		"the configuration is chosen by node label", "nvidia-gpu-operator"}
	mpsDaemon = Privilege{"the plugin's MPS DaemonSet", "a privileged pod with the host's PID namespace",
		"it sets EXCLUSIVE_PROCESS mode and runs the control daemon", "k8s-device-plugin"}
	mpsUser = Privilege{"the workloads", "one user ID for all clients of a daemon, or a multi-user daemon",
		"clients of another user wait until the server is free, or are refused", "nvidia-mps-guide-architecture"}
	migAdmin = Privilege{"the MIG manager", "root, or the mig/config capability, on the node",
		"instances are created and destroyed there, and GPUs before Hopper are reset when MIG is switched",
		"nvidia-mig-guide-deployment"}
)
