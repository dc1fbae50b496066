package costs

import (
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Sleep lets a server give its memory back while nobody asks for it, as vLLM's sleep mode does. A server that
// sleeps wakes when a request comes, as soon as there is memory for it: idle neighbours on its GPU are put to sleep
// for that, the least recently used first, and a neighbour that has been awake for Turn takes no new requests while
// another server waits for its memory.
type Sleep struct {
	Level   SleepLevel
	Idle    time.Duration // sleeps after so long without requests; 0 = only when a neighbour needs its memory
	Turn    time.Duration // how long it may keep others waiting; 0 = 30 s
	CopyOut Cost          // ms for each GiB of weights to the host (level 1), its memory for them included
	CopyIn  Cost          // ms for each GiB from there: 1000 over the measured GiB/s
	Reload  Cost          // ms for each GiB from disk (level 2)
	Fixed   Cost          // ms for each falling asleep and each waking, whatever the size
	Asleep  sharing.Bytes // that stay on the GPU: the context
}

// SleepLevel is what a sleeping server keeps.
type SleepLevel uint8

// The levels, as vLLM counts them. The zero value never sleeps.
const (
	SleepNever   SleepLevel = iota
	SleepWeights            // weights go to the host's memory, the KV cache is dropped
	SleepDiscard            // weights are dropped as well and loaded again
)

const usualTurn = 30 * time.Second

// What moving weights takes where nobody measured it, in ms for each GiB: 16 lanes of PCIe 4 carry 31.5 GB/s, of
// which pinned copies reach some 80 percent; and an NVMe disk reads some 3 GB/s. On the way out most of the time is
// the allocation of pinned memory: Qwen3-8B took 10.57 s to fall asleep on an A100 and Qwen3-0.6B 0.22 s, 685 and 110
// ms for each GiB of their weights. The prior is the large model's.
const (
	copyMSPerGiB = 1e3 * 1.073741824 / (31.5 * 0.8)
	diskMSPerGiB = 1e3 * 1.073741824 / 3
	pinMSPerGiB  = 685
	sleepFixedMS = 100
	pcieSource   = sharing.SourceID("cotenant-reading")
	sleepSource  = sharing.SourceID("vllm-sleep-lora")
)

func newSleep() Sleep {
	prior := func(v, sigma float64) Cost {
		return Cost{Value: v, Sigma: sigma, Basis: sharing.BasisPrior, Source: pcieSource}
	}
	return Sleep{
		CopyOut: Cost{Value: pinMSPerGiB, Sigma: 0.9, Basis: sharing.BasisTransferred, Source: sleepSource},
		CopyIn:  prior(copyMSPerGiB, 0.4),
		Reload:  prior(diskMSPerGiB, 0.7),
		Fixed:   prior(sleepFixedMS, 0.7),
		Asleep:  sharing.GiB,
	}
}

// FallAsleep and Wake are how long a server of the model takes to fall asleep and to wake, in ms.
func (s *Sleep) FallAsleep(m Model) float64 {
	if s.Level == SleepWeights {
		return s.Fixed.Value + s.CopyOut.Value*inGiB(m.Weights())
	}
	return s.Fixed.Value
}

// Wake is how long a sleeping server of the model takes to serve again, in ms.
func (s *Sleep) Wake(m Model) float64 {
	if s.Level == SleepDiscard {
		return s.Fixed.Value + s.Reload.Value*inGiB(m.Weights())
	}
	return s.Fixed.Value + s.CopyIn.Value*inGiB(m.Weights())
}

func inGiB(b sharing.Bytes) float64 { return float64(b) / float64(sharing.GiB) }

func (s *Sleep) LongestTurn() time.Duration {
	if s.Turn == 0 {
		return usualTurn
	}
	return s.Turn
}

func (s *Sleep) check(list *problem.List, path string) {
	list.If(s.Level > SleepDiscard, problem.Join(path, "level"), "vLLM has levels 1 and 2; 0 never sleeps", "is %d", s.Level)
	list.If(s.Idle < 0 || s.Turn < 0, path, "", "times must not be negative")
	list.If(s.Asleep < 0, problem.Join(path, "asleep"), "", "is negative")
}
