package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"sync"
	"testing/fstest"
	"time"

	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
)

// simNode is a node of eight GPUs with pods that come and go: its driver, its files, its kubelet and its MPS
// daemon. What happens at a time depends on nothing else, so that a node goes on where it was after a restart. The
// figures are of the size that an H100 shows, and are made up.
type simNode struct {
	now      func() time.Duration // simulated
	mu       sync.Mutex
	utilAt   [simGPUs]time.Duration // when it was read last, by GPU
	energyAt [simGPUs]time.Duration // up to when joules are summed up
	joules   [simGPUs]float64
}

const (
	simGPUs   = 8
	simMemory = 85_520_809_984 // of an H100, without what the driver reserves
	simLost   = 7              // falls off the bus now and then
)

func (n *simNode) Info() telemetry.ReaderInfo {
	return telemetry.ReaderInfo{Name: "simulated node", Basis: sharing.BasisSimulated}
}

func (n *simNode) Devices(context.Context) ([]telemetry.Device, error) {
	out := make([]telemetry.Device, simGPUs)
	for i := range out {
		out[i] = telemetry.Device{UUID: simUUID("GPU", i), Name: "simulated H100 80GB", MIG: sharing.AnswerOf(i == 6),
			GPM: sharing.AnswerYes}
	}
	return out, nil
}

