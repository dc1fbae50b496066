package placement

import (
	"slices"

	"github.com/cotenant/cotenant/internal/splitmix"
	"github.com/cotenant/cotenant/sharing"
)

// bin is a node's free capacity, as small as runs need it: GPUs that are not in MIG mode, in a fixed order.
type bin struct {
	cpu, memory int64
	models      uint64
	n           int
	free        int32
	milli       [MaxGPUs]int32
	mechanism   [MaxGPUs]uint32 // bit
	gpuMemory   [MaxGPUs]sharing.Bytes
	total       [MaxGPUs]sharing.Bytes
}

// from fills b from a node's view, CPU and memory in steps.
func (b *bin) from(v *View, models uint64) {
	b.cpu = v.CPUMilli / cpuStep * cpuStep
	b.memory = int64(v.Memory / memoryStep * memoryStep)
	b.models = models
	for i := range v.GPUs[:v.Len] {
		g := &v.GPUs[i]
		if g.MIG != nil || g.Milli == 0 {
			continue
		}
		// Insert in order, so that the order of a node's GPUs does not matter.
		at := b.n
		for at > 0 && b.after(at-1, g) {
			b.milli[at], b.mechanism[at], b.gpuMemory[at], b.total[at] = b.milli[at-1], b.mechanism[at-1], b.gpuMemory[at-1],
				b.total[at-1]
			at--
		}
		b.milli[at], b.mechanism[at], b.gpuMemory[at], b.total[at] = g.Milli, 1<<g.Mechanism, g.Memory, g.Total
		b.n++
		b.free += g.Milli
	}
}

// after reports whether GPU i belongs after g.
func (b *bin) after(i int, g *GPUView) bool {
	switch {
	case b.milli[i] != g.Milli:
		return b.milli[i] > g.Milli
	case b.mechanism[i] != 1<<g.Mechanism:
		return b.mechanism[i] > 1<<g.Mechanism
	case b.gpuMemory[i] != g.Memory:
		return b.gpuMemory[i] > g.Memory
	}
	return b.total[i] > g.Total
}

// key hashes b. Equal bins have equal keys.
func (b *bin) key() uint64 {
	h := splitmix.Finish(uint64(b.cpu)*splitmix.Gamma ^ uint64(b.memory) ^ b.models)
	for i := range b.n {
		h = splitmix.Finish(h*splitmix.Gamma ^ uint64(b.milli[i])<<32 ^ uint64(b.mechanism[i]))
		if b.total[i] != 0 {
			h = splitmix.Finish(h ^ uint64(b.gpuMemory[i])<<1 ^ uint64(b.total[i]))
		}
	}
	return h | 1 // 0 would be found in an empty entry
}

// afterRuns is the mean of what is left free by the runs, at each horizon.
func (p *Cotenant) afterRuns(b *bin) float64 {
	sum := int64(0)
	for i := range p.runs {
		sum += p.run(*b, &p.runs[i])
	}
	return float64(sum) / float64(len(p.runs)*len(horizons))
}

// run is a sequence of requests, with what each needs at the least in one word.
type run struct {
	needs [runLength]uint64
	kinds [runLength]int32
}

// A word of needs, or of what is free: thousandths of the GPU that has most (11 bits), CPU in thousandths and memory
// in MiB (25 bits each), with a guard bit above each. free-need keeps all guards exactly when everything suffices.
const (
	milliMask   = 1<<11 - 1
	cpuShift    = 12
	memoryShift = 38
	cpuMax      = 1<<25 - 1
	memoryMax   = 1<<25 - 1
	guards      = 1<<11 | 1<<37 | 1<<63
	never       = milliMask // a need that nothing meets
)

// pack packs thousandths, CPU and memory, rounded down, into one word. More than fits there is as much as fits.
func pack(milli int32, cpu int64, memory sharing.Bytes) uint64 {
	return uint64(milli) | uint64(min(cpu, cpuMax))<<cpuShift | uint64(min(memory/sharing.MiB, memoryMax))<<memoryShift
}

