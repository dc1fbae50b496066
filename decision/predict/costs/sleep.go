package costs

import (
	"cmp"
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

// SleepLevel says which part of its weights a sleeping server keeps.
type SleepLevel uint8

// The levels, as vLLM counts them. The zero value never sleeps.
const (
	SleepNever   SleepLevel = iota
	SleepWeights            // weights go to the host's memory, the KV cache is dropped
	SleepDiscard            // weights are dropped as well and loaded again
)

const usualTurn = 30 * time.Second

func newSleep() Sleep {
	return Sleep{CopyOut: Named("pin").Cost(1), CopyIn: Named("copy").Cost(1), Reload: Named("disk").Cost(1),
		Fixed: Named("sleep_fixed").Cost(1), Asleep: sharing.GiB}
}

// FallAsleep returns the time that a server of the model takes to fall asleep, in ms.
func (s *Sleep) FallAsleep(m Model) float64 {
	if s.Level == SleepWeights {
		return s.Fixed.Value + s.CopyOut.Value*inGiB(m.Weights())
	}
	return s.Fixed.Value
}

// Wake returns the time until a sleeping server of the model serves again, in ms.
func (s *Sleep) Wake(m Model) float64 {
	if s.Level == SleepDiscard {
		return s.Fixed.Value + s.Reload.Value*inGiB(m.Weights())
	}
	return s.Fixed.Value + s.CopyIn.Value*inGiB(m.Weights())
}

func inGiB(b sharing.Bytes) float64 { return float64(b) / float64(sharing.GiB) }

// LongestTurn returns how long a server may keep others waiting.
func (s *Sleep) LongestTurn() time.Duration { return cmp.Or(s.Turn, usualTurn) }

func (s *Sleep) check(list *problem.List, path string) {
	list.If(s.Level > SleepDiscard, problem.Join(path, "level"), "vLLM has levels 1 and 2; 0 never sleeps", "is %d",
		s.Level)
	list.If(s.Idle < 0 || s.Turn < 0, path, "", "times must not be negative")
	list.If(s.Asleep < 0, problem.Join(path, "asleep"), "", "is negative")
}
