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

// Clock is the source of the ledger's time. Its name changes where it starts anew.
type Clock struct {
	Name string
	Now  func() time.Duration
}

// Options are the parts of an Accountant.
type Options struct {
	Clock    Clock
	Resolver *container.Resolver
	// Kubelet lists the holders of GPUs; nil is not asked.
	Kubelet Allocator
	// Price returns the price of a GPU's hour by its UUID and name; nil is no price.
	Price func(uuid, name string) cost.Money
	// Basis is the basis of the readings; with BasisSimulated every account has it.
	Basis  sharing.Basis
	Logger *slog.Logger // nil discards
	// Fast and Slow are the periods of cheap and of costly readings on the clock.
	Fast, Slow time.Duration
	// Records are those that Changes returned to another run.
	Records []Record
}

// Accountant turns samples into postings. It is a telemetry.Sink: a window of a GPU's time ends with its costly
// readings, and when they don't come, by Tick. It is safe for concurrent use.
type Accountant struct {
	o       Options
	holders *holders

	mu      sync.Mutex
	book    *book
	devs    []*device
	refused int // windows that Divide refused: a defect
}

// New returns an accountant that goes on with the accounts of o.Records. A record that cannot be read is named in the
// log and set aside, and its accounts begin at zero.
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

// View holds accounts that may be shown once the records that came with them are stored.
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

// Changes ends the rows of pods that are long gone, and returns their number, the records to be stored, and the
// view that may be shown once they are; no record where nothing has changed.
func (a *Accountant) Changes() (expired int, records []Record, v View, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	expired = len(a.book.expire())
	if records, err = a.book.takeChanges(); len(records) > 0 {
		v = a.view()
	}
	return expired, records, v, err
}

// Watch asks the kubelet for the holders every period until ctx ends.
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
