// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/atomicfile"
	"github.com/cotenant/cotenant/internal/plaintext"
)

// event is the kind of an entry of the audit log.
type event string

// The events. Every action has an entry before it is tried and one after.
const (
	eventBegin        event = "begin" // a program began, under Rules
	eventProposed     event = "proposed"
	eventWithheld     event = "withheld"
	eventTrying       event = "trying"
	eventDone         event = "done"
	eventFailed       event = "failed"
	eventUnfinished   event = "unfinished"   // the program ended while it was trying
	eventAcknowledged event = "acknowledged" // a person looked after log and state disagreed
)

// Checks are the figures on which a proposal rests.
type Checks struct {
	ReadingAge time.Duration `json:"reading_age_ns"`     // of the device's newest reading
	Windows    int           `json:"windows,omitempty"`  // in a row above the limit
	TPOT       float64       `json:"tpot_ms,omitempty"`  // of the last one
	Limit      float64       `json:"limit_ms,omitempty"` // that it exceeded
	Idle       time.Duration `json:"idle_ns,omitempty"`  // of the target
	Watched    float64       `json:"watched,omitempty"`  // part of it that was observed, 0 to 1
}

// auditEntry is one line of the audit log.
type auditEntry struct {
	Seq   int64     `json:"seq"`
	Time  time.Time `json:"time"`
	Event event     `json:"event"`
	Proposal
	Error string       `json:"error,omitempty"`
	Rules *loggedRules `json:"rules,omitempty"` // of eventBegin
}

// loggedRules are the rules under which a program acts.
type loggedRules struct {
	Rules
	Reap        bool     `json:"reap"`
	MayBeReaped []string `json:"may_be_reaped"` // tenants
}

// Log is the audit log of an Actor: all of its actions over all runs of the program. A file next to it has the number
// of the last entry. Both are synced to the disk before an action. It is not safe for concurrent use.
type Log struct {
	file *os.File
	size int64 // up to which it was written
	path string
	seq  int64 // of the last entry

	trying  *auditEntry        // begun, and not ended
	acts    []acted            // of the last day
	capped  map[string]float64 // percent of the threads, by tenant
	moved   map[string]int     // index of the GPU, by tenant
	stopped string
	now     func() time.Time
}

