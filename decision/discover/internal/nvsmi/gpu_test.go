// SPDX-License-Identifier: Apache-2.0

//go:build gpu && linux && cgo

package nvsmi

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

func smi(t *testing.T, args ...string) *strings.Reader {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "nvidia-smi", args...).Output()
	if err != nil {
		t.Fatalf("nvidia-smi %v: %v", args, err)
	}
	return strings.NewReader(string(out))
}

// TestAgainstNVML reads the node through NVML and by nvidia-smi, which must agree.
func TestAgainstNVML(t *testing.T) {
	lib, err := telemetrynvml.Open(telemetrynvml.Options{})
	if err != nil {
		t.Fatal(err) // the tag says that there is a GPU
	}
	defer func() {
		if err := lib.Close(); err != nil {
			t.Error(err)
		}
	}()
	before, err := lib.Inventory(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	fromXML, err := XML(smi(t, "-q", "-x"))
	if err != nil {
		t.Fatal(err)
	}
	if fromXML.Driver != before.Driver {
		t.Errorf("versions: NVML %s, XML %s", before.Driver, fromXML.Driver)
	}
	if len(before.GPUs) == 0 || len(fromXML.GPUs) != len(before.GPUs) {
		t.Fatalf("GPUs: NVML %d, XML %d", len(before.GPUs), len(fromXML.GPUs))
	}
	for i := range before.GPUs {
		t.Logf("NVML %+v\nXML  %+v", before.GPUs[i], fromXML.GPUs[i])
		agree(t, "XML", before.GPUs[i], fromXML.GPUs[i])
		if m, err := before.GPUs[i].Model(); err != nil {
			t.Error(err)
		} else if x, err := fromXML.GPUs[i].Model(); err != nil || x != m {
			t.Errorf("XML says %v, NVML %v", x, m)
		}
	}
}

func agree(t *testing.T, what string, nvml, got telemetry.GPU) {
	t.Helper()
	const mib = 1 << 20 // nvidia-smi rounds
	plain := func(g telemetry.GPU) telemetry.GPU {
		// -q -x has the architecture, the CSV and NVML the compute capability.
		g.Architecture, g.ComputeCapability = sharing.ArchitectureUnknown, sharing.ComputeCapability{}
		if total, ok := g.MemoryTotal.Get(); ok {
			g.MemoryTotal = optional.Of(total / mib * mib)
		}
		processes := g.Processes
		g.Processes = nil
		for _, p := range processes {
			p.Memory = optional.Of(p.Memory.Or(0) / mib * mib)
			g.Processes = append(g.Processes, p)
		}
		instances := g.Instances
		g.Instances = nil
		for _, in := range instances { // -q -x has neither profile nor UUID of an instance
			g.Instances = append(g.Instances, telemetry.MIGInstance{ID: in.ID})
		}
		return g
	}
	if diff := cmp.Diff(plain(nvml), plain(got)); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}
