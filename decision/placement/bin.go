// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"

	"github.com/cotenant/cotenant/internal/splitmix"
	"github.com/cotenant/cotenant/sharing"
)

// bin is a node's free capacity, as small as runs need it.
type bin struct {
	cpu, memory int64
	models      uint64
	n           int
	free        int32
	gpus        [MaxGPUs]part // that are not in MIG mode, the fullest first
}

// part is the free capacity of a GPU.
type part struct {
	milli         int32
	mechanism     uint32 // bit
	memory, total sharing.Bytes
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
		of := part{g.Milli, 1 << g.Mechanism, g.Memory, g.Total}
		at := b.n // in order, so that the order of a node's GPUs does not matter
		for ; at > 0 && b.gpus[at-1].compare(&of) > 0; at-- {
			b.gpus[at] = b.gpus[at-1]
		}
		b.gpus[at] = of
		b.n++
		b.free += g.Milli
	}
}

func (p *part) compare(o *part) int {
	if p.milli != o.milli {
		return int(p.milli - o.milli)
	}
	return cmp.Or(cmp.Compare(p.mechanism, o.mechanism), cmp.Compare(p.memory, o.memory), cmp.Compare(p.total, o.total))
}

// most is the most that is free on one GPU.
func (b *bin) most() int32 { return b.gpus[b.n-1].milli }

// key hashes b. Equal bins have equal keys.
func (b *bin) key() uint64 {
	h := splitmix.Finish(uint64(b.cpu)*splitmix.Gamma ^ uint64(b.memory) ^ b.models)
	for i := range b.gpus[:b.n] {
		g := &b.gpus[i]
		h = splitmix.Finish(h*splitmix.Gamma ^ uint64(g.milli)<<32 ^ uint64(g.mechanism))
		if g.total != 0 {
			h = splitmix.Finish(h ^ uint64(g.memory)<<1 ^ uint64(g.total))
		}
	}
	return h | 1 // 0 would be found in an empty entry
}

// afterRuns returns the mean free thousandths after the runs, over all horizons.
func (p *lookAhead) afterRuns(b *bin) float64 {
	sum := int64(0)
	for i := range p.runs {
		sum += p.run(*b, &p.runs[i])
	}
	return float64(sum) / float64(len(p.runs)*len(horizons))
}

// run is a sequence of requests, each with its least needs packed into one word. blocks holds the minimum over each
// blockLength requests: where that does not fit, none of the block does.
type run struct {
	needs  [runLength]uint64
	kinds  [runLength]int32
	blocks [runLength / blockLength]uint64
}

const blockLength = 8 // divides every horizon

// A word packs needs or free capacity: thousandths of the emptiest GPU (11 bits), CPU in thousandths and memory in MiB
// (25 bits each), with a guard bit above each. free-need keeps all guards exactly if every field suffices.
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

// leastOf is the least of each that two words need.
func leastOf(a, b uint64) uint64 {
	return min(a&milliMask, b&milliMask) | min(a>>cpuShift&cpuMax, b>>cpuShift&cpuMax)<<cpuShift |
		min(a>>memoryShift, b>>memoryShift)<<memoryShift
}

// run places the requests of one run on b, each on the fullest GPUs with enough room,
// and returns the sum of the free thousandths at the horizons.
func (p *lookAhead) run(b bin, r *run) int64 {
	sum, at := int64(0), 0
	free := guards | pack(b.most(), b.cpu, sharing.Bytes(b.memory))
	for _, end := range horizons {
		for ; at < end; at++ {
			if at%blockLength == 0 && (free-r.blocks[at/blockLength])&guards != guards {
				at += blockLength - 1
				continue
			}
			need := r.needs[at]
			if (free-need)&guards != guards {
				continue
			}
			if k := &p.mix.kinds[r.kinds[at]]; k.gpus > 0 {
				if !b.take(k) {
					continue
				}
				free = free&^milliMask | uint64(b.most())
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
	var which [MaxGPUs]int
	var needs [MaxGPUs]int32
	n := 0
	for i := range b.gpus[:b.n] {
		g, need := &b.gpus[i], k.milli
		if g.milli < need || g.milli == 0 || g.mechanism&k.mechanisms == 0 {
			continue
		}
		if k.gpuMemory > 0 {
			if g.total == 0 || k.gpuMemory > g.memory {
				continue
			}
			if need = k.need(g.total); need > g.milli {
				continue
			}
		}
		which[n], needs[n] = i, need
		if n++; n == int(k.gpus) {
			for j, i := range which[:n] {
				b.fill(i, needs[j], k.gpuMemory)
			}
			return true
		}
	}
	return false
}

// fill takes something of a GPU, which moves to its place among the fuller ones.
func (b *bin) fill(i int, milli int32, memory sharing.Bytes) {
	g := b.gpus[i]
	g.milli -= milli
	g.memory -= memory
	b.free -= milli
	for ; i > 0 && b.gpus[i-1].milli > g.milli; i-- {
		b.gpus[i] = b.gpus[i-1]
	}
	b.gpus[i] = g
}

// byKind is the expected free part that a kind leaves which comes by itself, as often as it fits. CPU-only kinds leave
// nothing to be counted.
func (p *lookAhead) byKind(b *bin) float64 {
	sum := 0.0
	most := b.most()
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
	for i := range b.gpus[:b.n] {
		g := &b.gpus[i]
		need := k.need(g.total)
		if need == 0 || g.milli < need || g.mechanism&k.mechanisms == 0 {
			continue
		}
		n := int64(g.milli / need)
		if k.gpuMemory > 0 {
			if g.total == 0 {
				continue
			}
			n = min(n, int64(g.memory/k.gpuMemory))
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
