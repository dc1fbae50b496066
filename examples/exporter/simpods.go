package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
)

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