func (n *simNode) Read(ctx context.Context, gpu int, group telemetry.Groups, r *telemetry.Reading) error {
	t := n.now()
	if gpu == simLost && math.Mod(t.Hours(), 6) > 5.9 {
		return fmt.Errorf("%w: simulated", telemetry.ErrLost)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	pods, busy := simPods(gpu, t)
	sum := 0.0
	for i, b := range busy {
		if gpu == 6 {
			b *= float64(pods[i].slot.slices) / 7
		}
		sum += b
	}
	switch group {
	case telemetry.GroupBasic:
		used := 0.0
		for _, p := range pods {
			if p.running {
				used += float64(p.memory())
			}
		}
		if gpu != 6 {
			r.Set(telemetry.MetricGPUUtilPercent, math.Round(100*sum))
		}
		r.Set(telemetry.MetricPowerWatts, simWatts(gpu, t))
		r.Set(telemetry.MetricMemUsedBytes, used)
		r.Set(telemetry.MetricMemTotalBytes, simMemory)
	case telemetry.GroupProcesses:
		for _, p := range pods {
			if p.running {
				q := telemetry.Process{PID: p.pid, Name: p.slot.app, Memory: telemetry.Some(p.memory())}
				if p.slot.instance > 0 {
					q.GPUInstance = telemetry.Some(p.slot.instance)
				}
				r.Processes = append(r.Processes, q)
			}
		}
		if simMPS(gpu) {
			r.Processes = append(r.Processes, telemetry.Process{PID: simServer(gpu), Name: "nvidia-cuda-mps-server",
				Memory: telemetry.Some(30 * sharing.MiB)})
		}
	case telemetry.GroupGPM:
		if gpu != 6 {
			r.Set(telemetry.MetricSMUtilPercent, 55*sum)
			break
		}
		for i := range simSlots {
			s := &simSlots[i]
			if s.gpu != gpu {
				continue
			}
			in := telemetry.Instance{ID: s.instance, UUID: simUUID("MIG", s.instance), ComputeSlices: telemetry.Some(s.slices)}
			in.Set(telemetry.MetricGraphicsUtilPercent, 0)
			for j, p := range pods {
				if p.slot == s {
					in.Set(telemetry.MetricGraphicsUtilPercent, 100*busy[j])
				}
			}
			r.Instances = append(r.Instances, in)
		}
	case telemetry.GroupProcessUtil:
		if gpu == 6 {
			return fmt.Errorf("%w: MIG", telemetry.ErrUnsupported)
		}
		n.util(gpu, t, r)
	case telemetry.GroupEnergy:
		r.Set(telemetry.MetricEnergyJoules, n.energy(gpu, t))
	}
	return nil
}

// simSteps is the number of parts into which a time is cut that is summed up.
const simSteps = 16

// util gives each process's share since it was read last.
func (n *simNode) util(gpu int, t time.Duration, r *telemetry.Reading) {
	from := n.utilAt[gpu]
	n.utilAt[gpu] = t
	if from == 0 || t-from > 24*time.Hour {
		from = t - time.Second
	}
	sums := map[uint32]float64{}
	for i := range simSteps {
		pods, busy := simPods(gpu, from+(t-from)*time.Duration(i)/simSteps)
		for j, p := range pods {
			pid := p.pid
			if simMPS(gpu) {
				pid = simServer(gpu) // as the driver has it
			}
			sums[pid] += 100 * busy[j] / simSteps
		}
	}
	for pid, v := range sums {
		if v := math.Round(v); v > 0 {
			r.Processes = append(r.Processes, telemetry.Process{PID: pid, SMUtilPercent: telemetry.Some(min(v, 100))})
		}
	}
}

func simWatts(gpu int, t time.Duration) float64 {
	watts := 72.0
	pods, busy := simPods(gpu, t)
	for i, p := range pods {
		if p.running {
			watts = max(watts, 112)
		}
		b := busy[i]
		if gpu == 6 {
			b *= float64(p.slot.slices) / 7
		}
		watts += 380 * b
	}
	return watts
}

// simGrain is the time for which the simulated power is taken to be the same.
const simGrain = 30 * time.Second

// energy is a counter that begins with the node's time. It depends on the time alone, as if it had never stopped.
func (n *simNode) energy(gpu int, t time.Duration) float64 {
	if t < n.energyAt[gpu] {
		n.energyAt[gpu], n.joules[gpu] = 0, 0
	}
	for ; n.energyAt[gpu]+simGrain <= t; n.energyAt[gpu] += simGrain {
		n.joules[gpu] += simWatts(gpu, n.energyAt[gpu]) * simGrain.Seconds()
	}
	return n.joules[gpu] + simWatts(gpu, n.energyAt[gpu])*(t-n.energyAt[gpu]).Seconds()
}

// everyone lists all pods of the node.
func (n *simNode) everyone() []simPod {
	t := n.now()
	var out []simPod
	for i := range simSlots {
		if p, ok := simSlots[i].at(t); ok {
			out = append(out, p)
		}
	}
	return out
}

// Open opens a file of a process, or the folder of the containers' logs.
func (n *simNode) Open(name string) (fs.File, error) {
	files := fstest.MapFS{}
	add := func(data, format string, args ...any) {
		files[fmt.Sprintf(format, args...)] = &fstest.MapFile{Data: []byte(data)}
	}
	for _, p := range n.everyone() {
		add("", "var/log/containers/%s_%s_%s-%s.log", p.pod.Name, p.pod.Namespace, p.pod.Container, p.containerID())
		if !p.running {
			continue
		}
		add(fmt.Sprintf("%d (%s) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0", p.pid, p.slot.app,
			1+p.begun/(10*time.Millisecond)), "proc/%d/stat", p.pid)
		add(fmt.Sprintf("0::/kubepods.slice/kubepods-burstable.slice/"+
			"kubepods-burstable-pod%s.slice/cri-containerd-%s.scope\n",
			strings.ReplaceAll(simUUID("GPU", int(p.pid))[4:], "-", "_"), p.containerID()), "proc/%d/cgroup", p.pid)
	}
	return files.Open(name)
}

func (n *simNode) Allocations(context.Context) ([]container.Allocation, error) {
	var out []container.Allocation
	for _, p := range n.everyone() {
		out = append(out, container.Allocation{Pod: p.pod, Devices: []container.Device{p.slot.device()}})
	}
	return out, nil
}

func (s *simSlot) device() container.Device {
	if s.instance > 0 {
		return container.Device{UUID: simUUID("MIG", s.instance)}
	}
	return container.Device{UUID: simUUID("GPU", s.gpu), Replica: s.replica}
}

func (n *simNode) Slots(context.Context) (map[container.Device]int, error) {
	out := map[container.Device]int{}
	for i := range simSlots {
		d := simSlots[i].device()
		d.Replica = container.Optional[int]{}
		out[d]++
	}
	return out, nil
}

// Snapshot returns the answer of the MPS control daemon.
func (n *simNode) Snapshot(context.Context) (mps.Snapshot, error) {
	s := mps.Snapshot{Time: time.Now(), Daemon: sharing.AnswerYes}
	for _, gpu := range []int{4, 5} {
		srv := mps.ServerSnapshot{Server: int(simServer(gpu)), State: mps.StateActive}
		pods, _ := simPods(gpu, n.now())
		for _, p := range pods {
			if p.running {
				srv.Clients = append(srv.Clients, int(p.pid))
			}
		}
		s.Servers = append(s.Servers, srv)
	}
	return s, nil
}

// simSlot is a place on a GPU that one pod after another takes.
type simSlot struct {
	gpu, index int
	replica    telemetry.Optional[int]
	instance   int // MIG GPU instance; 0 is none
	slices     int
	app        string
	namespace  string
	cycle      time.Duration // from one pod's start to the next's
	load       float64       // when it is busy
	quiet      float64       // the part of the time in which it does nothing
}

var simSlots = makeSlots()

func makeSlots() []simSlot {
	var out []simSlot
	apps := []string{"chat", "tagger", "rank", "embed", "notebook", "train", "vision", "speech"}
	spaces := []string{"search", "ads", "research", "shop"}
	add := func(gpu int, s simSlot) {
		n := len(out)
		s.gpu, s.app, s.namespace = gpu, apps[(n*5+gpu)%len(apps)], spaces[(n*3+gpu)%len(spaces)]
		s.cycle = time.Duration(17+13*((n*7)%11)) * time.Minute
		s.quiet = float64((n*3)%7) / 10
		out = append(out, s)
	}
	add(0, simSlot{load: 0.95})
	add(1, simSlot{load: 0.7})
	for gpu := 2; gpu <= 3; gpu++ { // time-slicing
		for r := range 4 {
			add(gpu, simSlot{index: r, replica: telemetry.Some(r), load: 0.3})
		}
	}
	for gpu := 4; gpu <= 5; gpu++ { // MPS
		for r := range 3 {
			add(gpu, simSlot{index: r, replica: telemetry.Some(r), load: 0.45})
		}
	}
	for i, g := range []int{3, 2, 1} { // MIG; one slice is nobody's
		add(6, simSlot{index: i, instance: i + 1, slices: g, load: 0.8})
	}
	add(7, simSlot{load: 0.4})
	return out
}

// simPod is a pod that holds a slot at a time.
type simPod struct {
	slot    *simSlot
	pod     container.Pod
	pid     uint32
	begun   time.Duration
	running bool // its process holds a context; before that it only holds the GPU
}

// at returns who holds a slot.
func (s *simSlot) at(t time.Duration) (simPod, bool) {
	k := int64(t / s.cycle)
	begun := time.Duration(k) * s.cycle
	into := float64(t-begun) / float64(s.cycle)
	if into > 0.85 { // free until the next one comes
		return simPod{}, false
	}
	sum := sha256.Sum256(fmt.Append(nil, s.gpu, s.index, k))
	name := s.app + "-" + hex.EncodeToString(sum[:4])
	return simPod{
		slot: s, begun: begun, running: into > 0.05,
		pod: container.Pod{Namespace: s.namespace, Name: name, Container: "main"},
		// Ids are used again after seven pods.
		pid: uint32(2000 + 100*s.gpu + 10*s.index + int(k%7)),
	}, true
}

// busy is the share of the GPU, or of its instance, that a pod wants at a time.
func (p simPod) busy(t time.Duration) float64 {
	if !p.running {
		return 0
	}
	minutes := (t - p.begun).Minutes()
	if math.Mod(minutes/9, 1) < p.slot.quiet {
		return 0
	}
	return p.slot.load * (0.8 + 0.2*math.Sin(minutes))
}

func (p simPod) memory() sharing.Bytes {
	return sharing.Bytes(4+3*(p.slot.gpu+p.slot.index)) * sharing.GiB / 2
}

func simUUID(kind string, n int) string {
	sum := sha256.Sum256(fmt.Append(nil, kind, n))
	h := hex.EncodeToString(sum[:16])
	return kind + "-" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// pods lists who holds a GPU at a time, with what each uses. Where they want more than there is, each has less.
func simPods(gpu int, t time.Duration) (pods []simPod, busy []float64) {
	sum := 0.0
	for i := range simSlots {
		if simSlots[i].gpu != gpu || simSlots[i].load == 0 { // who only holds a place uses nothing
			continue
		}
		if p, ok := simSlots[i].at(t); ok {
			pods, busy = append(pods, p), append(busy, p.busy(t))
			sum += p.busy(t)
		}
	}
	if sum > 1 && gpu != 6 {
		for i := range busy {
			busy[i] /= sum
		}
	}
	return pods, busy
}

func (p simPod) containerID() string {
	sum := sha256.Sum256([]byte(p.pod.Name))
	return hex.EncodeToString(sum[:])
}

func simMPS(gpu int) bool { return gpu == 4 || gpu == 5 }

func simServer(gpu int) uint32 { return uint32(900 + gpu) }
