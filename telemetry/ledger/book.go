// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// Other is the pod name and namespace of the row for everything without its own row. No pod in Kubernetes can have this
// name.
const Other = "(other)"

// maxOthers bounds the namespaces that have a pod Other of their own.
const maxOthers = 200

// bookOptions are options of a book.
type bookOptions struct {
	// clock names the clock of the postings: the system's boot id for the time since boot. Records that were stored
	// under another clock go on from its zero: work in between is unattributed, and time before the clock began
	// is no time of the GPU's.
	clock string
	// retain is for how long of a GPU's time a pod's row is kept after it was last posted to. 0 is a day.
	retain time.Duration
	// maxPods bounds the containers that have rows of their own at a time. The others share the pod Other of their
	// namespace, and beyond maxOthers namespaces that of the namespace Other. 0 is 1000.
	maxPods int
}

// Part is one account's part of a stretch of a GPU's time.
type Part struct {
	Account Account
	Pod     container.Pod // zero where no pod is charged
	Basis   sharing.Basis
	Time    time.Duration
	// Low and High are the bounds of Time.
	Low, High time.Duration
	// Resident is set if a program of the pod holds a context: it is charged a part of the power that contexts draw.
	Resident bool
}

// posting is the time of a GPU since its last posting.
type posting struct {
	GPU string
	// To is the end of the time, on the ledger's clock. It begins where the last posting ended; the first posting of a
	// GPU sets the beginning, and has no parts.
	To        time.Duration
	Mechanism sharing.Mechanism
	// Parts divide the time as Divide does; their sum is at most the time. What they leave over is unattributed. A part
	// of no time keeps its row from ending.
	Parts []Part
	// Microjoules is the GPU's energy in that time; missing where not known.
	Microjoules sharing.Optional[int64]
	// IdleMicrojoules is the part that the GPU would have drawn with nothing resident; it goes to all parts by time.
	// ContextMicrojoules is the draw of contexts beyond that while nothing runs; the residents pay it in equal parts.
	// The rest goes to the parts in which something ran, or where nothing did, to the residents too. 0 is not known.
	IdleMicrojoules, ContextMicrojoules int64
	// Price is the price of an hour of the GPU; the zero Money for none.
	Price cost.Money
}

// book holds the accounts. It is not safe for concurrent use.
type book struct {
	opts  bookOptions
	rows  map[Key]*row
	ended map[TotalKey]*Amount // the sums of rows that ended
	gpus  map[string]*gpu
	pods  map[container.Pod]int // rows
	// changed holds the unstored changes, by the names of records; nil for one that is deleted.
	changed map[string]any
}

type row struct {
	Amount
	// Owed is the money that the row has earned beyond Amount.Micros, in millionths times nanoseconds of an hour.
	// It is below zero for a row that was given a millionth early.
	Owed int64 `json:"owed"`
	// Last is the GPU's observed time at the last posting.
	Last time.Duration `json:"last_ns"`
}

type gpu struct {
	// Through is the end of the last posting on the clock called Clock.
	Through  time.Duration `json:"through_ns"`
	Clock    string        `json:"clock"`
	Observed time.Duration `json:"observed_ns"`
	// Owed is the sum of Owed over all rows, from 0 to below an hour.
	Owed int64 `json:"owed"`
	// Joules is the energy counter up to which energy is posted.
	Joules sharing.Optional[float64] `json:"joules,omitzero"`
	// Anew is set where the end of the last posting is not known.
	Anew bool `json:"anew,omitempty"`
}

func newBook(opts bookOptions) *book {
	opts.retain, opts.maxPods = cmp.Or(opts.retain, 24*time.Hour), cmp.Or(opts.maxPods, 1000)
	return &book{opts: opts, rows: map[Key]*row{}, ended: map[TotalKey]*Amount{}, gpus: map[string]*gpu{},
		pods: map[container.Pod]int{}, changed: map[string]any{}}
}

// listRows returns the rows in the order of their keys.
func (l *book) listRows() []Row {
	out := make([]Row, 0, len(l.rows))
	for _, k := range slices.SortedFunc(maps.Keys(l.rows), Key.compare) {
		out = append(out, Row{k, l.rows[k].Amount})
	}
	return out
}

