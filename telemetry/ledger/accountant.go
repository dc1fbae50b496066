package ledger

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
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
	Holders  *Holders // nil: holders are not known
	Servers  *Servers // nil: no page is read
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
	o Options

	mu   sync.Mutex
	book *book
	// counters are the energy counters up to which energy is posted, in joules,
	// as they are stored; changed are those since.
	counters map[string]float64
	changed  map[string]float64
	aside    []Record // of records that cannot be read, to be stored
	devs     []*device
	refused  int // postings that the ledger refused: a defect
}

// metaEnergy begins the name of the record of a GPU's energy counter.
const metaEnergy = "energy "

// metaAside begins the name of a record that could not be read. Nothing reads it again but people.
const metaAside = "aside "

// New returns an accountant that goes on with the accounts of o.Records.
func New(o Options) (*Accountant, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Holders = cmp.Or(o.Holders, NewHolders(nil, nil, o.Logger))
	o.Servers = cmp.Or(o.Servers, NewServers(nil, o.Logger))
	if o.Price == nil {
		o.Price = func(string, string) cost.Money { return cost.Money{} }
	}
	a := &Accountant{o: o, counters: map[string]float64{}, changed: map[string]float64{}}
	var kept []Record
	tokens, unread := map[string]Tokens{}, map[string]error{}
	for _, r := range o.Records {
		if gpu, ok := strings.CutPrefix(r.Name, metaEnergy); ok {
			if joules, err := parseAmount(string(r.Value)); err != nil {
				unread[r.Name] = err
			} else {
				a.counters[gpu] = joules
			}
		} else if strings.HasPrefix(r.Name, metaTokens) {
			if t, err := parseTokens(r); err != nil {
				unread[r.Name] = err
			} else {
				tokens[r.Name] = t
			}
		} else if !strings.HasPrefix(r.Name, metaAside) {
			kept = append(kept, r)
		}
	}
	a.o.Records = nil
	a.o.Servers.restore(tokens)
	book, more, err := restoreBook(bookOptions{clock: a.o.Clock.Name}, slices.Values(kept))
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	a.book = book
	maps.Copy(unread, more)
	for _, r := range o.Records {
		if err := unread[r.Name]; err != nil {
			a.o.Logger.Error("a record cannot be read; it is set aside, and counts from zero",
				"record", r.Name, "as", metaAside+r.Name, "err", err)
			a.aside = append(a.aside, Record{Name: metaAside + r.Name, Value: r.Value}, Record{Name: r.Name})
		}
	}
	return a, nil
}

// View holds accounts that may be shown once the records that came with them are stored.
type View struct {
	Rows     []Row
	Totals   []Total
	Observed map[string]time.Duration // by GPU, since it was first seen
	Tokens   map[container.Pod]Tokens
}

// View returns the accounts as they stand.
func (a *Accountant) View() View {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.view()
}

func (a *Accountant) view() View {
	return View{Rows: a.book.listRows(), Totals: a.book.listTotals(), Observed: a.book.observed(),
		Tokens: a.o.Servers.totals()}
}

// Changes ends the rows of pods that are long gone, and returns their number, the records to be stored, and the
// view that may be shown once they are; no record where nothing has changed.
func (a *Accountant) Changes() (expired int, records []Record, v View, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	expired = len(a.book.expire())
	records, err = a.book.changedRecords()
	if err == nil {
		a.book.markStored()
	}
	for gpu, joules := range a.changed {
		v := strconv.AppendFloat(nil, joules, 'g', -1, 64)
		records = append(records, Record{Name: metaEnergy + gpu, Value: v})
	}
	clear(a.changed)
	records, a.aside = append(records, a.aside...), nil
	if records = append(records, a.o.Servers.changes()...); len(records) > 0 {
		v = a.view()
	}
	return expired, records, v, err
}

// Finish posts what was seen until now.
func (a *Accountant) Finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.devs {
		a.close(d, d.last)
	}
}

// Watch asks the holders every period and reads the servers' pages twice as often, until ctx ends.
func (a *Accountant) Watch(ctx context.Context, period time.Duration) {
	var wg sync.WaitGroup
	wg.Go(func() { every(ctx, period, func() { a.o.Holders.ask(ctx, period) }) })
	wg.Go(func() { a.o.Servers.watch(ctx, period/2) })
	wg.Wait()
}