// pack packs a kind's least needs into one word.
func (k *kind) pack() uint64 {
	memory := k.memory + int64(sharing.MiB) - 1
	if k.profile != "" || k.cpu > cpuMax || memory/int64(sharing.MiB) > memoryMax {
		return never
	}
	return pack(k.milli, k.cpu, sharing.Bytes(memory))
}

// pack packs the free capacity of b into one word, guards set.
func (b *bin) pack() uint64 {
	return guards | pack(slices.Max(b.milli[:b.n]), b.cpu, sharing.Bytes(b.memory))
}

// run lets the requests of one run take what they need from b, each the fullest
// GPUs that will do, and returns the free thousandths at the horizons, summed.
func (p *Cotenant) run(b bin, r *run) int64 {
	sum, at := int64(0), 0
	free := b.pack()
	for _, end := range horizons {
		for ; at < end; at++ {
			need := r.needs[at]
			if (free-need)&guards != guards {
				continue
			}
			if k := &p.mix.kinds[r.kinds[at]]; k.gpus > 0 {
				if !b.take(k) {
					continue
				}
				free = free&^milliMask | uint64(slices.Max(b.milli[:b.n]))
			}
			free -= need &^ milliMask
			if free>>cpuShift&cpuMax < p.cheapest[free&milliMask] {
				at = runLength // nothing takes a GPU any more
			}
		}
		sum += int64(b.free)
	}
	return sum
}

// take takes the GPUs of one request, or returns false and takes nothing.
func (b *bin) take(k *kind) bool {
	if !k.accepts(b.models) {
		return false
	}
	var chosen [MaxGPUs]bool
	var need [MaxGPUs]int32
	var which [MaxGPUs]int
	for n := range int(k.gpus) {
		best := -1
		for i := range b.n {
			if b.milli[i] < k.milli || b.milli[i] == 0 || b.mechanism[i]&k.mechanisms == 0 || best >= 0 &&
				b.milli[i] >= b.milli[best] || chosen[i] {
				continue
			}
			need[i] = k.milli
			if k.gpuMemory > 0 {
				if b.total[i] == 0 || k.gpuMemory > b.gpuMemory[i] {
					continue
				}
				if need[i] = k.need(b.total[i]); need[i] > b.milli[i] {
					continue
				}
			}
			best = i
		}
		if best < 0 {
			return false
		}
		chosen[best] = true
		which[n] = best
	}
	for _, i := range which[:k.gpus] {
		b.milli[i] -= need[i]
		b.free -= need[i]
		b.gpuMemory[i] -= k.gpuMemory
	}
	return true
}

// alone is the expected free part that a kind which comes alone, as often as it
// fits, leaves. CPU-only kinds leave nothing to be counted.
func (p *Cotenant) alone(b *bin) float64 {
	sum := 0.0
	most := slices.Max(b.milli[:b.n])
	for i := range p.mix.kinds {
		k := &p.mix.kinds[i]
		if k.gpus == 0 || k.profile != "" {
			continue
		}
		used := 0.0
		if k.cpu <= b.cpu && k.memory <= b.memory && k.milli <= most && k.accepts(b.models) {
			used = k.fill(b)
		}
		sum += float64(k.weight * (float64(b.free) - used))
	}
	return sum
}

// fill is the thousandths that as many requests of a kind as fit take of b.
func (k *kind) fill(b *bin) float64 {
	times, most := int64(0), int64(0)
	milli := int32(0)
	for i := range b.n {
		need := k.need(b.total[i])
		if need == 0 || b.milli[i] < need || b.mechanism[i]&k.mechanisms == 0 {
			continue
		}
		n := int64(b.milli[i] / need)
		if k.gpuMemory > 0 {
			if b.total[i] == 0 {
				continue
			}
			n = min(n, int64(b.gpuMemory[i]/k.gpuMemory))
		}
		times += n
		most = max(most, n)
		milli = need
	}
	// A request's GPUs are different ones. With equal counts on the GPUs the sum
	// over k.gpus is exact; it can be too high where one GPU has most of them.
	times /= int64(k.gpus)
	if k.cpu > 0 {
		times = min(times, b.cpu/k.cpu)
	}
	if k.memory > 0 {
		times = min(times, b.memory/k.memory)
	}
	return float64(times) * float64(k.gpus) * float64(milli)
}
