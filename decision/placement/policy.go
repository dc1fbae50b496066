package placement

import "math"

// BestFit takes the node whose CPU and GPUs are left with the least, both weighed alike: free CPU in 128 cores and
// free GPUs in eighths of a node, the largest of the public trace it is compared on, in whole hundredths as
// Kubernetes scores are. A MIG instance goes to the GPU with the fewest free units. It knows nothing of what is to
// come.
type BestFit struct{}

// Name is "best-fit".
func (BestFit) Name() string { return "best-fit" }

// ByShape is true.
func (BestFit) ByShape() bool { return true }

// Score is at most 100, for a node that is left with nothing.
func (BestFit) Score(o *Option) float64 {
	if o.Start >= 0 {
		return 100 - o.Before.GPUs[o.GPUs[0]].free()/10
	}
	left := float64(o.After.CPUMilli)/bestFitCPU + o.After.FreeMilli()/bestFitGPUs
	return math.Floor(100 * (1 - left))
}

// Half of a node's fullness is its CPU, by 128 cores, and half its GPUs, by eight.
const (
	bestFitCPU  = 2 * 128_000
	bestFitGPUs = 2 * 8_000
)

func (BestFit) rank(r *row) float32 { return r.left }

// Spread takes the emptiest GPU on the emptiest node: the least sharing, and the most fragmentation.
type Spread struct{}

// Name is "spread".
func (Spread) Name() string { return "spread" }

// ByShape is true.
func (Spread) ByShape() bool { return true }

// Score is the free thousandths of the GPUs that are taken, before the node's as a whole.
func (Spread) Score(o *Option) float64 {
	if len(o.GPUs) == 0 {
		return float64(o.After.CPUMilli)
	}
	free := 0.0
	for _, g := range o.GPUs {
		free += o.After.GPUs[g].free()
	}
	return free/float64(len(o.GPUs)) + o.After.FreeMilli()/(1000*MaxGPUs)
}

func (Spread) rank(r *row) float32 { return -float32(r.any&milliMask) - r.left }

// Random takes a node and a GPU by chance, the same for the same seed, name of
// the request and index of the node. It is the yardstick that anything must beat.
type Random struct{ Seed uint64 }

// Name is "random".
func (Random) Name() string { return "random" }

// ByShape is false: the name decides.
func (Random) ByShape() bool { return false }

// Score is uniform from 0 to 2^24, by node first and then by GPU.
func (p Random) Score(o *Option) float64 {
	h := p.node(o.Request, o.Node)
	g := mix64(h + uint64(o.Start+2))
	for _, i := range o.GPUs {
		g = mix64(g ^ uint64(i))
	}
	return float64(h>>40) + float64(g>>40)/(1<<24)
}

// node draws for a node.
func (p Random) node(r *Request, node int) uint64 {
	h := mix64(p.Seed ^ 0x9e3779b97f4a7c15)
	for i := range len(r.Name) {
		h = (h ^ uint64(r.Name[i])) * 0x100000001b3
	}
	return mix64(mix64(h) + uint64(node))
}

// mix64 is the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
func mix64(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
