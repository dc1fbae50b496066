package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// Defaults of bookOptions.
const (
	DefaultRetain  = 24 * time.Hour
	DefaultMaxPods = 1000
)

// Other is the name of the pod, and of the namespace, to which everything goes that
// has no row of its own any more. Kubernetes gives it to nobody.
const Other = "(other)"

// maxOthers bounds the namespaces that have a pod Other of their own.
const maxOthers = 200

// bookOptions are options of New and Restore.
type bookOptions struct {
	// Clock names the clock that Post's times are read from: the system's boot id for the time since boot. Restored
	// records that were stored under another clock go on from its zero: what ran meanwhile is unattributed, and
	// time before the clock began is no time of the GPU's.
	clock string
	// Retain is for how long of a GPU's time a pod's row is kept after it was last posted to. 0 is DefaultRetain.
	retain time.Duration
	// MaxPods bounds the containers that have rows of their own at a time. The others share the pod Other of their
	// namespace, and beyond 200 namespaces that of the namespace Other. 0 is DefaultMaxPods.
	maxPods int
}

// Part is one account's part of a stretch of a GPU's time.
type Part struct {
	Account Account
	Pod     container.Pod // zero for what is no pod's
	Basis   sharing.Basis
	Time    time.Duration
	// Low and High are the bounds of Time.
	Low, High time.Duration
	// Resident is set where a program of the pod holds a context: it pays a part of the power that contexts draw.
	Resident bool
}

// posting is the time of a GPU since its last posting.
type posting struct {
	GPU string
	// To is the end of the time, on the ledger's clock. It begins where the
	// last posting ended; the first posting of a GPU only says where it begins.
	To        time.Duration
	Mechanism sharing.Mechanism
	// Parts divide the time; their sum is at most the time. What they
	// leave over is unattributed. A part of no time keeps its row from ending.
	Parts []Part
	// Microjoules is the GPU's energy in that time; missing where not known.
	Microjoules Optional[int64]
	// IdleMicrojoules is the part that the GPU would have drawn with nothing resident; it goes to all parts by time.
	// ContextMicrojoules is what contexts draw beyond that while nothing runs; the residents pay it in equal parts.
	// The rest goes to the parts in which something ran, or where nothing did, to the residents too. 0 is not known.
	IdleMicrojoules, ContextMicrojoules int64
	// Price is the price of an hour of the GPU; the zero Money for none.
	Price cost.Money
}

// Ledger holds the accounts. It is not safe for concurrent use.
type book struct {
	opts   bookOptions
	rows   map[Key]*row
	totals map[TotalKey]*Amount
	gpus   map[string]*gpu
	pods   map[container.Pod]int // rows
	// changed holds, since Stored, the rows, totals and GPUs that changed, by their keys; nil for one that went.
	changed map[any]any
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
	// Owed is the sum of what all rows are owed, from 0 to below an hour.
	Owed int64 `json:"owed"`
	// Anew says that nobody knows up to when it was posted.
	Anew bool `json:"anew,omitempty"`
}

// New returns an empty ledger.
func newBook(opts bookOptions) *book {
	opts.retain = cmp.Or(opts.retain, DefaultRetain)
	opts.maxPods = cmp.Or(opts.maxPods, DefaultMaxPods)
	return &book{opts: opts, rows: map[Key]*row{}, totals: map[TotalKey]*Amount{}, gpus: map[string]*gpu{},
		pods: map[container.Pod]int{}, changed: map[any]any{}}
}

// Through returns where a GPU's last posting ended, and whether it had one.
func (l *book) through(name string) (time.Duration, bool) {
	if g := l.gpus[name]; g != nil && !g.Anew {
		return g.Through, true
	}
	return 0, false
}

// Post posts a GPU's time since its last posting. It is an ErrInput, and nothing is posted, where the time goes
// back, a part is negative or outside of its bounds, or the parts are more than the time.
func (l *book) post(in posting) error {
	if err := l.check(&in); err != nil {
		return err
	}
	g := l.gpus[in.GPU]
	through, begun := l.through(in.GPU)
	if !begun {
		if g == nil {
			g = &gpu{}
			l.gpus[in.GPU] = g
		}
		g.Through, g.Clock, g.Anew = in.To, l.opts.clock, false
		l.changed[in.GPU] = g
		return nil
	}
	length := in.To - through
	if length == 0 && len(in.Parts) == 0 {
		return nil
	}
	lines := l.lines(&in, length)
	g.Through, g.Observed = in.To, g.Observed+length
	l.changed[in.GPU] = g
	l.spend(g, &in, lines)
	for _, x := range lines {
		x.row.Amount.add(x.amount)
		x.row.Last = g.Observed
		l.changed[x.key] = x.row
		l.addTotal(TotalKey{x.key.GPU, x.key.Account, x.key.Namespace}, x.amount)
	}
	return nil
}

func (l *book) addTotal(k TotalKey, a Amount) {
	t := l.totals[k]
	if t == nil {
		t = &Amount{}
		l.totals[k] = t
	}
	t.add(a)
	l.changed[k] = t
}