// UnknownDevices counts the devices given to pods under names that are not understood, by their form
// (container.DeviceForm). Nobody is charged for holding them.
func (a *Accountant) UnknownDevices() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	out, h := map[string]int{}, a.o.Holders
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, given := range h.given {
		for _, id := range given.Unknown {
			out[container.DeviceForm(id)]++
		}
		for _, d := range given.Devices {
			if !d.Minor.IsZero() && !slices.ContainsFunc(a.devs, func(x *device) bool { return x.minor == d.Minor }) {
				out["minor number of no GPU here"]++
			}
		}
	}
	return out
}

// Sources returns what is known of the kubelet and of the MPS daemon, and the number of its servers and clients.
func (a *Accountant) Sources() (kubelet, daemon Answer, servers, clients int) {
	return a.o.Holders.state()
}

// Refused returns the number of postings that the ledger refused: a defect.
func (a *Accountant) Refused() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// Device is a GPU at present.
type Device struct {
	UUID, Name string
	Down       string            // why it does not answer; "" when it does
	Mechanism  sharing.Mechanism // of its last window
	Price      cost.Money        // of an hour; zero = none
	// Readings; what is missing was not read.
	Watts, MemUsed, MemTotal telemetry.Optional[float64]
	// Held and Slots count the devices of it that pods were given, and that are
	// offered; missing where the kubelet does not say.
	Held, Slots telemetry.Optional[int]
	// Memory holds the bytes of each tenant's processes, the zero Pod's those of no pod.
	Memory   map[container.Pod]float64
	Resident int // containers with a process on it
	// Stalled answers whether it reports kernels all the time while it draws little more than when nothing runs.
	Stalled sharing.Answer
	Unknown map[container.Reason]int // processes of no pod
}

// Devices returns the GPUs in the order of the telemetry's header.
func (a *Accountant) Devices() []Device {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]Device, len(a.devs))
	for i, d := range a.devs {
		out[i] = d.Device
		g := &out[i]
		g.Memory, g.Unknown = map[container.Pod]float64{}, map[container.Reason]int{}
		held, slots, known := a.o.Holders.of(func(dev container.Device) bool { return a.fits(d, dev) })
		if known {
			n := 0
			for _, devices := range held {
				n += len(devices)
			}
			g.Held, g.Slots = telemetry.Some(n), telemetry.Some(slots)
		}
		resident := map[container.Pod]bool{}
		for _, p := range d.listed {
			if m, ok := p.memory.Get(); ok {
				g.Memory[a.book.under(p.pod())] += float64(m)
			}
			switch {
			case p.overhead:
			case p.who.Known():
				resident[p.pod()] = true
			default:
				g.Unknown[p.who.Reason]++
			}
		}
		g.Resident = len(resident)
	}
	return out
}

// device holds what was seen of a GPU in its present window.
type device struct {
	Device // without what Devices finds out
	mig    sharing.Answer
	minor  telemetry.Optional[int]
	gap    bool // nobody has looked since another run

	begun     time.Duration // of the window
	last      time.Duration // of the last cheap reading
	util      mean
	power     mean
	whole     telemetry.Optional[float64] // the utilization of all of it
	procs     map[uint32]*process
	util1     map[uint32]float64 // by process, of the window, as shares
	measured  bool               // util1 is there
	looked    bool               // processes were listed
	instances []telemetry.Instance
	layout    []telemetry.Instance        // the last ones there were
	energy    telemetry.Optional[float64] // the counter's newest reading in this window
	energyAt  time.Duration
	ahead     float64 // joules that were posted by power since the counter was read

	// deepIdle and contextIdle are the lowest power while nothing ran, with nothing resident and with something.
	deepIdle, contextIdle telemetry.Optional[float64]
	busiest               float64 // highest mean power of a window
	// listed are the processes of the last list, which outlast the window.
	listed []*process
	list   []telemetry.Process // of which they are
}

type process struct {
	who      container.Identity
	memory   telemetry.Optional[sharing.Bytes]
	instance telemetry.Optional[int]
	overhead bool
	// fromDaemon is set where the MPS daemon named it, not the driver.
	fromDaemon bool
}

type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

func (m *mean) get() telemetry.Optional[float64] {
	if m.n == 0 {
		return telemetry.Optional[float64]{}
	}
	return telemetry.Some(m.sum / float64(m.n))
}
