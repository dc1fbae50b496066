// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// Allocator lists the containers with their GPUs. An error means unknown, not that no container has one.
type Allocator interface {
	Allocations(ctx context.Context) ([]container.Allocation, error)
	// Slots returns the number of devices offered for each GPU or MIG device.
	Slots(ctx context.Context) (map[container.Device]int, error)
}

// holders caches the last answer of the kubelet. Requests run in the background, so that one that hangs delays nothing.
type holders struct {
	alloc Allocator
	log   *slog.Logger

	mu      sync.Mutex
	given   []container.Allocation
	offered map[container.Device]int
	givenAt time.Time
	kubelet sharing.Answer // whether it answered last
}

// staleAfter bounds the age of the kubelet's answer.
const staleAfter = time.Minute

// ask asks the kubelet, and logs when it begins or ceases to answer.
func (h *holders) ask(ctx context.Context, period time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, max(period, time.Second))
	defer cancel()
	given, err := h.alloc.Allocations(ctx)
	var offered map[container.Device]int
	if err == nil {
		offered, err = h.alloc.Slots(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := sharing.AnswerOf(err == nil)
	switch {
	case err != nil && now != h.kubelet:
		h.log.Warn("the kubelet does not answer", "err", err)
	case err == nil:
		h.given, h.offered, h.givenAt = given, offered, time.Now()
		if now != h.kubelet {
			h.log.Info("the kubelet answers")
		}
	}
	h.kubelet = now
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
