package account

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
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
	Holders  *Holders // nil: nobody is asked who holds what
	Servers  *Servers // nil: no page is read
	// Price returns the price of a GPU's hour by its UUID and name; nil is no price.
	Price func(uuid, name string) cost.Money
	// Basis is the basis of the readings; with BasisSimulated every account has it.
	Basis  sharing.Basis
	Logger *slog.Logger // nil discards
	// Fast and Slow are the periods of cheap and of costly readings on the clock.
	Fast, Slow time.Duration
	// Records are those that Changes returned to another run.
	Records []ledger.Record
}

// Accountant turns samples into postings. It is a telemetry.Sink: a window of a GPU's time ends with its costly
// readings, and when they don't come, by Tick. It is safe for concurrent use.
type Accountant struct {
	clock    Clock
	resolver *container.Resolver
	holders  *Holders
	servers  *Servers
	price    func(uuid, name string) cost.Money
	basis    sharing.Basis
	log      *slog.Logger
	// fast and slow are the periods on the ledger's clock.
	fast, slow time.Duration

	mu   sync.Mutex
	book *ledger.Ledger
	// counters are the energy counters up to which energy is posted, in joules,
	// as they are stored; changed are those since.
	counters map[string]float64
	changed  map[string]float64
	aside    []ledger.Record // of records that cannot be read, to be stored
	devs     []*device
	refused  int // postings that the ledger refused: a defect
}

// metaEnergy begins the name of the record of a GPU's energy counter.
const metaEnergy = "energy "

// metaAside begins the name of a record that could not be read. Nothing reads it again but people.
const metaAside = "aside "

