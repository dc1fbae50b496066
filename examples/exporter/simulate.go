package main

import (
	"context"
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
	now func() time.Duration // simulated
	mu  sync.Mutex
	// utilAt and energyAt are when these were read last, by GPU.
	utilAt   [simGPUs]time.Duration
	energyAt [simGPUs]time.Duration
	joules   [simGPUs]float64
}

const (
	simGPUs   = 8
	simMemory = 85_520_809_984 // of an H100, without what the driver reserves
	simLost   = 7              // falls off the bus now and then
)

func simLostAt(gpu int, t time.Duration) bool {
	return gpu == simLost && math.Mod(t.Hours(), 6) > 5.9
}

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
	if simLostAt(gpu, t) {
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
		} else {
			r.Unsupported(telemetry.MetricGPUUtilPercent)
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

// energy is a counter that begins with the node's time.
func (n *simNode) energy(gpu int, t time.Duration) float64 {
	from := n.energyAt[gpu]
	if from == 0 || t-from > 24*time.Hour {
		n.joules[gpu], from = 200*t.Seconds(), t
	}
	for i := range simSteps {
		n.joules[gpu] += simWatts(gpu, from+(t-from)*time.Duration(i)/simSteps) * (t - from).Seconds() / simSteps
	}
	n.energyAt[gpu] = t
	return n.joules[gpu]
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
		add(fmt.Sprintf("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%s.slice/cri-containerd-%s.scope\n",
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
