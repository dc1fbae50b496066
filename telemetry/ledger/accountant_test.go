// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
)

// bench is an accountant with a clock, files and a kubelet that a test sets.
type bench struct {
	*Accountant
	t     *testing.T
	at    time.Duration
	files fstest.MapFS
	given []container.Allocation
	slot  map[container.Device]int
	err   error
	util  map[uint32]float64
	procs []telemetry.Process
	busy  float64
	joule float64
	watts float64 // that the driver shows; the counter goes by 300
	holds bool    // the counter is not read
}

const uuid = "GPU-8f2b1c3d-0000-1111-2222-333344445555"

func (b *bench) Allocations(context.Context) ([]container.Allocation, error) { return b.given, b.err }
func (b *bench) Slots(context.Context) (map[container.Device]int, error)     { return b.slot, b.err }

func newBench(t *testing.T) *bench {
	b := &bench{t: t, files: fstest.MapFS{}, util: map[uint32]float64{}, watts: 300}
	price, err := cost.ParsePrice("3.60 USD")
	if err != nil {
		t.Fatal(err)
	}
	b.Accountant = New(Options{
		Clock: Clock{"test", func() time.Duration { return b.at }}, Resolver: container.NewResolver(b.files),
		Kubelet: b, Price: func(string, string) cost.Money { return price },
		Basis: sharing.BasisMeasured, Fast: time.Second, Slow: 10 * time.Second,
	})
	b.begin(telemetry.Device{UUID: uuid, Name: "NVIDIA H100", MIG: sharing.AnswerNo})
	return b
}

func (b *bench) begin(devices ...telemetry.Device) {
	b.t.Helper()
	if err := b.Begin(telemetry.Header{Devices: devices}); err != nil {
		b.t.Fatal(err)
	}
}

func cid(n int) string { return fmt.Sprintf("%064x", n+1) }

// process puts a process into a pod's container.
func (b *bench) process(pid uint32, start int, pod container.Pod, n int) {
	b.files[fmt.Sprintf("proc/%d/stat", pid)] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0", pid, start)}
	b.files[fmt.Sprintf("proc/%d/cgroup", pid)] = &fstest.MapFile{Data: []byte("0::/kubepods/podfecd2321-17b5-49b9-9f75-8c5be777fbfb/" + cid(n))}
	b.files["var/log/containers/"+pod.Name+"_"+pod.Namespace+"_"+pod.Container+"-"+cid(n)+".log"] = &fstest.MapFile{}
}

// seconds reads every second, and the costly figures at the end.
func (b *bench) seconds(n int) {
	b.t.Helper()
	b.holders.ask(b.t.Context(), time.Second)
	for range n {
		b.at += time.Second
		x := telemetry.Sample{Groups: telemetry.GroupsFast}
		x.Set(telemetry.MetricGPUUtilPercent, b.busy)
		x.Set(telemetry.MetricPowerWatts, b.watts)
		x.Set(telemetry.MetricMemUsedBytes, 8e9)
		x.Set(telemetry.MetricMemTotalBytes, 80e9)
		x.Processes = b.procs
		b.sample(&x)
	}
	x := telemetry.Sample{Groups: telemetry.GroupProcessUtil}
	for pid, u := range b.util {
		x.Processes = append(x.Processes, telemetry.Process{PID: pid, SMUtilPercent: sharing.Some(u)})
	}
	b.sample(&x)
	b.joule += 300 * float64(n)
	x = telemetry.Sample{Groups: telemetry.GroupEnergy}
	if !b.holds {
		x.Set(telemetry.MetricEnergyJoules, b.joule)
	}
	b.sample(&x)
}

func (b *bench) sample(x *telemetry.Sample) {
	b.t.Helper()
	if err := b.Sample(x); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) uses(pid uint32, util float64) {
	b.procs = append(b.procs, telemetry.Process{PID: pid, Memory: sharing.Some(sharing.Bytes(1 << 30))})
	b.util[pid] = util
}

