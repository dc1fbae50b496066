// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Record is a stored piece of the accounts under its name.
type Record struct {
	Name string
	// Value is JSON, or nil to delete the record.
	Value []byte
}

// takeChanges returns the records that changed since it was last called. Store them together, all or none.
func (l *book) takeChanges() (out []Record, err error) {
	for name, v := range l.changed {
		r := Record{Name: name}
		if raw, ok := v.([]byte); ok {
			r.Value = raw
		} else if v != nil {
			if r.Value, err = json.Marshal(v); err != nil {
				return nil, err
			}
		}
		out = append(out, r)
	}
	clear(l.changed)
	return out, nil
}

// restoreBook reads a book back from its records, in any order. A record that cannot be read is set aside, and unread
// has the reason by its name. Time that a GPU was observed beyond its rows is then unattributed; its energy and money
// are lost.
func restoreBook(opts bookOptions, records iter.Seq[Record]) (l *book, unread map[string]error) {
	l, unread = newBook(opts), map[string]error{}
	for r := range records {
		if err := l.read(r); err != nil {
			unread[r.Name] = err
			l.changed[r.Name], l.changed[asidePrefix+r.Name] = nil, r.Value
		}
	}
	for k := range l.rows {
		l.pods[k.Pod]++
	}
	times := map[string]time.Duration{}
	for k, a := range l.totals() {
		times[k.GPU] += a.Time
	}
	for name, t := range times {
		if g := l.gpus[name]; g == nil {
			l.gpus[name] = &gpu{Anew: true, Observed: t}
		} else if t > g.Observed {
			unread[recordName(name)] = fmt.Errorf("observed for %v, but its rows come to %v", g.Observed, t)
			g.Observed = t
		}
	}
	for name, g := range l.gpus {
		if missing := g.Observed - times[name]; missing > 0 {
			l.end(TotalKey{GPU: name, Account: accountUnattributed}, Amount{Time: missing, Low: missing, High: missing})
		}
		if g.Clock != opts.clock {
			g.Clock, g.Through = opts.clock, 0
			l.changed[recordName(name)] = g
		}
	}
	return l, unread
}

// read takes up a record.
func (l *book) read(r Record) error {
	kind, key, _ := strings.Cut(r.Name, " ")
	switch kind + " " {
	case rowPrefix:
		return decode(key, r.Value, l.rows)
	case endedPrefix:
		return decode(key, r.Value, l.ended)
	case gpuPrefix:
		return decode(key, r.Value, l.gpus)
	case asidePrefix:
		return nil
	}
	return errors.New("is no record of a ledger")
}

// decode reads a record's key and value into a map, and checks both.
func decode[K comparable, V any](key string, value []byte, into map[K]*V) error {
	strict := func(data []byte, v any) error {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		return d.Decode(v)
	}
	var k K
	v := new(V)
	err := errors.Join(strict([]byte(key), &k), strict(value, v), any(v).(interface{ check() error }).check())
	if of, ok := any(k).(interface{ check() error }); ok {
		err = errors.Join(err, of.check())
	}
	if err == nil {
		into[k] = v
	}
	return err
}

func (g *gpu) check() error {
	if j := g.Joules.Or(0); !(j >= 0) {
		return fmt.Errorf("an energy counter of %v J", j)
	}
	return Amount{Time: g.Through, High: g.Observed, Micros: g.Owed}.check()
}