// New returns an accountant that goes on with the accounts of o.Records.
func New(o Options) (*Accountant, error) {
	a := &Accountant{
		clock: o.Clock, resolver: o.Resolver, holders: o.Holders, servers: o.Servers, price: o.Price, basis: o.Basis,
		log: o.Logger, fast: o.Fast, slow: o.Slow, counters: map[string]float64{}, changed: map[string]float64{},
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.holders == nil {
		a.holders = NewHolders(nil, nil, a.log)
	}
	if a.servers == nil {
		a.servers = NewServers(nil, a.log)
	}
	if a.price == nil {
		a.price = func(string, string) cost.Money { return cost.Money{} }
	}
	var kept []ledger.Record
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
	a.servers.restore(tokens)
	book, more, err := ledger.Restore(ledger.Options{Clock: a.clock.Name}, slices.Values(kept))
	if err != nil {
		return nil, fmt.Errorf("account: %w", err)
	}
	a.book = book
	maps.Copy(unread, more)
	for _, r := range o.Records {
		if err := unread[r.Name]; err != nil {
			a.log.Error("a record cannot be read; it is set aside, and counts from zero",
				"record", r.Name, "as", metaAside+r.Name, "err", err)
			a.aside = append(a.aside, ledger.Record{Name: metaAside + r.Name, Value: r.Value}, ledger.Record{Name: r.Name})
		}
	}
	return a, nil
}

// View holds accounts that may be shown once the records that came with them are stored.
type View struct {
	Rows     []ledger.Row
	Totals   []ledger.Total
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
	return View{Rows: a.book.Rows(), Totals: a.book.Totals(), Observed: a.book.GPUs(), Tokens: a.servers.totals()}
}

// Changes ends the rows of pods that are long gone, and returns their number, the records to be stored, and the
// view that may be shown once they are; no record where nothing has changed.
func (a *Accountant) Changes() (expired int, records []ledger.Record, v View, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	expired = len(a.book.Expire())
	records, err = a.book.Changed()
	if err == nil {
		a.book.Stored()
	}
	for gpu, joules := range a.changed {
		v := strconv.AppendFloat(nil, joules, 'g', -1, 64)
		records = append(records, ledger.Record{Name: metaEnergy + gpu, Value: v})
	}
	clear(a.changed)
	records, a.aside = append(records, a.aside...), nil
	if records = append(records, a.servers.changes()...); len(records) > 0 {
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
	wg.Go(func() { every(ctx, period, func() { a.holders.ask(ctx, period) }) })
	wg.Go(func() { a.servers.watch(ctx, period/2) })
	wg.Wait()
}

// Sources returns what is known of the kubelet and of the MPS daemon, and the number of its servers and clients.
func (a *Accountant) Sources() (kubelet, daemon Answer, servers, clients int) {
	return a.holders.state()
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
	Resident int                      // containers with a process on it
	Unknown  map[container.Reason]int // processes of no pod
}

// Devices returns the GPUs in the order of the telemetry's header.
func (a *Accountant) Devices() []Device {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]Device, len(a.devs))
	for i, d := range a.devs {
		g := &out[i]
		*g = Device{
			UUID: d.uuid, Name: d.name, Down: d.down, Mechanism: d.mechanism, Price: d.price, Watts: d.watts,
			MemUsed: d.memUsed, MemTotal: d.memTotal, Memory: map[container.Pod]float64{}, Unknown: map[container.Reason]int{},
		}
		held, slots, known := a.holders.of(func(dev container.Device) bool { return a.fits(d, dev) })
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
				g.Memory[a.book.Under(p.pod())] += float64(m)
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
	uuid, name string
	mig        sharing.Answer
	down       string // the reason, "" while it is up
	gap        bool   // nobody has looked since another run
	price      cost.Money

	begun     time.Duration // of the window
	last      time.Duration // of the last cheap reading
	util      mean
	power     mean
	whole     telemetry.Optional[float64] // the utilization of all of it
	procs     map[uint32]*process
	util1     map[uint32]float64 // by process, of the window, as shares
	measured  bool               // util1 is there
	instances []telemetry.Instance
	layout    []telemetry.Instance        // the last ones there were
	energy    telemetry.Optional[float64] // the counter's newest reading in this window
	energyAt  time.Duration
	ahead     float64 // joules that were posted by power since the counter was read

	deepIdle  telemetry.Optional[float64] // lowest power with nothing resident
	mechanism sharing.Mechanism
	memUsed   telemetry.Optional[float64]
	memTotal  telemetry.Optional[float64]
	watts     telemetry.Optional[float64]
	// listed are the processes of the last list, which outlast the window.
	listed []*process
	list   []telemetry.Process // of which they are
}

// process is a process in a window.
type process struct {
	who      container.Identity
	memory   telemetry.Optional[sharing.Bytes]
	instance telemetry.Optional[int]
	overhead bool
	// fromDaemon says that the MPS daemon named it, not the driver.
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

// Begin takes the devices. What a GPU that was known before did since then is unattributed: nobody looked.
func (a *Accountant) Begin(h telemetry.Header) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	a.devs = nil
	for _, d := range h.Devices {
		price := a.price(d.UUID, d.Name)
		dev := &device{uuid: d.UUID, name: d.Name, mig: d.MIG, price: price, begun: now, last: now}
		dev.reset(now)
		a.devs = append(a.devs, dev)
		if _, dev.gap = a.book.Through(d.UUID); !dev.gap {
			a.post(dev, ledger.Interval{GPU: d.UUID, To: now})
		}
	}
	return nil
}

func (d *device) reset(now time.Duration) {
	d.begun, d.util, d.power = now, mean{}, mean{}
	d.procs, d.util1, d.measured = map[uint32]*process{}, map[uint32]float64{}, false
	d.energy, d.instances, d.whole = telemetry.Optional[float64]{}, nil, telemetry.Optional[float64]{}
}

// Sample takes a sample.
func (a *Accountant) Sample(x *telemetry.Sample) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.devs[x.Device]
	now := a.clock.Now()
	if x.Groups&telemetry.GroupsFast != 0 {
		if now-d.last > max(3*a.fast, a.slow/2) {
			a.close(d, d.last) // what was seen until then
			a.close(d, now)    // and what nobody saw
		}
		d.last = now
		a.cheap(d, x)
		return nil
	}
	switch {
	case x.Groups.Has(telemetry.GroupGPM):
		d.instances, d.layout = x.Instances, x.Instances
	case x.Groups.Has(telemetry.GroupProcessUtil):
		d.measured = true
		if v, ok := x.Get(telemetry.MetricGPUUtilPercent); ok { // of the whole window
			d.whole = telemetry.Some(min(v/100, 1))
		}
		for i := range x.Processes {
			p := &x.Processes[i]
			if v, ok := p.SMUtilPercent.Get(); ok {
				d.util1[p.PID] = min(v/100, 1)
			}
		}
	}
	if v, ok := x.Get(telemetry.MetricEnergyJoules); ok {
		d.energy, d.energyAt = telemetry.Some(v), now
		if _, known := a.counters[d.uuid]; !known {
			a.counters[d.uuid], a.changed[d.uuid] = v, v
		}
	} else if d.energyAt > 0 && x.Groups.Has(telemetry.GroupEnergy) { // the counter holds
		d.energyAt = now
	}
	if a.complete(d, x, now) {
		a.close(d, now)
		a.forget()
	}
	return nil
}