// want checks the accounts: "account/pod seconds", in order.
func (b *bench) want(want ...string) {
	b.t.Helper()
	var got []string
	sum := time.Duration(0)
	by := map[string]time.Duration{}
	for _, r := range b.book.listRows() {
		sum += r.Time
		by[fmt.Sprintf("%v/%s", r.Account, strings.TrimSuffix(r.Name+"/"+r.Container, "/"))] += r.Time
	}
	for name, d := range by {
		if d > 0 {
			got = append(got, fmt.Sprintf("%s %.1f", name, d.Seconds()))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.t.Errorf("the accounts are %q, want %q", got, want)
	}
	if through, _ := b.book.through(uuid); sum != through {
		b.t.Errorf("they come to %v of %v", sum, through)
	}
	if b.refused > 0 {
		b.t.Errorf("%d postings were refused", b.refused)
	}
}

var (
	shop  = container.Pod{Namespace: "shop", Name: "web", Container: "c"}
	train = container.Pod{Namespace: "lab", Name: "train", Container: "c"}
)

// benchOf has a process of shop, and one of train, that use the GPU by so many percent.
func benchOf(t *testing.T, utils ...float64) *bench {
	b := newBench(t)
	for i, util := range utils {
		b.process(uint32(10+i), 1+i, []container.Pod{shop, train}[i], 1+i)
		b.uses(uint32(10+i), util)
		b.busy += util
	}
	return b
}

func TestTwoPodsInTurn(t *testing.T) {
	b := benchOf(t, 30, 60)
	b.seconds(10)
	b.want("tenant/web/c 3.0", "tenant/train/c 6.0", "execution-idle/web/c 0.5", "execution-idle/train/c 0.5")
	for _, r := range b.book.listRows() {
		if r.Mechanism != sharing.MechanismTimeSlicing || r.Basis == sharing.BasisUnknown {
			t.Errorf("%+v", r)
		}
	}
	b.seconds(10) // the first ten by power, these by the counter
	if e := b.book.listTotals(); e[0].Microjoules+e[1].Microjoules+e[2].Microjoules+e[3].Microjoules != 6000e6 {
		t.Errorf("%+v", e)
	}
}

// TestWhoPaysForAWindow reads windows of ten seconds.
func TestWhoPaysForAWindow(t *testing.T) {
	side := container.Pod{Namespace: "shop", Name: "web", Container: "side"}
	for name, c := range map[string]struct {
		utils []float64 // of shop and train
		see   func(b *bench)
		want  []string
	}{
		"two containers of a pod": {[]float64{50}, func(b *bench) {
			b.process(11, 2, side, 2)
			b.process(12, 3, side, 2)
			b.uses(11, 20)
			b.uses(12, 30)
			b.busy = 100
			b.seconds(10)
		}, []string{"tenant/web/c 5.0", "tenant/web/side 5.0"}},
		"a process that came and went between two lists is nobody's": {nil, func(b *bench) {
			b.util[77], b.busy = 40, 40
			b.seconds(10)
		}, []string{"unattributed/ 4.0", "idle/ 6.0"}},
		"the driver counts by id, so that a window in which one is used again has no known owner": {[]float64{100}, func(b *bench) {
			b.seconds(10)
			b.process(10, 999, train, 2)
			b.seconds(10)
			b.seconds(10)
		}, []string{"tenant/web/c 10.0", "unattributed/ 10.0", "tenant/train/c 10.0"}},
		"a hidden group is nobody's": {[]float64{70}, func(b *bench) {
			delete(b.files, "proc/10/cgroup")
			b.seconds(10)
		}, []string{"unattributed/ 7.0", "execution-idle/ 3.0"}},
		"KAI's own pod holds the GPU for pods that the kubelet knows nothing of": {[]float64{0, 0}, func(b *bench) {
			kai := container.Pod{Namespace: "kai-resource-reservation", Name: "gpu-reservation-x", Container: "c"}
			b.given = []container.Allocation{{Pod: kai, Devices: []container.Device{{UUID: uuid}}}}
			b.slot = map[container.Device]int{{UUID: uuid}: 1}
			b.seconds(10)
		}, []string{"execution-idle/train/c 5.0", "execution-idle/web/c 5.0"}},
		"under MPS the driver charges the server": {[]float64{0, 0}, func(b *bench) {
			b.procs = append(b.procs, telemetry.Process{PID: 5, Name: "nvidia-cuda-mps-server"})
			b.util, b.busy = map[uint32]float64{5: 80}, 80
			b.seconds(10)
			for _, r := range b.book.listRows() {
				if r.Account == accountTenant && (r.Low != 0 || r.High != 8*time.Second || r.Mechanism != sharing.MechanismMPS || r.Basis != sharing.BasisPrior) {
					t.Errorf("%+v", r)
				}
			}
		}, []string{"tenant/web/c 4.0", "tenant/train/c 4.0", "execution-idle/web/c 1.0", "execution-idle/train/c 1.0"}},
		"the machine slept, and the first reading after it does not cover the gap": {nil, func(b *bench) {
			b.seconds(10)
			b.at += time.Hour
			b.seconds(10)
		}, []string{"idle/ 19.0", "unattributed/ 3601.0"}},
		"readings that fell between the kernels are no reason to call a GPU idle of which the driver kept samples": {[]float64{40}, func(b *bench) {
			b.busy = 0
			x := telemetry.Sample{Groups: telemetry.GroupProcessUtil}
			x.Set(telemetry.MetricGPUUtilPercent, 40)
			x.Processes = []telemetry.Process{{PID: 10, SMUtilPercent: sharing.Some(40.0)}}
			b.sample(&x)
			b.seconds(10)
			b.util[10], b.busy = 30, 30
			b.seconds(10) // without, the readings must do
		}, []string{"tenant/web/c 7.0", "execution-idle/web/c 13.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := benchOf(t, c.utils...)
			c.see(b)
			b.want(c.want...)
		})
	}
}

func TestAProcessThatVanishesKeepsItsTime(t *testing.T) {
	b := benchOf(t, 40)
	b.holders.ask(t.Context(), time.Second)
	b.seconds(0)
	x := telemetry.Sample{Groups: telemetry.GroupsFast}
	x.Set(telemetry.MetricGPUUtilPercent, 40)
	x.Processes = b.procs
	b.at += time.Second
	b.sample(&x)
	delete(b.files, "proc/10/stat")
	b.procs = nil
	b.seconds(9)
	b.want("tenant/web/c 4.0", "execution-idle/web/c 6.0")
}

// TestAnIDUsedAgainAtTheEnd: the list of processes looks as before.
func TestAnIDUsedAgainAtTheEnd(t *testing.T) {
	b := benchOf(t, 100)
	b.seconds(10)
	x := telemetry.Sample{Groups: telemetry.GroupsFast}
	x.Processes = b.procs
	x.Set(telemetry.MetricGPUUtilPercent, 100)
	for range 9 {
		b.at += time.Second
		b.sample(&x)
	}
	b.process(10, 999, train, 2)
	b.seconds(1)
	b.seconds(10)
	b.want("tenant/web/c 10.0", "unattributed/ 10.0", "tenant/train/c 10.0")
}

// TestAClockThatSteps: a clock that steps takes no account back and counts no second twice.
func TestAClockThatSteps(t *testing.T) {
	b := benchOf(t, 40)
	b.seconds(10)
	b.at -= 5 * time.Second
	b.seconds(3) // still before the end of the accounts
	b.want("tenant/web/c 4.0", "execution-idle/web/c 6.0")
	b.seconds(12)
	if through, _ := b.book.through(uuid); through != 20*time.Second || b.refused > 0 {
		t.Errorf("through %v, %d refused", through, b.refused)
	}
	b.at += time.Hour
	b.seconds(10)
	b.want("tenant/web/c 11.6", "execution-idle/web/c 17.4", "unattributed/ 3601.0")
}

// TestACounterThatLies: no GPU draws a gigawatt.
func TestACounterThatLies(t *testing.T) {
	b := newBench(t)
	b.seconds(10)
	b.seconds(10)
	b.joule += 1e10
	b.seconds(10)
	b.seconds(10)
	if e := b.book.listTotals()[0].Microjoules; e != 4*3000e6 {
		t.Errorf("%d uJ", e)
	}
}

// opens counts the files that are opened.
type opens struct {
	fs.FS
	n int
}

func (o *opens) Open(name string) (fs.File, error) {
	o.n++
	return o.FS.Open(name)
}

func TestHeldAndUnused(t *testing.T) {
	b := newBench(t)
	b.given = []container.Allocation{{Pod: shop, Devices: []container.Device{{UUID: uuid, Replica: sharing.Some(1)}}}}
	b.slot = map[container.Device]int{{UUID: uuid}: 4}
	b.seconds(10)
	b.want("held-idle/web/c 2.5", "idle/ 7.5")
	b.err = errors.New("the kubelet is gone")
	b.holders.givenAt = time.Now().Add(-time.Hour)
	b.seconds(10) // an unknown holder holds nothing
	b.want("held-idle/web/c 2.5", "idle/ 17.5")
	if k := b.Status().Kubelet; k != sharing.AnswerNo {
		t.Errorf("the kubelet counts as %v", k)
	}
}

// TestNamesOfDevices: GKE and the DRA driver count GPUs by minor number, which is not NVML's index, and the DRA driver
// names MIG devices by where they begin. What is not understood is counted by its form, and nobody else pays for it.
func TestNamesOfDevices(t *testing.T) {
	for id, want := range map[string]string{
		"gpu-1": "held-idle/web/c 10.0", "nvidia1": "held-idle/web/c 10.0", "1": "held-idle/web/c 10.0",
		uuid: "idle/ 10.0", "gpu-0": "idle/ 10.0", "gpu-2": "idle/ 10.0", "gpu-vfio-0": "idle/ 10.0",
	} {
		b := newBench(t)
		other := telemetry.Device{UUID: "GPU-8f2b1c3d-0000-1111-2222-333344445556", Minor: sharing.Some(0)}
		b.begin(other, telemetry.Device{UUID: "GPU-8f2b1c3d-0000-1111-2222-333344445557", Minor: sharing.Some(1)})
		d, err := container.ParseDevice(id)
		given := container.Allocation{Pod: shop, Devices: []container.Device{d}}
		if err != nil {
			given = container.Allocation{Pod: shop, Unknown: []string{id}}
		}
		b.given, b.slot = []container.Allocation{given}, map[container.Device]int{d: 1}
		b.holders.ask(t.Context(), time.Second)
		held, _, _ := b.holders.of(func(dev container.Device) bool { return b.fits(b.devs[1], dev) })
		if (len(held) == 1) != strings.HasPrefix(want, "held") {
			t.Errorf("%s is held: %v", id, held)
		}
		unknown := map[string]map[string]int{"gpu-2": {"minor number of no GPU here": 1}, "gpu-vfio-0": {"gpu-vfio-N": 1}}[id]
		if got := b.Status().UnknownDevices; len(got) != len(unknown) || len(unknown) > 0 && !maps.Equal(got, unknown) {
			t.Errorf("%s: unknown %v", id, got)
		}
	}
	b := newBench(t)
	b.devs[0].mig, b.devs[0].minor = sharing.AnswerYes, sharing.Some(0)
	d, _ := container.ParseDevice("gpu-0-mig-9-4-4")
	b.given = []container.Allocation{{Pod: shop, Devices: []container.Device{d}}}
	b.holders.ask(t.Context(), time.Second)
	b.at += 10 * time.Second
	b.devs[0].listing = true
	x := telemetry.Sample{Groups: telemetry.GroupGPM}
	for i := range 2 {
		x.Instances = append(x.Instances, telemetry.Instance{ID: i + 1, ComputeSlices: sharing.Some(3), Start: sharing.Some(4 * i)})
	}
	b.sample(&x)
	b.want("held-idle/web/c 4.3", "idle/ 5.7")
}

func TestDownAndBack(t *testing.T) {
	for _, kind := range []telemetry.EventKind{telemetry.EventHung, telemetry.EventLost, telemetry.EventFailing} {
		b := newBench(t)
		b.seconds(10)
		if err := b.Event(telemetry.Event{Kind: kind, Device: 0}); err != nil {
			t.Fatal(err)
		}
		b.at += time.Minute
		b.Tick()
		if b.devs[0].Down != string(kind) || b.Status().Devices[0].Down == "" {
			t.Errorf("%v: down %q", kind, b.devs[0].Down)
		}
		b.want("idle/ 10.0", "unattributed/ 60.0")
		b.at += time.Minute
		_ = b.Event(telemetry.Event{Kind: telemetry.EventBack, Device: 0})
		b.seconds(10)
		b.want("idle/ 20.0", "unattributed/ 120.0")
	}
}

func TestWithoutFiguresOfProcesses(t *testing.T) {
	b := benchOf(t, 0)
	b.busy = 80
	for range 30 { // neither utilization nor energy comes
		b.at += time.Second
		x := telemetry.Sample{Groups: telemetry.GroupsFast}
		x.Set(telemetry.MetricGPUUtilPercent, b.busy)
		x.Processes = b.procs
		b.sample(&x)
		b.Tick()
	}
	b.Tick()
	rows := b.book.listRows()
	if len(rows) != 2 || rows[0].Account != accountTenant || rows[0].Time < 16*time.Second {
		t.Errorf("%+v", rows)
	}
}

func TestTheDriverIsLoadedAnew(t *testing.T) {
	b := newBench(t)
	b.seconds(10)
	b.joule = -3000 // the next reading is 0
	b.seconds(10)
	b.seconds(10)
	if e := b.book.listTotals()[0].Microjoules; e != 9000e6 { // the power covers the gap of the counter
		t.Errorf("%d uJ", e)
	}
}

// TestAThousandProcesses: each is looked at once in a window, not every second.
func TestAThousandProcesses(t *testing.T) {
	b := newBench(t)
	opened := &opens{FS: b.files}
	b.o.Resolver = container.NewResolver(opened)
	for i := range 1000 {
		b.process(uint32(1000+i), i+1, container.Pod{Namespace: "ns", Name: fmt.Sprint("p", i), Container: "c"}, i)
		b.uses(uint32(1000+i), 0)
	}
	b.util[1500] = 50
	b.busy = 50
	begun := time.Now()
	b.seconds(10)
	if d := time.Since(begun); d > 20*time.Second {
		t.Errorf("ten seconds took %v", d)
	}
	n := 0
	for _, r := range b.book.listRows() {
		if r.Account == accountTenant {
			n++
		}
	}
	if n != 1000 || b.refused > 0 {
		t.Errorf("%d tenants, %d refused", n, b.refused)
	}
	opened.n = 0
	b.seconds(10)
	if opened.n > 2000 {
		t.Errorf("%d files were read in a window", opened.n)
	}
}

func TestInstances(t *testing.T) {
	b := newBench(t)
	b.devs[0].mig = sharing.AnswerYes
	b.process(10, 1, shop, 1)
	b.given = []container.Allocation{{Pod: train, Devices: []container.Device{{UUID: "MIG-b"}}}}
	b.holders.ask(t.Context(), time.Second)
	for range 10 {
		b.at += time.Second
		x := telemetry.Sample{Groups: telemetry.GroupsFast}
		x.Set(telemetry.MetricPowerWatts, 200)
		x.Processes = []telemetry.Process{{PID: 10, GPUInstance: sharing.Some(1)}}
		b.sample(&x)
	}
	x := telemetry.Sample{Groups: telemetry.GroupGPM}
	for i, g := range []int{3, 2, 1} {
		in := telemetry.Instance{ID: i + 1, UUID: []string{"MIG-a", "MIG-b", "MIG-c"}[i], ComputeSlices: sharing.Some(g)}
		in.Set(telemetry.MetricGraphicsUtilPercent, []float64{70, 0, 0}[i])
		x.Instances = append(x.Instances, in)
	}
	b.sample(&x)
	b.want("tenant/web/c 3.0", "held-idle/train/c 2.9", "idle/ 4.1")
}

// TestInstancesOfAnA30: it has four compute slices and not seven, and no counters.
func TestInstancesOfAnA30(t *testing.T) {
	b := newBench(t)
	b.devs[0].mig, b.devs[0].Name = sharing.AnswerYes, "NVIDIA A30"
	b.given = []container.Allocation{{Pod: train, Devices: []container.Device{{UUID: "MIG-a"}}}}
	b.holders.ask(t.Context(), time.Second)
	for range 10 {
		b.at += time.Second
		x := telemetry.Sample{Groups: telemetry.GroupsFast}
		x.Set(telemetry.MetricPowerWatts, 200)
		b.sample(&x)
	}
	x := telemetry.Sample{Groups: telemetry.GroupGPM}
	for i, uuid := range []string{"MIG-a", "MIG-b"} {
		x.Instances = append(x.Instances, telemetry.Instance{ID: i + 1, UUID: uuid, ComputeSlices: sharing.Some(2)})
	}
	b.sample(&x)
	b.want("held-idle/train/c 5.0", "idle/ 5.0")
	// Used, it is between nothing and all of the time.
	b.process(10, 1, train, 1)
	b.procs = []telemetry.Process{{PID: 10, GPUInstance: sharing.Some(1)}}
	for range 10 {
		b.at += time.Second
		y := telemetry.Sample{Groups: telemetry.GroupsFast}
		y.Processes = b.procs
		b.sample(&y)
	}
	b.sample(&x)
	b.want("tenant/train/c 5.0", "held-idle/train/c 5.0", "idle/ 10.0")
	for _, r := range b.book.listRows() {
		if r.Account == accountTenant && (r.Low != 0 || r.High != 5*time.Second || r.Basis != sharing.BasisDerived) {
			t.Errorf("%+v", r)
		}
	}
}

// TestAnotherRun: time between two runs and its energy are nobody's.
func TestAnotherRun(t *testing.T) {
	b := benchOf(t, 100)
	b.seconds(10)
	b.at += time.Minute
	b.joule += 6000
	b.begin(telemetry.Device{UUID: uuid, Name: "NVIDIA H100", MIG: sharing.AnswerNo})
	x := telemetry.Sample{Groups: telemetry.GroupProcessUtil}
	b.sample(&x)
	x = telemetry.Sample{Groups: telemetry.GroupEnergy}
	x.Set(telemetry.MetricEnergyJoules, b.joule)
	b.sample(&x)
	b.seconds(10)
	b.want("tenant/web/c 20.0", "unattributed/ 60.0")
	for _, r := range b.book.listTotals() {
		if want := map[Account]int64{accountTenant: 6000e6, accountUnattributed: 6000e6}[r.Account]; r.Microjoules != want {
			t.Errorf("%v: %d uJ, want %d", r.Account, r.Microjoules, want)
		}
	}
}

// TestTheCounterHolds: while the energy counter is not read, the power takes its place; the counter's next reading
// corrects the difference, also in another run.
func TestTheCounterHolds(t *testing.T) {
	b := benchOf(t, 100)
	last := int64(0)
	for i, step := range []struct {
		watts float64
		holds bool
		again bool // the exporter was restarted before
		want  int64
	}{
		{300, false, false, 3000}, {300, false, false, 6000}, {290, true, false, 8900}, {290, true, false, 11800}, {290, false, false, 15000},
		{400, true, false, 19000}, {400, true, false, 23000}, {300, false, false, 24000}, // 23,000 and 24,000 by the counter
		{900, true, false, 33000}, {900, true, false, 42000}, {300, false, false, 42000}, {300, false, false, 42000},
		{300, true, false, 45000}, {300, false, false, 45000}, {300, false, false, 45000}, {300, false, false, 48000},
		{200, true, false, 50000}, {300, false, true, 54000},
	} {
		b.watts, b.holds = step.watts, step.holds
		if step.again {
			b.begin(telemetry.Device{UUID: uuid, Name: "NVIDIA H100", MIG: sharing.AnswerNo})
		}
		b.seconds(10)
		now := int64(0)
		for _, r := range b.book.listTotals() {
			now += r.Microjoules
		}
		if now != step.want*1e6 || now < last {
			t.Errorf("%d: %d uJ, want %d J", i, now, step.want)
		}
		last = now
	}
}

// TestListOutlastsWindow: between the end of a window and the next list the tenants are still there.
func TestListOutlastsWindow(t *testing.T) {
	b := benchOf(t, 0.4, 0.4)
	b.busy = 80
	b.seconds(10)
	if len(b.devs[0].procs) != 0 {
		t.Fatal("the window goes on")
	}
	want := map[container.Pod]float64{shop: 1 << 30, train: 1 << 30}
	if d := b.Status().Devices[0]; d.Resident != 2 || !maps.Equal(d.Memory, want) {
		t.Errorf("%+v", d)
	}
}
