// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// DeviceLimit limits a client's device memory on one GPU.
type DeviceLimit struct {
	Device string // ordinal as the client counts, "0", or UUID
	Limit  sharing.Bytes
}

// ClientEnvironment describes the environment of an MPS client. Its settings can only tighten the server's limits
// (https://docs.nvidia.com/deploy/mps/appendix-environment-variables.html).
type ClientEnvironment struct {
	// PipeDirectory is the client's; "" = DefaultPipe.
	PipeDirectory string
	// DaemonPipeDirectory is the daemon's own (Client.PipeDirectory). If set, it must equal PipeDirectory: otherwise the
	// client would silently run without MPS, with the whole GPU.
	DaemonPipeDirectory string
	// GPUs are the devices that the client will see, from configuration. Memory limits need them: one limit for a GPU that
	// the client does not see drops every limit, as measured on an H200.
	GPUs []GPU
	// VisibleDevices are UUIDs for CUDA_VISIBLE_DEVICES. Ordinals are refused: the server has already renumbered the
	// devices.
	VisibleDevices         []string
	ActiveThreadPercentage float64 // (0, 100]; 0 = not set
	PinnedMemLimits        []DeviceLimit
}

// Build checks the environment and returns it as "KEY=VALUE", in the order of the fields. The error names every known
// trap in it. Build changes nothing on the system.
func (e ClientEnvironment) Build() ([]string, error) {
	e.PipeDirectory = cmp.Or(e.PipeDirectory, DefaultPipe)
	var l problem.List
	checkPipeDirectory(&l, "PipeDirectory", e.PipeDirectory)
	if d := e.DaemonPipeDirectory; d != "" && d != e.PipeDirectory {
		l.Addf("PipeDirectory", "use the daemon's "+problem.Clip(d),
			"the client's %s is not the daemon's: it would run without MPS and without limits, and report nothing",
			problem.Clip(e.PipeDirectory))
	}
	e.checkDevices(&l)
	if e.ActiveThreadPercentage != 0 {
		checkPercentage(&l, "ActiveThreadPercentage", e.ActiveThreadPercentage)
	}
	limits := e.checkLimits(&l)
	if err := l.Under(ErrInvalid); err != nil {
		return nil, err
	}
	var out []string
	for _, set := range []struct {
		key, value string
		given      bool
	}{
		{EnvPipeDirectory, e.PipeDirectory, true},
		{EnvVisibleDevices, strings.Join(e.VisibleDevices, ","), len(e.VisibleDevices) > 0},
		{EnvThreads, formatPercentage(e.ActiveThreadPercentage), e.ActiveThreadPercentage != 0},
		{EnvPinnedMemLimit, limits, limits != ""},
	} {
		if set.given {
			out = append(out, set.key+"="+set.value)
		}
	}
	return out, nil
}

// Environ returns base with the variables of Build. Other MPS variables in base are removed, so that nothing is
// inherited by accident, and so is CUDA_VISIBLE_DEVICES, since its ordinals mean other devices under MPS.
func (e ClientEnvironment) Environ(base []string) ([]string, error) {
	set, err := e.Build()
	if err != nil {
		return nil, err
	}
	return setIn(withoutMPS(base), set), nil
}

func (e *ClientEnvironment) checkDevices(l *problem.List) {
	checkGPUs(l, "GPUs", e.GPUs)
	seen := map[string]bool{}
	for i, d := range e.VisibleDevices {
		at := fmt.Sprintf("VisibleDevices[%d]", i)
		switch {
		case !isUUID(d):
			l.Addf(at, "use the GPU's UUID",
				"%q is no UUID; an ordinal would be applied to devices that the server has renumbered", problem.Clip(d))
		case seen[d]:
			l.Addf(at, "name each device once", "%s is given twice", d)
		}
		seen[d] = true
	}
}