// mark is the content of the file next to a log.
type mark struct {
	Seq int64 `json:"seq"` // of the last entry
	// Touched describes changes that others made to the log; "" = none.
	Touched string `json:"touched,omitempty"`
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
	l.seq = max(l.seq, e.Seq)
	switch e.Event {
	case eventTrying:
		l.trying = e
		if e.Action.Acts() {
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
	case eventFailed, eventUnfinished, eventAcknowledged:
		l.trying = nil
	}
}

// OpenLog opens or makes the audit log at path, with its mark in path.state. An action in progress when the program
// ended is recorded as unfinished. Where the log or its mark cannot be read, or they do not match, Stopped returns the
// reason and an Actor does nothing; acknowledge, set after a person has checked the log, goes on with the log as it is.
// A stopped log records nothing.
func OpenLog(path string, acknowledge bool) (*Log, error) {
	l := &Log{path: path, now: time.Now, capped: map[string]float64{}, moved: map[string]int{}}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("guard: %w", err)
	}
	tail, unread := l.replay(data)
	l.stopped = l.compare(len(data) == 0, len(tail) > 0, unread)
	if l.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	l.size = int64(len(data))
	switch why := l.stopped; {
	case why != "" && !acknowledge:
		l.stopped += "; look at what was done, then start with -acknowledge"
		return l, nil
	case why != "":
		if l.stopped = ""; len(tail) > 0 {
			err = l.appendLine(nil)
		}
		err = errors.Join(err, l.write(auditEntry{Event: eventAcknowledged, Error: why}))
	default:
		if len(tail) > 0 { // the program ended within the line, before anything followed from it
			l.size -= int64(len(tail))
			err = l.file.Truncate(l.size)
		}
		if t := l.trying; t != nil {
			err = errors.Join(err, l.write(auditEntry{Event: eventUnfinished, Proposal: t.Proposal,
				Error: "the program ended while this was tried: it may have done all, a part or nothing of it"}))
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// replay takes up the entries of a log, as far as lines are whole, and returns the tail after the last newline and
// whether a line cannot be read that nobody has acknowledged.
func (l *Log) replay(data []byte) (tail []byte, unread bool) {
	for line := range bytes.Lines(data) {
		whole, ok := bytes.CutSuffix(line, []byte("\n"))
		if !ok {
			return line, unread
		}
		e := new(auditEntry)
		if len(whole) == 0 {
			continue
		}
		if err := json.Unmarshal(whole, e); err != nil || e.Seq == 0 {
			unread = true
			continue
		}
		unread = unread && e.Event != eventAcknowledged
		l.apply(e)
	}
	return nil, unread
}

// compare checks the log against its mark, and returns the problem, or "".
func (l *Log) compare(empty, tail, unread bool) string {
	var m mark
	data, err := os.ReadFile(l.path + ".state")
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	last := l.seq
	l.seq = max(last, m.Seq)
	switch {
	case unread:
		return "the log has a line that cannot be read"
	case errors.Is(err, fs.ErrNotExist) && empty:
		return ""
	case err != nil:
		return fmt.Sprintf("the state beside the log cannot be read: %v", err)
	case m.Touched != "":
		return m.Touched
	case m.Seq < last-1:
		return fmt.Sprintf("the state is older than the log: %d entries, %d in the log", m.Seq, last)
	case m.Seq > last+1 || m.Seq > last && !tail:
		return fmt.Sprintf("the log is older than its state: %d entries, %d in the state", last, m.Seq)
	}
	l.seq = last
	return ""
}

// Stopped returns the reason for which nothing is done; "" = none.
func (l *Log) Stopped() string { return l.stopped }

// Close closes the log.
func (l *Log) Close() error { return l.file.Close() }

// begin records the rules under which the program acts.
func (l *Log) begin(r Rules, c *Config) error {
	rules := &loggedRules{Rules: r, Reap: c.Reap}
	for i := range c.Tenants {
		if c.Tenants[i].MayReap {
			rules.MayBeReaped = append(rules.MayBeReaped, c.Tenants[i].Name)
		}
	}
	return l.write(auditEntry{Event: eventBegin, Rules: rules})
}

// write records an entry of now in the log and then marks it; nowhere while the log is stopped.
func (l *Log) write(e auditEntry) error {
	if l.stopped != "" {
		return nil
	}
	if l.stopped = l.touched(); l.stopped != "" {
		return l.mark(mark{l.seq, l.stopped})
	}
	e.Seq, e.Time = l.seq+1, l.now().UTC()
	line, err := json.Marshal(&e)
	if err != nil {
		return fmt.Errorf("guard: audit log: %w", err)
	}
	l.apply(&e)
	if err := l.appendLine([]byte(plaintext.Show(string(line)))); err != nil {
		return err
	}
	return l.mark(mark{Seq: e.Seq})
}

// mark replaces the mark on the disk.
func (l *Log) mark(m mark) error {
	data, err := json.Marshal(m)
	if err == nil {
		err = atomicfile.Write(l.path+".state", data, 0o644)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(l.path))
	}
	if err != nil {
		return fmt.Errorf("guard: state: %w", err)
	}
	return nil
}

// touched returns a change by another program since the log was written last; "" = none.
func (l *Log) touched() string {
	ours, err := l.file.Stat()
	there, lost := os.Stat(l.path)
	switch {
	case err != nil: // writing it says so
	case lost != nil || !os.SameFile(ours, there):
		return "the log was deleted or replaced while it ran"
	case ours.Size() != l.size:
		return "the log was cut or written by another while it ran"
	}
	return ""
}

func (l *Log) appendLine(line []byte) error {
	n, err := l.file.Write(append(slices.Clone(line), '\n'))
	l.size += int64(n)
	if err != nil {
		return fmt.Errorf("guard: audit log: %w", err)
	}
	return l.file.Sync()
}

// syncFolder makes a rename outlive a power cut, where the system can.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = f.Sync() // not every system syncs folders
	return f.Close()
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
