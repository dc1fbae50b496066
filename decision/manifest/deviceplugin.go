package manifest

import (
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/sharing/driverconf"
)

// exclusiveKey is the configuration of nodes that share nothing. It is the
// default, so that a node without a label never shares.
const exclusiveKey = "exclusive"

// byPlugin reports whether the device plugin hands out the devices.
func byPlugin(m sharing.Mechanism) bool {
	switch m {
	case sharing.MechanismExclusive, sharing.MechanismInServer, sharing.MechanismTimeSlicing, sharing.MechanismMPS,
		sharing.MechanismMIG, sharing.MechanismMIGLikeEmulation:
		return true
	}
	return false
}

// pluginKey names the group's device-plugin configuration.
func (g *group) pluginKey() string {
	if !g.planned && (g.Mechanism == sharing.MechanismExclusive || g.Mechanism == sharing.MechanismInServer) {
		return exclusiveKey
	}
	return g.key
}

// pluginConfig is the device-plugin configuration of the group's nodes.
func (g *group) pluginConfig() *driverconf.Plugin {
	c := &driverconf.Plugin{Flags: driverconf.Flags{MIGStrategy: "none"}}
	replicas := &driverconf.Block{FailRequestsGreaterThanOne: driverconf.Some(true),
		Resources: []driverconf.Resource{{Name: driverconf.GPU, Replicas: g.clients()}}}
	switch g.Mechanism {
	case sharing.MechanismTimeSlicing:
		c.TimeSlicing = replicas
	case sharing.MechanismMPS, sharing.MechanismMIGLikeEmulation:
		c.Flags.MPSRoot = mpsRoot
		c.MPS = replicas
	case sharing.MechanismMIG:
		c.Flags.MIGStrategy = "mixed"
	}
	return c
}

// mpsRoot is the plugin's and the GPU Operator's default (k8s-device-plugin, nvidia-gpu-operator).
const mpsRoot = "/run/nvidia/mps"