// complete reports that a costly reading ends the window: the last one that the
// device gives, which is the energy counter, or what its mechanism needs.
func (a *Accountant) complete(d *device, x *telemetry.Sample, now time.Duration) bool {
	_, counted := a.counters[d.uuid]
	switch {
	case d.gap && counted: // its energy is the gap's
		return x.Groups.Has(telemetry.GroupEnergy)
	case d.energyAt > 0 && now-d.energyAt < 3*a.slow:
		return x.Groups.Has(telemetry.GroupEnergy)
	case d.mig == sharing.AnswerYes:
		return x.Groups.Has(telemetry.GroupGPM)
	}
	return x.Groups.Has(telemetry.GroupProcessUtil)
}

// cheap takes the readings of the fast clock.
func (a *Accountant) cheap(d *device, x *telemetry.Sample) {
	if v, ok := x.Get(telemetry.MetricGPUUtilPercent); ok {
		d.util.add(min(v/100, 1))
	}
	get := func(m telemetry.Metric) telemetry.Optional[float64] {
		if v, ok := x.Get(m); ok {
			return telemetry.Some(v)
		}
		return telemetry.Optional[float64]{}
	}
	d.watts = get(telemetry.MetricPowerWatts)
	d.memUsed, d.memTotal = get(telemetry.MetricMemUsedBytes), get(telemetry.MetricMemTotalBytes)
	if v, ok := d.watts.Get(); ok {
		d.power.add(v)
	}
	if !x.Groups.Has(telemetry.GroupProcesses) {
		return
	}
	processes := a.withClients(x.Processes)
	if !slices.EqualFunc(processes, d.list, sameProcess) {
		d.list, d.listed = processes, nil
		a.identify(d)
	}
	for _, p := range d.listed {
		if d.procs[p.who.PID] == nil { // a window has begun
			d.procs[p.who.PID] = p
		}
	}
	if u, ok := x.Get(telemetry.MetricGPUUtilPercent); ok && u == 0 && len(processes) == 0 {
		if v, ok := d.watts.Get(); ok {
			d.deepIdle = telemetry.Some(min(v, d.deepIdle.Or(v)))
		}
	}
}

// identify finds whose the listed processes are. It is done where the list has
// changed and at the end of each window, which shows an id that was used again
// meanwhile: asking the system every second would cost more than the driver does.
func (a *Accountant) identify(d *device) {
	pids := make([]uint32, len(d.list))
	for i := range d.list {
		pids[i] = d.list[i].PID
	}
	d.listed = nil
	for i, id := range a.resolver.Resolve(pids...) {
		p := &d.list[i]
		q := d.procs[id.PID]
		switch {
		case q == nil:
			q = &process{who: id}
			d.procs[id.PID] = q
		case id.Reason == container.ReasonReused, q.who.Reason == container.ReasonReused:
			q.who.Reason = container.ReasonReused // until the window ends
		case !q.who.Known():
			q.who = id
		}
		q.memory, q.instance, q.fromDaemon = p.Memory, p.GPUInstance, p.Name == mpsClient
		q.overhead = a.holders.isServer(p.PID, p.Name)
		d.listed = append(d.listed, q)
	}
}

func sameProcess(a, b telemetry.Process) bool {
	return a.PID == b.PID && a.Name == b.Name && a.Memory == b.Memory && a.GPUInstance == b.GPUInstance
}

// withClients adds the clients that the MPS daemon has for a server in the list
// and that no GPU's list has: a driver may list the server alone.
func (a *Accountant) withClients(list []telemetry.Process) []telemetry.Process {
	there := map[uint32]bool{}
	for _, p := range list {
		there[p.PID] = true
	}
	for _, d := range a.devs {
		for pid, p := range d.procs {
			there[pid] = there[pid] || !p.fromDaemon
		}
	}
	out := slices.Clone(list)
	for _, p := range list {
		for _, client := range a.holders.clientsOf(p.PID) {
			if pid := uint32(client); !there[pid] {
				there[pid] = true
				out = append(out, telemetry.Process{PID: pid, Name: mpsClient})
			}
		}
	}
	return out
}

// mpsClient is the name of processes that only the MPS daemon knows.
const mpsClient = "client of the MPS daemon"

