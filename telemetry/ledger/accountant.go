// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// Clock is the source of the ledger's time. Its name changes when it restarts.
type Clock struct {
	Name string
	Now  func() time.Duration
}

// Options are the parts of an Accountant.
type Options struct {
	Clock    Clock
	Resolver *container.Resolver
	// Kubelet lists the holders of GPUs; nil means that holders are unknown.
	Kubelet Allocator
	// Price returns the price of a GPU's hour by its UUID and name; nil means no price.
	Price func(uuid, name string) cost.Money
	// Basis is the basis of the readings; BasisSimulated applies to every account.
	Basis  sharing.Basis
	Logger *slog.Logger // nil discards
	// Fast and Slow are the periods of cheap and of costly readings on the clock.
	Fast, Slow time.Duration
	// Records are the records that Changes returned in earlier runs.
	Records []Record
}

// Accountant turns samples into postings. It is a telemetry.Sink: a window of a GPU's time ends with its costly
// readings or, without them, at Tick. It is safe for concurrent use.
type Accountant struct {
	o       Options
	holders *holders

	mu      sync.Mutex
	book    *book
	devs    []*device
	refused int // windows that Divide refused: a defect
}

// New returns an accountant that continues the accounts of o.Records. A record that cannot be read is logged and
// ignored, and its accounts begin at zero.
func New(o Options) *Accountant {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Price == nil {
		o.Price = func(string, string) cost.Money { return cost.Money{} }
	}
	a := &Accountant{o: o, holders: &holders{alloc: o.Kubelet, log: o.Logger}}
	var unread map[string]error
	a.book, unread = restoreBook(bookOptions{clock: o.Clock.Name}, slices.Values(o.Records))
	for name, err := range unread {
		o.Logger.Error("a stored record is not sound", "record", name, "err", err)
	}
	a.o.Records = nil
	return a
}

// View holds accounts to publish once the records of the same Changes are stored.
type View struct {
	Rows     []Row
	Totals   []Total
	Observed map[string]time.Duration // by GPU, since it was first seen
}

// View returns the present accounts.
func (a *Accountant) View() View {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.view()
}

func (a *Accountant) view() View {
	return View{a.book.listRows(), a.book.listTotals(), a.book.observed()}
}

// Changes removes the rows of pods that ended long ago, and returns their number, the changed records to store, if any,
// and the view to publish once they are stored.
func (a *Accountant) Changes() (expired int, records []Record, v View, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	expired = len(a.book.expire())
	if records, err = a.book.takeChanges(); len(records) > 0 {
		v = a.view()
	}
	return expired, records, v, err
}

// Watch reads the holders from the kubelet every period until ctx ends.
func (a *Accountant) Watch(ctx context.Context, period time.Duration) {
	if a.o.Kubelet == nil {
		return
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		a.holders.ask(ctx, period)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
