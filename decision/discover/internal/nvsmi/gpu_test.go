//go:build gpu && linux && cgo

package nvsmi

import (
	"context"
	"math"
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

// TestAgainstNVML reads the node through NVML before and after nvidia-smi does.
// What is set up must agree exactly; what moves must lie between the two
// readings, give or take the tolerance.
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
	fromCSV, err := Query(smi(t, "--format=csv", "--query-gpu=index,uuid,name,pci.bus_id,pci.device_id,driver_version,memory.total,memory.reserved,memory.used,memory.free,mig.mode.current,mig.mode.pending,compute_mode,persistence_mode,utilization.gpu,utilization.memory,temperature.gpu,power.draw,enforced.power.limit"))
	if err != nil {
		t.Fatal(err)
	}
	bare, err := Query(smi(t, "--format=csv,nounits", "--query-gpu=uuid,memory.total,power.limit"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := List(smi(t, "-L"))
	if err != nil {
		t.Fatal(err)
	}
	after, err := lib.Inventory(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if fromXML.Driver != before.Driver || fromXML.CUDA != before.CUDA || fromCSV.Driver != before.Driver {
		t.Errorf("versions: NVML %s and %s, XML %s and %s, CSV %s", before.Driver, before.CUDA, fromXML.Driver, fromXML.CUDA, fromCSV.Driver)
	}
	if len(before.GPUs) == 0 || len(fromXML.GPUs) != len(before.GPUs) || len(fromCSV.GPUs) != len(before.GPUs) || len(list.GPUs) != len(before.GPUs) {
		t.Fatalf("GPUs: NVML %d, XML %d, CSV %d, -L %d", len(before.GPUs), len(fromXML.GPUs), len(fromCSV.GPUs), len(list.GPUs))
	}
	for i := range before.GPUs {
		t.Logf("NVML %+v\nXML  %+v", before.GPUs[i], fromXML.GPUs[i])
		agree(t, "XML", before.GPUs[i], after.GPUs[i], fromXML.GPUs[i])
		csv := fromCSV.GPUs[i] // it was not asked for processes
		csv.Processes, csv.ProcessesListed, csv.MPS, csv.Instances = fromXML.GPUs[i].Processes, fromXML.GPUs[i].ProcessesListed, fromXML.GPUs[i].MPS, fromXML.GPUs[i].Instances
		agree(t, "CSV", before.GPUs[i], after.GPUs[i], csv)
		if bare.GPUs[i].MemoryTotal != fromCSV.GPUs[i].MemoryTotal || bare.GPUs[i].PowerLimitWatts.IsZero() {
			t.Errorf("nounits: %+v", bare.GPUs[i])
		}
		if l := list.GPUs[i]; l.UUID != before.GPUs[i].UUID || l.Name != before.GPUs[i].Name || len(l.Instances) != len(before.GPUs[i].Instances) {
			t.Errorf("-L: %+v", l)
		}
		if m, err := before.GPUs[i].Model(); err != nil {
			t.Error(err)
		} else if x, err := fromXML.GPUs[i].Model(); err != nil || x != m {
			t.Errorf("XML says %v, NVML %v", x, m)
		}
	}
}

func agree(t *testing.T, what string, before, after, got telemetry.GPU) {
	t.Helper()
	between := func(name string, lo, hi, v optional.Value[float64], give float64) {
		t.Helper()
		if lo.IsZero() != v.IsZero() {
			t.Errorf("%s: %s is %v, NVML says %v", what, name, v, lo)
		}
		low, high := math.Min(lo.Or(0), hi.Or(0))-give, math.Max(lo.Or(0), hi.Or(0))+give
		if x, ok := v.Get(); ok && (x < low || x > high) {
			t.Errorf("%s: %s is %v, NVML says %v and then %v", what, name, x, lo, hi)
		}
	}
	b := func(v optional.Value[sharing.Bytes]) optional.Value[float64] {
		if n, ok := v.Get(); ok {
			return optional.Of(float64(n))
		}
		return optional.Value[float64]{}
	}
	const mib = 1 << 20 // nvidia-smi rounds
	between("memory total", b(before.MemoryTotal), b(after.MemoryTotal), b(got.MemoryTotal), mib)
	between("memory reserved", b(before.MemoryReserved), b(after.MemoryReserved), b(got.MemoryReserved), mib)
	between("memory used", b(before.MemoryUsed), b(after.MemoryUsed), b(got.MemoryUsed), mib)
	between("memory free", b(before.MemoryFree), b(after.MemoryFree), b(got.MemoryFree), mib)
	between("utilization", before.UtilPercent, after.UtilPercent, got.UtilPercent, 25)
	between("memory utilization", before.MemUtilPercent, after.MemUtilPercent, got.MemUtilPercent, 25)
	between("temperature", before.TemperatureCelsius, after.TemperatureCelsius, got.TemperatureCelsius, 3)
	between("power", before.PowerWatts, after.PowerWatts, got.PowerWatts, 60)
	between("power limit", before.PowerLimitWatts, after.PowerLimitWatts, got.PowerLimitWatts, 0.01)
	plain := func(g telemetry.GPU) telemetry.GPU { // what must agree exactly
		g.MemoryTotal, g.MemoryReserved, g.MemoryUsed, g.MemoryFree = optional.Value[sharing.Bytes]{}, optional.Value[sharing.Bytes]{}, optional.Value[sharing.Bytes]{}, optional.Value[sharing.Bytes]{}
		g.UtilPercent, g.MemUtilPercent, g.TemperatureCelsius = optional.Value[float64]{}, optional.Value[float64]{}, optional.Value[float64]{}
		g.PowerWatts, g.PowerLimitWatts = optional.Value[float64]{}, optional.Value[float64]{}
		processes := g.Processes
		g.Processes = nil
		for _, p := range processes {
			p.Memory = optional.Of(p.Memory.Or(0) / mib * mib)
			g.Processes = append(g.Processes, p)
		}
		instances := g.Instances
		g.Instances = nil
		for _, in := range instances { // -q -x has neither profile nor UUID of an instance
			g.Instances = append(g.Instances, telemetry.MIGInstance{Index: in.Index, ID: in.ID, Compute: in.Compute, SMs: in.SMs})
		}
		return g
	}
	if diff := cmp.Diff(plain(before), plain(got)); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}