// totals returns the sums of the rows that there are and were.
func (l *book) totals() map[TotalKey]Amount {
	sums := map[TotalKey]Amount{}
	for k, a := range l.ended {
		sums[k] = *a
	}
	for k, r := range l.rows {
		total := sums[k.total()]
		total.add(r.Amount)
		sums[k.total()] = total
	}
	return sums
}

// listTotals returns the totals in the order of their keys.
func (l *book) listTotals() []Total {
	sums := l.totals()
	out := make([]Total, 0, len(sums))
	for _, k := range slices.SortedFunc(maps.Keys(sums), TotalKey.compare) {
		out = append(out, Total{k, sums[k]})
	}
	return out
}

// observed returns the time that each GPU was observed, which its totals add up to.
func (l *book) observed() map[string]time.Duration {
	out := make(map[string]time.Duration, len(l.gpus))
	for name, g := range l.gpus {
		out[name] = g.Observed
	}
	return out
}

// expire ends the rows of pods without a posting for the time of bookOptions.retain, in time of their GPU, and
// returns their keys. The totals stay.
func (l *book) expire() (ended []Key) {
	for k, r := range l.rows {
		if k.Pod == (container.Pod{}) || l.gpus[k.GPU].Observed-r.Last < l.opts.retain {
			continue
		}
		ended = append(ended, k)
		l.end(k.total(), r.Amount)
		l.changed[recordName(k)] = nil
		delete(l.rows, k)
		if l.pods[k.Pod]--; l.pods[k.Pod] == 0 {
			delete(l.pods, k.Pod)
		}
	}
	return ended
}

// through returns where a GPU's last posting ended, and whether it had one.
func (l *book) through(name string) (time.Duration, bool) {
	if g := l.gpus[name]; g != nil && !g.Anew {
		return g.Through, true
	}
	return 0, false
}

// post posts a GPU's time since its last posting, unless the clock went back.
func (l *book) post(in posting) {
	through, begun := l.through(in.GPU)
	length := in.To - through
	if begun && (length < 0 || length == 0 && len(in.Parts) == 0) {
		return
	}
	g := l.gpus[in.GPU]
	if g == nil {
		g = &gpu{}
		l.gpus[in.GPU] = g
	}
	g.Through = in.To
	l.changed[recordName(in.GPU)] = g
	if !begun {
		g.Clock, g.Anew = l.opts.clock, false
		return
	}
	lines := l.lines(&in, length)
	g.Observed += length
	spendEnergy(&in, lines)
	spendMoney(g, &in, lines)
	for _, x := range lines {
		x.row.Amount.add(x.amount)
		x.row.Last = g.Observed
		l.changed[recordName(x.key)] = x.row
	}
}

// end adds an amount to the sum of rows that ended.
func (l *book) end(k TotalKey, a Amount) {
	if l.ended[k] == nil {
		l.ended[k] = &Amount{}
	}
	l.ended[k].add(a)
	l.changed[recordName(k)] = l.ended[k]
}

// maxPrice keeps a price's product with a nanosecond's part within 64 bits: a million units an hour.
const maxPrice = 1e12

func checkPrice(p cost.Money) error {
	if p.Sign() < 0 || p.Micros() > maxPrice {
		return fmt.Errorf("%w: a price of %v an hour (use 0 to %d millionths)", errInput, p, int64(maxPrice))
	}
	return nil
}

// line is one row's part of a posting.
type line struct {
	key      Key
	row      *row
	amount   Amount
	resident bool
}

