package probe

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// SimulatedTenant is a tenant on a simulated GPU under MPS, whose blocks are placed kernel by kernel. It implements
// Pressed. Kernels get the SMs that are free in the order of their launch, and one that waits for the last of its
// blocks holds up whoever launches after it, however small: no model of package predict knows that.
type SimulatedTenant struct {
	Kernels int           // of a step, one after another; 0 means 1
	Kernel  time.Duration // length of each alone
	SMs     float64       // share of the SMs that each takes, above 0
	Host    time.Duration // between two steps
}

// Run implements Pressed.
func (s *SimulatedTenant) Run(ctx context.Context, t Task, beside bool) (Reading, time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return Reading{}, 0, context.Cause(ctx)
	}
	task := &kernelClient{n: max(1, t.Kernels), length: t.kernel(), pause: t.Pause, launch: simulatedLaunch,
		blocks: min(simulatedSMs, max(1, t.PerSM*simulatedSMs))}
	tenant := &kernelClient{n: max(1, s.Kernels), length: s.Kernel, pause: s.Host,
		blocks: max(1, int(math.Round(s.SMs*simulatedSMs)))}
	var clients []*kernelClient
	if t.Kind != KindNone {
		clients = append(clients, task)
	}
	if beside {
		clients = append(clients, tenant)
	}
	playKernels(clients, t.For)
	r := Reading{Steps: task.steps, Bytes: t.Bytes * int64(task.n)}
	if len(tenant.steps) == 0 {
		return r, 0, nil
	}
	return r, middle(tenant.steps), nil
}

// kernelClient launches kernels one after another on the simulated GPU.
type kernelClient struct {
	n, blocks             int // kernels of a step, and blocks of each
	length, pause, launch time.Duration

	done     int // kernels of this step
	began    time.Duration
	next     time.Duration // when the next kernel is launched; negative while one is on its way
	waiting  int           // blocks of the kernel without an SM
	running  int
	launched int // the kernel's place in the order of launches
	steps    []time.Duration
}

// placed is blocks that run until the same time.
type placed struct {
	of     *kernelClient
	blocks int
	end    time.Duration
}

// playKernels has clients launch kernels for a time.
func playKernels(clients []*kernelClient, until time.Duration) {
	free, launches, rng := simulatedSMs, 0, rand.New(rand.NewPCG(1, 1))
	var on []placed
	for {
		now := time.Duration(math.MaxInt64)
		for _, c := range clients {
			if c.next >= 0 {
				now = min(now, c.next)
			}
		}
		for _, p := range on {
			now = min(now, p.end)
		}
		if now > until {
			return
		}
		on = slices.DeleteFunc(on, func(p placed) bool {
			if p.end > now {
				return false
			}
			free += p.blocks
			if p.of.running -= p.blocks; p.of.running+p.of.waiting == 0 {
				p.of.ended(now, rng)
			}
			return true
		})
		for _, c := range clients {
			if c.next >= 0 && c.next <= now {
				c.waiting, c.next, c.launched = c.blocks, -1, launches
				launches++
			}
		}
		if len(clients) == 2 && clients[0].launched > clients[1].launched {
			slices.Reverse(clients)
		}
		for _, c := range clients { // in the order of their launches
			if n := min(free, c.waiting); n > 0 {
				free, c.waiting, c.running = free-n, c.waiting-n, c.running+n
				on = append(on, placed{c, n, now + c.length})
			}
			if c.waiting > 0 {
				break
			}
		}
	}
}

// ended takes note of a kernel's end. A host that waits for a step's end sees it after the time of a launch.
func (c *kernelClient) ended(now time.Duration, rng *rand.Rand) {
	c.next = now
	if c.done++; c.done < c.n {
		return
	}
	c.steps = append(c.steps, now+c.launch-c.began)
	// No two pauses are alike, or launches would fall into step with kernels.
	c.done, c.next = 0, now+c.launch+time.Duration((0.5+rng.Float64())*float64(c.pause))
	c.began = c.next
}
