// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/cotenant/cotenant/telemetry/ledger"
)

// shownAccounts selects the accounts that may be shown. Prometheus cannot see how far a counter had come when it saw it
// first, so that a series that is new is shown at 0 until a scrape has come by. The accounts then stay as they are for
// that long: all that is shown at one time adds up.
type shownAccounts struct {
	hold time.Duration // the longest time between two scrapes

	shown *view // as it was shown last, without zeros; nil for none since the start
	next  *view // waits for its new series, which are shown at 0
	since time.Time
}

// metaNew names the record of the series that are shown at 0, for a start after a kill in that time.
const metaNew = "meta new"

// newSeries holds the series at 0, as they are stored.
type newSeries struct {
	Rows   []ledger.Key      `json:"rows"`
	Totals []ledger.TotalKey `json:"totals"`
}

// beyond returns the series of a view that another does not have.
func (v *view) beyond(old *view) (s newSeries) {
	there := map[any]bool{}
	if old != nil {
		for _, r := range old.Rows {
			there[r.Key] = true
		}
		for _, t := range old.Totals {
			there[t.TotalKey] = true
		}
	}
	for _, r := range v.Rows {
		if !there[r.Key] {
			s.Rows = append(s.Rows, r.Key)
		}
	}
	for _, t := range v.Totals {
		if !there[t.TotalKey] {
			s.Totals = append(s.Totals, t.TotalKey)
		}
	}
	return s
}

func (s *newSeries) empty() bool { return len(s.Rows)+len(s.Totals) == 0 }

// take takes the accounts as they are stored, and returns those to show now and the series that are shown at 0; nil
// where nothing changes.
func (a *shownAccounts) take(v *view, now time.Time) (show *view, zeros *newSeries) {
	if a.next != nil {
		if now.Sub(a.since) < a.hold {
			return nil, nil
		}
		a.shown, a.next, zeros = a.next, nil, &newSeries{}
	}
	s := v.beyond(a.shown)
	if s.empty() {
		a.shown = v
		return v, zeros
	}
	a.next, a.since = v, now
	return v.with(a.shown, s), &s
}

// with returns an older view with new series at 0.
func (v *view) with(old *view, s newSeries) *view {
	out := &view{at: v.at, expired: v.expired}
	if old != nil {
		out.View = old.View
	}
	out.Rows, out.Totals = slices.Clone(out.Rows), slices.Clone(out.Totals)
	for _, k := range s.Rows {
		out.Rows = append(out.Rows, ledger.Row{Key: k})
	}
	for _, k := range s.Totals {
		out.Totals = append(out.Totals, ledger.Total{TotalKey: k})
	}
	if out.Observed == nil {
		out.Observed = map[string]time.Duration{}
		for gpu := range v.Observed {
			out.Observed[gpu] = 0
		}
	}
	return out
}

// resume takes up the accounts of another run: only series that it showed at 0 at its end are shown at 0 once more.
func (a *shownAccounts) resume(v *view, stored []byte, now time.Time) *view {
	var s newSeries
	if json.Unmarshal(stored, &s) != nil || s.empty() {
		a.shown = v
		return v
	}
	a.next, a.since = v, now
	zeros := v.with(nil, s)
	zeros.Observed = nil
	return zeros
}