// lines joins the parts by row, adds the unattributed rest, and finds the rows. The order is that of the keys.
func (l *book) lines(in *posting, length time.Duration) []line {
	byKey := map[Key]line{}
	left := length
	add := func(k Key, a Amount, resident bool) {
		x := byKey[k]
		x.amount.add(a)
		x.resident = x.resident || resident
		byKey[k] = x
	}
	for _, p := range in.Parts {
		k := Key{in.GPU, cmp.Or(p.Account, accountUnattributed), l.under(p.Pod.Clean()), in.Mechanism, p.Basis}
		l.pods[k.Pod] += 0 // it has a place from now on
		add(k, Amount{Time: p.Time, Low: p.Low, High: p.High}, p.Resident)
		left -= p.Time
	}
	if left > 0 {
		rest := Amount{Time: left, Low: left, High: left}
		add(Key{GPU: in.GPU, Account: accountUnattributed, Mechanism: in.Mechanism}, rest, false)
	}
	out := make([]line, 0, len(byKey))
	for _, k := range slices.SortedFunc(maps.Keys(byKey), Key.compare) {
		x := byKey[k]
		if x.key, x.row = k, l.rows[k]; x.row == nil {
			x.row = &row{}
			l.rows[k] = x.row
			l.pods[k.Pod]++
		}
		out = append(out, x)
	}
	return out
}

// under returns the pod under which one is posted: itself, or Other in its place.
func (l *book) under(p container.Pod) container.Pod {
	other := container.Pod{Namespace: p.Namespace, Name: Other}
	if _, there := l.pods[p]; there || p == (container.Pod{}) || len(l.pods) < l.opts.maxPods {
		return p
	}
	if _, there := l.pods[other]; there || len(l.pods) < l.opts.maxPods+maxOthers {
		return other
	}
	return container.Pod{Namespace: Other, Name: Other}
}

// spendEnergy divides the energy of a posting as its fields say.
func spendEnergy(in *posting, lines []line) {
	left := in.Microjoules.Or(0)
	// spend divides an energy by weights, and answers false where no line has any.
	spend := func(microjoules int64, weight func(x *line) int64) (any bool) {
		by := make([]int64, len(lines))
		for i := range lines {
			by[i] = weight(&lines[i])
			any = any || by[i] > 0
		}
		for i, v := range cost.Apportion(min(microjoules, left), by) {
			lines[i].amount.Microjoules += v
			left -= v
		}
		return any
	}
	byTime := func(x *line) int64 { return int64(x.amount.Time) }
	resident := func(x *line) int64 {
		if x.resident {
			return 1
		}
		return 0
	}
	ran := func(x *line) int64 {
		switch x.key.Account {
		case accountTenant, accountOverhead, accountUnattributed:
			return int64(x.amount.Time)
		}
		return 0
	}
	spend(in.IdleMicrojoules, byTime)
	spend(in.ContextMicrojoules, resident)
	if !spend(left, ran) && (in.IdleMicrojoules == 0 || !spend(left, resident)) {
		spend(left, byTime)
	}
}

// spendMoney divides the price of a posting's time. Each row gets whole millionths; the rest is owed to it. What
// the rows are owed together comes to whole millionths now and then, which go to those that are owed most.
func spendMoney(g *gpu, in *posting, lines []line) {
	const hour = int64(time.Hour)
	price := uint64(in.Price.Micros())
	if price == 0 {
		return
	}
	for i := range lines {
		hi, lo := bits.Mul64(price, uint64(lines[i].amount.Time))
		q, rest := bits.Div64(hi, lo, uint64(hour)) // hi < hour, see maxPrice
		lines[i].amount.Micros = int64(q)
		lines[i].row.Owed += int64(rest)
		g.Owed += int64(rest)
	}
	for ; g.Owed >= hour; g.Owed -= hour {
		most := slices.MaxFunc(lines, func(a, b line) int { return cmp.Compare(a.row.Owed, b.row.Owed) })
		i := slices.IndexFunc(lines, func(x line) bool { return x.row == most.row })
		lines[i].amount.Micros++
		lines[i].row.Owed -= hour
	}
}

// The names of records begin with their kind; the rest of the name is a key as JSON. A record that could not be read is
// kept under asidePrefix, for people only.
const (
	rowPrefix   = "row "
	endedPrefix = "ended "
	gpuPrefix   = "gpu "
	asidePrefix = "aside "
)

// recordName names the record of a row, of rows that ended or of a GPU by its key.
func recordName(key any) string {
	prefix := gpuPrefix
	switch key.(type) {
	case Key:
		prefix = rowPrefix
	case TotalKey:
		prefix = endedPrefix
	}
	b, _ := json.Marshal(key) // structs of strings and enumerations that have texts
	return prefix + string(b)
}