func (l *book) check(in *posting) error {
	var probs problem.List
	probs.If(in.GPU == "", "gpu", "name the GPU", "it is empty")
	length := time.Duration(0)
	if through, begun := l.through(in.GPU); begun {
		length = in.To - through
		probs.If(length < 0, "to", "read one clock that never goes back", "%v lies before %v", in.To, through)
		left := length
		for i, p := range in.Parts {
			at := fmt.Sprintf("parts[%d]", i)
			probs.If(p.Low < 0 || p.Low > p.Time || p.Time > p.High, at, "give bounds around the time",
				"%v is not between %v and %v", p.Time, p.Low, p.High)
			if length >= 0 && p.Time > left {
				probs.Addf(at, "divide no more than there is", "the parts are more than the %v since the last posting", length)
				break
			}
			left -= p.Time
		}
	} else {
		probs.If(len(in.Parts) > 0, "parts", "post the GPU without parts first, to say when its time begins",
			"a GPU that is new has no time to divide")
	}
	e := in.Microjoules.Or(0)
	probs.If(e < 0 || in.IdleMicrojoules < 0 || in.ContextMicrojoules < 0, "microjoules", "give 0 or more",
		"an energy below zero")
	probs.If(in.Price.Sign() < 0 || in.Price.Micros() > maxPrice, "price",
		fmt.Sprintf("give 0 to %d millionths an hour", int64(maxPrice)), "%v an hour", in.Price)
	if err := probs.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	return nil
}

// maxPrice keeps a price's product with a nanosecond's part within 64 bits: a million units an hour.
const maxPrice = 1e12

// line is one row's part of a posting.
type line struct {
	key      Key
	row      *row
	amount   Amount
	resident bool
}

// lines joins the parts by row, adds what they leave over, and finds the rows. The order is that of the keys.
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
		k := Key{in.GPU, p.Account, l.under(p.Pod.Clean()), in.Mechanism, p.Basis}
		l.pods[k.Pod] += 0 // it has a place from now on
		add(k, Amount{Time: p.Time, Low: p.Low, High: p.High}, p.Resident)
		left -= p.Time
	}
	if left > 0 {
		k := Key{GPU: in.GPU, Account: AccountUnattributed, Mechanism: in.Mechanism}
		add(k, Amount{Time: left, Low: left, High: left}, false)
	}
	out := make([]line, 0, len(byKey))
	for _, k := range slices.SortedFunc(maps.Keys(byKey), compareKeys) {
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

// Under returns the pod under which one is posted: itself, or the Other that stands for it.
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

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Account, b.Account), a.Pod.Compare(b.Pod),
		cmp.Compare(a.Mechanism, b.Mechanism), cmp.Compare(a.Basis, b.Basis))
}

// spendEnergy divides the energy of a posting.
func spendEnergy(in *posting, lines []line) {
	left, known := in.Microjoules.Get()
	if !known {
		return
	}
	weights := func(of func(x *line) int64) (out []int64, any bool) {
		out = make([]int64, len(lines))
		for i := range lines {
			out[i] = of(&lines[i])
			any = any || out[i] > 0
		}
		return out, any
	}
	spend := func(microjoules int64, by []int64) {
		for i, v := range cost.Apportion(microjoules, by) {
			lines[i].amount.Microjoules += v
			left -= v
		}
	}
	all, _ := weights(func(x *line) int64 { return int64(x.amount.Time) })
	resident, anyResident := weights(func(x *line) int64 {
		if x.resident {
			return 1
		}
		return 0
	})
	ran, anyRan := weights(func(x *line) int64 {
		switch x.key.Account {
		case AccountTenant, AccountOverhead, AccountUnattributed:
			return int64(x.amount.Time)
		}
		return 0
	})
	spend(min(in.IdleMicrojoules, left), all)
	if anyResident {
		spend(min(in.ContextMicrojoules, left), resident)
	}
	switch {
	case anyRan:
		spend(left, ran)
	case anyResident && in.IdleMicrojoules > 0:
		spend(left, resident)
	default:
		spend(left, all)
	}
}

// spend divides the energy and the money of a posting.
func (l *book) spend(g *gpu, in *posting, lines []line) {
	spendEnergy(in, lines)
	price := uint64(in.Price.Micros())
	if price == 0 {
		return
	}
	// Each row gets whole millionths; what is left is owed to it. What the rows are owed together comes to whole
	// millionths now and then, which go to those that are owed most.
	const hour = uint64(time.Hour)
	for i := range lines {
		hi, lo := bits.Mul64(price, uint64(lines[i].amount.Time))
		q, rest := bits.Div64(hi, lo, hour) // hi < hour, see maxPrice
		lines[i].amount.Micros = int64(q)
		lines[i].row.Owed += int64(rest)
		g.Owed += int64(rest)
	}
	for ; g.Owed >= int64(hour); g.Owed -= int64(hour) {
		most := 0
		for i := range lines {
			if lines[i].row.Owed > lines[most].row.Owed {
				most = i
			}
		}
		lines[most].amount.Micros++
		lines[most].row.Owed -= int64(hour)
	}
}
