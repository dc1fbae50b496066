// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// Allocator lists the containers with the GPUs that they were given. An error means that it
// is unknown, not that nothing is given.
type Allocator interface {
	Allocations(ctx context.Context) ([]container.Allocation, error)
	// Slots returns how many devices are offered of each GPU or MIG device.
	Slots(ctx context.Context) (map[container.Device]int, error)
}

// MPSDaemon is the part of mps.Client in use.
type MPSDaemon interface {
	Snapshot(ctx context.Context) (mps.Snapshot, error)
}

// holders caches the last answers of the kubelet and the MPS daemon. Both are asked
// in the background: one that hangs holds up nobody.
type holders struct {
	alloc Allocator // nil: not asked
	mps   MPSDaemon // nil: not asked
	log   *slog.Logger

	mu      sync.Mutex
	given   []container.Allocation
	offered map[container.Device]int
	givenAt time.Time
	kubelet sharing.Answer // whether it answered last
	daemon  sharing.Answer
	clients map[int][]int // of each MPS server, by process id
}

// staleAfter bounds the age of the kubelet's answer.
const staleAfter = time.Minute

// every calls f at once, and each period until ctx ends.
func every(ctx context.Context, period time.Duration, f func()) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		f()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (h *holders) ask(ctx context.Context, period time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, max(period, time.Second))
	defer cancel()
	if h.alloc != nil {
		given, err := h.alloc.Allocations(ctx)
		var offered map[container.Device]int
		if err == nil {
			offered, err = h.alloc.Slots(ctx)
		}
		h.mu.Lock()
		if h.note(&h.kubelet, "kubelet", err) {
			h.given, h.offered, h.givenAt = given, offered, time.Now()
		}
		h.mu.Unlock()
	}
	if h.mps != nil {
		s, err := h.mps.Snapshot(ctx)
		h.mu.Lock()
		if h.note(&h.daemon, "MPS control daemon", err) {
			h.clients = map[int][]int{}
			for _, srv := range s.Servers {
				h.clients[srv.Server] = srv.Clients
			}
		}
		h.mu.Unlock()
	}
}

// note remembers how a question ended, and logs when that changes; h.mu is held.
func (h *holders) note(a *sharing.Answer, who string, err error) bool {
	now := sharing.AnswerOf(err == nil)
	if now != *a && err != nil {
		h.log.Warn("no answer", "from", who, "err", err)
	} else if now != *a {
		h.log.Info("answers", "who", who)
	}
	*a = now
	return err == nil
}

// of returns the pods that hold any fitting device with their devices, and the number of slots offered.
// known is false where the kubelet does not report it.
func (h *holders) of(fits func(container.Device) bool) (held map[container.Pod][]container.Device, slots int,
	known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.givenAt.IsZero() || time.Since(h.givenAt) > staleAfter {
		return nil, 0, false
	}
	held = map[container.Pod][]container.Device{}
	for _, a := range h.given {
		for _, d := range a.Devices {
			if fits(d) && !slices.Contains(held[a.Pod], d) {
				held[a.Pod] = append(held[a.Pod], d)
			}
		}
	}
	for d, n := range h.offered {
		if fits(d) {
			slots += n
		}
	}
	return held, slots, true
}

// mpsClients lists the clients of a process that the MPS daemon reported, and whether it is an MPS server.
func (h *holders) mpsClients(pid uint32, name string) (clients []int, server bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	clients, listed := h.clients[int(pid)]
	return clients, listed || name == "nvidia-cuda-mps-server"
}