// visible returns the GPUs that the client sees, renumbered if VisibleDevices chooses among them.
func (e *ClientEnvironment) visible() []GPU {
	if len(e.VisibleDevices) == 0 {
		return e.GPUs
	}
	var out []GPU
	for _, d := range e.VisibleDevices {
		if g, ok := findGPU(e.GPUs, d); ok {
			g.Ordinal = len(out)
			out = append(out, g)
		}
	}
	return out
}

func (e *ClientEnvironment) checkLimits(l *problem.List) string {
	var entries []string
	gpus := e.visible()
	limited := map[int]string{}
	for i, d := range e.PinnedMemLimits {
		at := fmt.Sprintf("PinnedMemLimits[%d]", i)
		if !checkDevice(l, at+".Device", d.Device) {
			continue
		}
		l.If(len(e.GPUs) == 0, "GPUs", "list the GPUs that the client sees",
			"memory limits cannot be checked without them, and one entry for an invisible GPU drops every limit")
		g, ok := findGPU(gpus, d.Device)
		l.If(len(e.GPUs) > 0 && !ok, at+".Device", "limit only what it sees: "+gpuNames(gpus),
			"the client does not see device %q, and such an entry drops every limit, also the others'", problem.Clip(d.Device))
		if before, dup := limited[g.Ordinal]; ok && dup {
			l.Addf(at+".Device", "limit each device once", "%s is the device of %s again; the last entry would win", d.Device,
				before)
		}
		if ok {
			limited[g.Ordinal] = d.Device
		}
		checkMemLimit(l, at+".Limit", d.Limit, g.Memory)
		if text, err := FormatMemLimit(d.Limit); err == nil {
			entries = append(entries, d.Device+"="+text)
		}
	}
	return strings.Join(entries, ",")
}

// parsePinnedMemLimits reads a value of CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, for example "0=2G,1=512MB". It checks the
// form only; ClientEnvironment.Build checks whether the devices are there.
func parsePinnedMemLimits(value string) ([]DeviceLimit, error) {
	var l problem.List
	var out []DeviceLimit
	for i, entry := range strings.Split(value, ",") {
		at := fmt.Sprintf("[%d]", i)
		dev, text, ok := strings.Cut(entry, "=")
		dev = strings.TrimSpace(dev)
		if !ok || !isOrdinal(dev) && !isUUID(dev) {
			l.Addf(at, "write device=limit, for example 0=2G", "%q is no limit of a device", problem.Clip(entry))
			continue
		}
		limit, err := ParseMemLimit(text)
		if err != nil {
			l.Addf(at, "write a whole number and G, M or K", "%q is no limit", problem.Clip(text))
			continue
		}
		out = append(out, DeviceLimit{Device: dev, Limit: limit})
	}
	if err := l.Under(ErrInvalid); err != nil {
		return nil, err
	}
	return out, nil
}

// parseClientEnvironment reads the MPS settings out of an environment, for example a container's or another
// process's. Variables that have nothing to do with MPS are passed over. Set GPUs and DaemonPipeDirectory in the
// result and call Build to find its traps.
func parseClientEnvironment(environ []string) (ClientEnvironment, error) {
	var e ClientEnvironment
	var l problem.List
	for _, kv := range environ {
		key, value, _ := strings.Cut(kv, "=")
		ok, remedy := true, ""
		var err error
		switch key {
		case EnvPipeDirectory:
			e.PipeDirectory = value
		case EnvVisibleDevices:
			e.VisibleDevices = nil
			if value != "" {
				e.VisibleDevices = strings.Split(value, ",")
			}
		case EnvThreads:
			e.ActiveThreadPercentage, err = parsePercentage(value)
			ok, remedy = e.ActiveThreadPercentage >= percentUnit, "use a number over 0 and up to 100"
		case EnvPinnedMemLimit:
			e.PinnedMemLimits, err = parsePinnedMemLimits(value)
			remedy = "write device=limit, for example 0=2G"
		}
		l.If(!ok || err != nil, key, remedy, "%q cannot be read", problem.Clip(value))
	}
	if err := l.Under(ErrInvalid); err != nil {
		return ClientEnvironment{}, err
	}
	return e, nil
}
