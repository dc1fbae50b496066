// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"testing/fstest"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// simNode is a node of eight GPUs with pods that come and go: its driver, which follows a script, its files and
// its kubelet. Its state depends only on the time, so that a node goes on where it was after
// a restart. The figures are of the size that an H100 shows, and are made up.
type simNode struct {
	*telemetrytest.Reader
	now func() time.Duration // simulated
}

const (
	simCycle  = 2 * time.Hour // after which all repeats, with other pods
	simSteps  = 12            // of a cycle
	simGPUs   = 8
	simMIG    = 6
	simMemory = 85_520_809_984 // of an H100, without the driver's reserve
)

// isMPS reports which GPUs an MPS server serves.
func isMPS(gpu int) bool { return gpu == 4 || gpu == 5 }

func simServer(gpu int) uint32 { return uint32(900 + gpu) }

// simSlot is a place on a GPU that a pod holds in some steps of each cycle. Its process comes a step later.
type simSlot struct {
	gpu, slices    int // slices are of its MIG instance; 0 is none
	namespace, app string
	from, to       int
	load           float64 // share of the GPU, or of its instance, two steps of three
}

var simSlots = []simSlot{
	{gpu: 0, namespace: "shop", app: "chat", to: 11, load: 0.6},
	{gpu: 0, namespace: "lab", app: "queue", from: 11, to: 12},
	{gpu: 1, namespace: "lab", app: "train", to: 12, load: 0.9},
	{gpu: 2, namespace: "shop", app: "tagger", to: 12, load: 0.25},
	{gpu: 2, namespace: "shop", app: "rank", from: 1, to: 9, load: 0.25},
	{gpu: 2, namespace: "search", app: "embed", from: 2, to: 11, load: 0.2},
	{gpu: 2, namespace: "lab", app: "notebook", to: 10, load: 0.1},
	{gpu: 3, namespace: "search", app: "rerank", to: 12, load: 0.3},
	{gpu: 3, namespace: "media", app: "vision", from: 3, to: 12, load: 0.25},
	{gpu: 3, namespace: "media", app: "speech", from: 4, to: 10, load: 0.3},
	{gpu: 4, namespace: "shop", app: "reply", to: 12, load: 0.3},
	{gpu: 4, namespace: "search", app: "summary", from: 1, to: 12, load: 0.35},
	{gpu: 4, namespace: "media", app: "caption", from: 5, to: 11, load: 0.2},
	{gpu: 5, namespace: "media", app: "translate", to: 12, load: 0.4},
	{gpu: 5, namespace: "lab", app: "sweep", from: 2, to: 8, load: 0.4},
	{gpu: simMIG, slices: 3, namespace: "shop", app: "small", to: 12, load: 0.8},
	{gpu: simMIG, slices: 2, namespace: "lab", app: "course", from: 1, to: 10, load: 0.5},
	{gpu: simMIG, slices: 1, namespace: "search", app: "index", from: 3, to: 12, load: 0.7}, // one slice has no holder
	{gpu: 7, namespace: "lab", app: "render", to: 11, load: 0.4},
}

// busy is the use of a slot's pod in a step.
func (s *simSlot) busy(step int) float64 {
	if !s.runs(step) || (step+s.gpu)%3 == 2 {
		return 0
	}
	return s.load
}

func (s *simSlot) runs(step int) bool { return step > s.from && step < s.to && s.load > 0 }

// newSimNode writes the script of the node's driver.
func newSimNode(now func() time.Duration) (*simNode, error) {
	script := telemetrytest.Script{GPUs: make([]telemetrytest.GPU, simGPUs), NoisePercent: 2}
	for i := range script.GPUs {
		g := &script.GPUs[i]
		g.Loop, g.Device = true, telemetry.Device{UUID: simUUID(i), Name: "simulated H100 80GB", GPM: sharing.AnswerYes,
			MIG: sharing.AnswerOf(i == simMIG)}
		for step := range simSteps {
			g.Phases = append(g.Phases, simPhase(i, step))
		}
	}
	last := &script.GPUs[7].Phases[simSteps-1]
	*last = telemetrytest.Phase{For: last.For, Lost: true}
	reader, err := telemetrytest.New(script)
	return &simNode{reader, now}, err
}