// forget drops processes that no window has any more.
func (a *Accountant) forget() {
	var pids []uint32
	for _, d := range a.devs {
		for _, p := range d.listed {
			pids = append(pids, p.who.PID)
		}
		for pid := range d.procs {
			pids = append(pids, pid)
		}
	}
	a.resolver.Keep(pids...)
}

// Event notes which devices are down.
func (a *Accountant) Event(e telemetry.Event) error {
	index, ok := e.Device.Get()
	if !ok {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.devs[index]
	switch e.Kind {
	case telemetry.EventLost, telemetry.EventHung, telemetry.EventFailing:
		a.close(d, d.last)
		d.down = e.Kind.String()
		d.list, d.listed = nil, nil
		d.memUsed, d.watts = telemetry.Optional[float64]{}, telemetry.Optional[float64]{}
	case telemetry.EventBack:
		d.last = a.clock.Now()
		a.close(d, d.last)
		d.down = ""
	}
	return nil
}

// Tick ends windows that no costly reading ended: those of devices that are
// down, or that have none of the readings.
func (a *Accountant) Tick() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	for _, d := range a.devs {
		switch {
		case d.down != "":
			a.close(d, now)
		case now-d.begun > 2*a.slow:
			a.close(d, min(now, max(d.last, d.begun)))
			if now-d.last > max(3*a.fast, a.slow/2) {
				a.close(d, now)
			}
		}
	}
}

// close posts a device's time up to now; a.mu is held.
func (a *Accountant) close(d *device, now time.Duration) {
	through, _ := a.book.Through(d.uuid)
	length := now - through
	if length <= 0 {
		return
	}
	a.identify(d)
	w := a.window(d, length)
	parts, err := ledger.Divide(w)
	if err != nil {
		a.refuse(d, err)
		parts = nil
	}
	for i := range parts {
		if a.basis == sharing.BasisSimulated {
			parts[i].Basis = a.basis
		}
	}
	parts = slices.DeleteFunc(parts, func(p ledger.Part) bool { return p.High == 0 })
	in := ledger.Interval{GPU: d.uuid, To: now, Mechanism: w.Mechanism, Parts: parts, Price: d.price}
	in.Microjoules = a.spent(d, length)
	if v, ok := d.deepIdle.Get(); ok {
		in.IdleMicrojoules = int64(v * length.Seconds() * 1e6)
	}
	d.mechanism, d.gap = w.Mechanism, false
	a.post(d, in)
	d.reset(now)
	if slices.ContainsFunc(d.listed, func(p *process) bool { return p.who.Reason == container.ReasonReused }) {
		d.list = nil // the next list says whose it is now
	}
}

func (a *Accountant) post(d *device, in ledger.Interval) {
	if err := a.book.Post(in); err != nil {
		a.refuse(d, err)
	}
}

func (a *Accountant) refuse(d *device, err error) {
	a.refused++
	a.log.Error("a posting was refused", "gpu", d.uuid, "err", err)
}

// maxWatts is more than any board draws: a counter that rose faster lies.
const maxWatts = 20e3

// spent is the energy since the last posting: the counter's, or where it was not read, or is not to be believed,
// the power's over the time. What the power said is taken off the counter's next reading.
func (a *Accountant) spent(d *device, length time.Duration) ledger.Optional[int64] {
	byPower := ledger.Optional[int64]{}
	if v, ok := d.power.get().Get(); ok {
		byPower = ledger.Some(int64(v * length.Seconds() * 1e6))
	}
	now, ok := d.energy.Get()
	before, counted := a.counters[d.uuid]
	if !ok && counted && d.gap { // the next reading has it
		return ledger.Optional[int64]{}
	}
	if !ok {
		if v, ok := byPower.Get(); ok && counted {
			d.ahead += float64(v) / 1e6
			a.counters[d.uuid], a.changed[d.uuid] = before+float64(v)/1e6, before+float64(v)/1e6
		}
		return byPower
	}
	if now < before && before-now <= d.ahead { // the power said too much
		d.ahead = before - now
		return ledger.Some(int64(0))
	}
	d.ahead = 0
	a.counters[d.uuid], a.changed[d.uuid] = now, now
	if now < before { // the driver was loaded anew
		before = 0
	}
	if now-before > maxWatts*length.Seconds() {
		return byPower
	}
	return ledger.Some(int64(math.Round(now*1e6)) - int64(math.Round(before*1e6)))
}
