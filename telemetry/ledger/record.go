package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"time"
)

// Record is a piece of a ledger as it is stored: under a name that is text.
type Record struct {
	Name string
	// Value is JSON, or nil for a record that is to be deleted.
	Value []byte
}

// The names of records begin with what they are; the rest is the key as JSON.
const (
	rowPrefix   = "row "
	totalPrefix = "total "
	gpuPrefix   = "gpu "
)

func name(prefix string, key any) string {
	b, _ := json.Marshal(key) // structs of strings and enumerations that have texts
	return prefix + string(b)
}

func rowName(k Key) string { return name(rowPrefix, k) }

// Changed returns the records that changed since Stored was last called. Store
// them together, all or none; then call Stored.
func (l *Ledger) Changed() ([]Record, error) {
	var out []Record
	var errs []error
	add := func(name string, v any) {
		b, err := json.Marshal(v)
		errs = append(errs, err)
		out = append(out, Record{name, b})
	}
	for _, n := range l.gone {
		out = append(out, Record{Name: n})
	}
	for k, r := range l.rows {
		if r.dirty {
			add(rowName(k), r)
		}
	}
	for k, t := range l.totals {
		if t.dirty {
			add(name(totalPrefix, k), t.Amount)
		}
	}
	for k, g := range l.gpus {
		if g.dirty {
			add(name(gpuPrefix, k), g)
		}
	}
	return out, errors.Join(errs...)
}

// Stored says that what Changed returned last is stored. Nothing may be posted in between.
func (l *Ledger) Stored() {
	l.gone = nil
	for _, r := range l.rows {
		r.dirty = false
	}
	for _, t := range l.totals {
		t.dirty = false
	}
	for _, g := range l.gpus {
		g.dirty = false
	}
}

// Restore reads a ledger back from its records, in any order. A record that cannot be read is left aside, and
// unread says why by its name: set it aside where you keep them. What a total had beyond its rows is then
// unattributed time, energy and money of it are lost, and a GPU begins anew with its next posting. Records that
// contradict each other are an ErrInput that names every problem.
func Restore(opts Options, records iter.Seq[Record]) (l *Ledger, unread map[string]error, err error) {
	l, unread = New(opts), map[string]error{}
	for r := range records {
		if err := l.read(r); err != nil {
			unread[r.Name] = err
		}
	}
	if len(unread) > 0 {
		l.mend()
	}
	if err := l.audit(); err != nil {
		return nil, nil, err
	}
	for _, g := range l.gpus {
		if g.Clock != opts.Clock {
			g.Clock, g.Through, g.dirty = opts.Clock, 0, true
		}
	}
	return l, unread, nil
}

// mend closes the gaps that missing records leave, and none but gaps.
func (l *Ledger) mend() {
	know := func(name string) {
		if l.gpus[name] == nil {
			l.gpus[name] = &gpu{Anew: true, dirty: true}
		}
	}
	for k, a := range l.perTotal() {
		know(k.GPU)
		t := l.totals[k]
		if t == nil {
			t = &total{}
			l.totals[k] = t
			t.Amount, t.dirty = a, true
		}
	}
	times := map[string]time.Duration{}
	for k, t := range l.totals {
		know(k.GPU)
		times[k.GPU] += t.Time
	}
	for name, g := range l.gpus {
		if missing := g.Observed - times[name]; g.Anew {
			g.Observed = times[name]
		} else if missing > 0 {
			k := TotalKey{GPU: name}
			if l.totals[k] == nil {
				l.totals[k] = &total{}
			}
			l.totals[k].add(Amount{Time: missing, Low: missing, High: missing})
			l.totals[k].dirty = true
		}
	}
}

func (l *Ledger) read(r Record) error {
	prefix, key, _ := bytes.Cut([]byte(r.Name), []byte(" "))
	decode := func(data []byte, v any) error {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		return d.Decode(v)
	}
	switch string(prefix) + " " {
	case rowPrefix:
		var k Key
		v := &row{}
		if err := errors.Join(decode(key, &k), decode(r.Value, v), v.check()); err != nil {
			return err
		}
		l.rows[k] = v
		l.pods[k.Pod]++
	case totalPrefix:
		var k TotalKey
		v := &total{}
		if err := errors.Join(decode(key, &k), decode(r.Value, &v.Amount), v.check()); err != nil {
			return err
		}
		l.totals[k] = v
	case gpuPrefix:
		var k string
		v := &gpu{}
		err := errors.Join(decode(key, &k), decode(r.Value, v),
			Amount{Time: v.Through, High: v.Observed, Micros: v.Owed}.check())
		if err != nil {
			return err
		}
		l.gpus[k] = v
	default:
		return errors.New("is no record of a ledger")
	}
	return nil
}