// simPhase is a GPU's figures of the driver in a step.
func simPhase(gpu, step int) telemetrytest.Phase {
	p := telemetrytest.Phase{For: simCycle / simSteps}
	sum, used, watts, instances := 0.0, 0.0, 72.0, 0
	for i := range simSlots {
		s := &simSlots[i]
		if s.gpu != gpu {
			continue
		}
		q, busy := telemetry.Process{PID: s.pid(), Name: s.app, Memory: sharing.Some(8 * sharing.GiB)}, s.busy(step)
		if s.slices > 0 {
			instances++
			q.GPUInstance = sharing.Some(instances)
			p.Instances = append(p.Instances, telemetrytest.Instance{ID: instances, ComputeSlices: s.slices,
				Figures: map[telemetry.Metric]float64{telemetry.MetricGraphicsUtilPercent: 100 * busy}})
			busy *= float64(s.slices) / 7
		} else if busy > 0 && !isMPS(gpu) {
			q.SMUtilPercent = sharing.Some(100 * busy)
		}
		if sum += busy; s.runs(step) {
			p.Processes = append(p.Processes, q)
			used, watts = used+8*float64(sharing.GiB), max(watts, 112)
		}
	}
	p.Figures = map[telemetry.Metric]float64{telemetry.MetricPowerWatts: watts + 380*sum,
		telemetry.MetricMemUsedBytes: used, telemetry.MetricMemTotalBytes: simMemory}
	if gpu == simMIG {
		p.Fail = map[telemetry.Groups]error{telemetry.GroupProcessUtil: telemetry.ErrUnsupported}
		return p
	}
	p.Figures[telemetry.MetricGPUUtilPercent], p.Figures[telemetry.MetricSMUtilPercent] = 100*sum, 55*sum
	if isMPS(gpu) { // the driver charges the server with its clients' work
		p.Processes = append(p.Processes, telemetry.Process{PID: simServer(gpu), Name: "nvidia-cuda-mps-server",
			Memory: sharing.Some(30 * sharing.MiB), SMUtilPercent: sharing.Some(100 * sum)})
	}
	return p
}

func (n *simNode) Read(ctx context.Context, gpu int, group telemetry.Groups, r *telemetry.Reading) error {
	n.SetTime(n.now())
	return n.Reader.Read(ctx, gpu, group, r)
}

// simPod is a pod that holds a slot.
type simPod struct {
	*simSlot
	pod     container.Pod
	begun   time.Duration
	running bool // its process holds a context; before that it only holds the GPU
}

// pods lists all pods of the node.
func (n *simNode) pods() (out []simPod) {
	t := n.now()
	round, step := t/simCycle, int(t%simCycle/(simCycle/simSteps))
	for i := range simSlots {
		if s := &simSlots[i]; step >= s.from && step < s.to {
			pod := container.Pod{Namespace: s.namespace, Name: fmt.Sprintf("%s-%d", s.app, round), Container: "main"}
			out = append(out, simPod{s, pod, round * simCycle, s.runs(step)})
		}
	}
	return out
}

// pid is the id of the slot's processes, which is used again by each.
func (s *simSlot) pid() uint32 {
	sum := sha256.Sum256([]byte(s.namespace + "/" + s.app))
	return 1000 + uint32(sum[0])<<8 + uint32(sum[1])
}

func simUUID(n int) string {
	sum := sha256.Sum256(fmt.Append(nil, "GPU", n))
	h := hex.EncodeToString(sum[:16])
	return "GPU-" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Open opens a file of a process, or the folder of the containers' logs.
func (n *simNode) Open(name string) (fs.File, error) {
	files := fstest.MapFS{}
	add := func(data, format string, args ...any) {
		files[fmt.Sprintf(format, args...)] = &fstest.MapFile{Data: []byte(data)}
	}
	for _, p := range n.pods() {
		sum := sha256.Sum256([]byte(p.pod.Namespace + p.pod.Name))
		id := hex.EncodeToString(sum[:])
		add("", "var/log/containers/%s_%s_%s-%s.log", p.pod.Name, p.pod.Namespace, p.pod.Container, id)
		if p.running {
			add(fmt.Sprintf("1 (%s) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0", p.app, 1+p.begun/(10*time.Millisecond)),
				"proc/%d/stat", p.pid())
			add("0::/kubepods.slice/kubepods-pod"+strings.ReplaceAll(simUUID(0)[4:], "-", "_")+".slice/cri-containerd-"+
				id+".scope\n", "proc/%d/cgroup", p.pid())
		}
	}
	return files.Open(name)
}

func (n *simNode) Allocations(context.Context) (out []container.Allocation, err error) {
	for i, p := range n.pods() {
		out = append(out, container.Allocation{Pod: p.pod, Devices: []container.Device{p.device(i)}})
	}
	return out, nil
}

// device names a slot's device with a number.
func (s *simSlot) device(n int) container.Device {
	d := container.Device{UUID: simUUID(s.gpu)}
	if s.slices > 0 {
		d.GPUInstance = sharing.Some(4 - s.slices) // the instances are of 3, 2 and 1 slices
	} else if s.gpu > 1 && s.gpu < simMIG {
		d.Replica = sharing.Some(n)
	}
	return d
}

func (n *simNode) Slots(context.Context) (map[container.Device]int, error) {
	out := map[container.Device]int{}
	for i := range simSlots {
		d := simSlots[i].device(0)
		d.Replica = sharing.Optional[int]{}
		out[d]++
	}
	return out, nil
}
