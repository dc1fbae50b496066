// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/plaintext"
)

// Actor carries out proposals, and records them first. The zero Actor does nothing.
type Actor struct {
	// Do carries out a cap, a move, a notice or a reaping, by a program or the Kubernetes API; nil means a dry run. An
	// error means that it was not, or not certainly, carried out. Its context ends after 30 s.
	Do  func(context.Context, *Proposal) error
	Log *Log // records everything; nil means that nothing is carried out
}

func (a *Actor) write(event event, p *Proposal) error {
	if a.Log == nil {
		return nil
	}
	return a.Log.write(auditEntry{Event: event, Proposal: *p})
}

// Act carries out a proposal if allowed, and reports whether it did; otherwise it sets p.Withheld. If the audit log
// cannot be written, it returns an error without acting.
func (a *Actor) Act(ctx context.Context, p *Proposal) (done bool, err error) {
	if p.Action == ActionKeep || p.Action == ActionSplit {
		return false, a.write(eventProposed, p)
	}
	if p.Withheld == "" {
		switch {
		case a.Do == nil:
			p.Withheld = "dry run"
		case a.Log == nil:
			p.Withheld = "no audit log"
		}
	}
	if p.Withheld != "" {
		return false, a.write(eventWithheld, p)
	}
	if err := a.write(eventTrying, p); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err = a.Do(ctx, p); err == nil {
		return true, a.write(eventDone, p)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("timed out, and may have done all, a part or nothing of the %s: %w", p.Action, err)
	}
	p.Withheld = "failed: " + err.Error()
	return false, a.write(eventFailed, p)
}

// event is the kind of an entry of the audit log.
type event string

// The events. Every action has an entry before it is tried and one after.
const (
	eventBegin      event = "begin" // a program began, under Rules
	eventProposed   event = "proposed"
	eventWithheld   event = "withheld"
	eventTrying     event = "trying"
	eventDone       event = "done"
	eventFailed     event = "failed"
	eventUnfinished event = "unfinished" // the program ended while it was trying
)

// auditEntry is one line of the audit log.
type auditEntry struct {
	Time  time.Time `json:"time"`
	Event event     `json:"event"`
	Proposal
	Error string `json:"error,omitempty"`
	Rules *Rules `json:"rules,omitempty"` // of eventBegin
}

// Log is the audit log of an Actor: all of its actions over all runs of the program, as lines of JSON, each synced to
// the disk before the action. It is not safe for concurrent use.
type Log struct {
	file   *os.File
	trying *auditEntry        // begun, and not ended
	acts   []acted            // of the last day
	capped map[string]float64 // percent of the threads, by tenant
	moved  map[string]int     // index of the GPU, by tenant
	now    func() time.Time
}

type acted struct {
	at     time.Time
	gpu    int
	action Action
}

// keepActs is the time for which actions are kept: more than any budget or cool-down needs.
const keepActs = 24 * time.Hour

// apply takes up an entry.
func (l *Log) apply(e *auditEntry) {
	switch e.Event {
	case eventTrying:
		l.trying = e
		if e.Action.acts() {
			l.acts = slices.DeleteFunc(l.acts, func(a acted) bool { return e.Time.Sub(a.at) > keepActs })
			l.acts = append(l.acts, acted{e.Time, e.GPU, e.Action})
		}
	case eventDone:
		l.trying = nil
		if e.Action == ActionCap {
			l.capped[e.Target] = e.Percent
		} else if e.Action == ActionMove && e.To != nil {
			l.moved[e.Target] = *e.To
		}
	case eventFailed, eventUnfinished:
		l.trying = nil
	}
}

// OpenLog opens or creates the audit log at path. An action in progress when the program ended is recorded as
// unfinished, and a truncated last line is removed, since its action was not started. Any other line that cannot be
// read is an error, since past actions count for the budget.
func OpenLog(path string) (*Log, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	l := &Log{file: file, now: time.Now, capped: map[string]float64{}, moved: map[string]int{}}
	err = l.replay()
	if t := l.trying; err == nil && t != nil {
		err = l.write(auditEntry{Event: eventUnfinished, Proposal: t.Proposal,
			Error: "the program ended while this was tried: it may have done all, a part or nothing of it"})
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// replay takes up the entries of the file.
func (l *Log) replay() error {
	data, err := io.ReadAll(l.file)
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	n := 0
	for line := range bytes.Lines(data) {
		if n++; !bytes.HasSuffix(line, []byte("\n")) {
			return l.file.Truncate(int64(len(data) - len(line)))
		}
		e := new(auditEntry)
		if err := json.Unmarshal(line, e); err != nil {
			return fmt.Errorf("guard: %s: line %d: %w (check the actions in it, then move the file away)",
				l.file.Name(), n, err)
		}
		l.apply(e)
	}
	return nil
}

// Close closes the log.
func (l *Log) Close() error { return l.file.Close() }

// write records an entry of now.
func (l *Log) write(e auditEntry) error {
	e.Time = l.now().UTC()
	line, err := json.Marshal(&e)
	if err == nil {
		_, err = l.file.WriteString(plaintext.Show(string(line)) + "\n")
	}
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("guard: audit log: %w", err)
	}
	l.apply(&e)
	return nil
}

// resume takes over the past actions of a log. Call it before the first Step, whose observations count from now.
func (g *Guard) resume(l *Log, now time.Time) {
	there := func(gpu int) bool { return gpu >= 0 && gpu < len(g.gpus) }
	for _, a := range l.acts {
		g.acted = append(g.acted, a.at.Sub(now))
		if there(a.gpu) && a.action != ActionReap {
			g.devices[a.gpu].lastAct = max(g.devices[a.gpu].lastAct, a.at.Sub(now))
		}
	}
	for k := range g.tenants {
		t := &g.tenants[k]
		g.states[k].capped = l.capped[t.Name] / 100
		if to, moved := l.moved[t.Name]; moved && there(to) {
			t.GPU = to
		}
	}
}
