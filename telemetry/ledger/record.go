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

// recordName names the record of a row, of a total or of a GPU by its key.
func recordName(key any) string {
	prefix := gpuPrefix
	switch key.(type) {
	case Key:
		prefix = rowPrefix
	case TotalKey:
		prefix = totalPrefix
	}
	b, _ := json.Marshal(key) // structs of strings and enumerations that have texts
	return prefix + string(b)
}

// Changed returns the records that changed since Stored was last called. Store
// them together, all or none; then call Stored.
func (l *book) changedRecords() ([]Record, error) {
	var out []Record
	var errs []error
	for key, v := range l.changed {
		r := Record{Name: recordName(key)}
		if v != nil {
			var err error
			r.Value, err = json.Marshal(v)
			errs = append(errs, err)
		}
		out = append(out, r)
	}
	return out, errors.Join(errs...)
}

// Stored says that what Changed returned last is stored. Nothing may be posted in between.
func (l *book) markStored() { clear(l.changed) }

// Restore reads a ledger back from its records, in any order. A record that cannot be read is left aside, and
// unread says why by its name: set it aside where you keep them. What a total had beyond its rows is then
// unattributed time, energy and money of it are lost, and a GPU begins anew with its next posting. Records that
// contradict each other are an ErrInput that names every problem.
func restoreBook(opts bookOptions, records iter.Seq[Record]) (l *book, unread map[string]error, err error) {
	l, unread = newBook(opts), map[string]error{}
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
	for name, g := range l.gpus {
		if g.Clock != opts.clock {
			g.Clock, g.Through = opts.clock, 0
			l.changed[name] = g
		}
	}
	return l, unread, nil
}

// mend closes the gaps that missing records leave, and none but gaps.
func (l *book) mend() {
	know := func(name string) {
		if l.gpus[name] == nil {
			l.gpus[name] = &gpu{Anew: true}
			l.changed[name] = l.gpus[name]
		}
	}
	for k, a := range l.perTotal() {
		know(k.GPU)
		if l.totals[k] == nil {
			l.addTotal(k, a)
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
			l.addTotal(TotalKey{GPU: name}, Amount{Time: missing, Low: missing, High: missing})
		}
	}
}

func (l *book) read(r Record) error {
	prefix, key, _ := bytes.Cut([]byte(r.Name), []byte(" "))
	var err error
	switch string(prefix) + " " {
	case rowPrefix:
		var k Key
		v := &row{}
		if err = decode(key, &k, r.Value, v); err == nil {
			l.rows[k] = v
			l.pods[k.Pod]++
		}
	case totalPrefix:
		var k TotalKey
		v := &Amount{}
		if err = decode(key, &k, r.Value, v); err == nil {
			l.totals[k] = v
		}
	case gpuPrefix:
		var k string
		v := &gpu{}
		if err = decode(key, &k, r.Value, v); err == nil {
			l.gpus[k] = v
		}
	default:
		err = errors.New("is no record of a ledger")
	}
	return err
}

// decode reads a record's key and value, and checks this.
func decode(key []byte, intoKey any, value []byte, into interface{ check() error }) error {
	strict := func(data []byte, v any) error {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		return d.Decode(v)
	}
	return errors.Join(strict(key, intoKey), strict(value, into), into.check())
}

func (g *gpu) check() error { return Amount{Time: g.Through, High: g.Observed, Micros: g.Owed}.check() }
