package decision

import (
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// member is a number of replicas of one workload on one GPU.
type member struct {
	workload int // index into the sorted workloads
	replicas int
}

// bin is one GPU that several replicas share without slices.
type bin struct {
	members []member
	n       int
	memory  sharing.Bytes
	limit   int // the fewest tenants that any member was judged with
}

// group is the GPUs of one pool that run one mechanism.
type group struct {
	pool      *CompiledPool
	mechanism sharing.Mechanism
	whole     int      // exclusive: GPUs
	wholes    []member // exclusive: who has them
	bins      []bin    // sharing without slices
	sliced    []sliced // MIG: one a GPU
	bound     int      // MIG: proven lower bound of GPUs
}

// sliced is one GPU cut into MIG instances.
type sliced struct {
	layout  mig.Layout
	members []member // in the order of the layout's instances where replicas are 1
}

// gpus counts the group's GPUs; of nil none.
func (g *group) gpus() int {
	if g == nil {
		return 0
	}
	return g.whole + len(g.bins) + len(g.sliced)
}
