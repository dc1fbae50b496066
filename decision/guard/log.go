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
)

// Event is the kind of an entry of the audit log.
type Event string

// The events. Every action has an entry before it is tried and one after.
const (
	EventBegin        Event = "begin" // a program began, under Rules
	EventProposed     Event = "proposed"
	EventWithheld     Event = "withheld"
	EventTrying       Event = "trying"
	EventDone         Event = "done"
	EventFailed       Event = "failed"
	EventUnfinished   Event = "unfinished"   // the program ended while it was trying
	EventAcknowledged Event = "acknowledged" // a person looked after log and state disagreed
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

// AuditEntry is one line of the audit log.
type AuditEntry struct {
	Seq   int64     `json:"seq"`
	Time  time.Time `json:"time"`
	Event Event     `json:"event"`
	Proposal
	Error string       `json:"error,omitempty"`
	Rules *LoggedRules `json:"rules,omitempty"` // of EventBegin
}

// LoggedRules are the rules under which a program acts.
type LoggedRules struct {
	Window      time.Duration `json:"window_ns"`
	Slow        int           `json:"slow"`
	Cooldown    time.Duration `json:"cooldown_ns"`
	Budget      int           `json:"budget"`
	WarnAfter   time.Duration `json:"warn_after_ns"`
	ReapAfter   time.Duration `json:"reap_after_ns"`
	Reap        bool          `json:"reap"`
	MayBeReaped []string      `json:"may_be_reaped"` // tenants
}

// Log is the audit log of an Actor, with the state that outlives the program in a file beside it: what was done,
// and when. Both are synced to the disk before anything is done. It is not safe for concurrent use.
type Log struct {
	file    *os.File
	size    int64 // up to which it was written
	path    string
	state   state
	stopped string
	now     func() time.Time
}

// state outlives the program. It follows from the log's entries.
type state struct {
	Entry  *AuditEntry        `json:"entry"`            // the last one
	Trying *AuditEntry        `json:"trying,omitempty"` // begun, and not ended
	Acts   []acted            `json:"acts"`             // of the last day
	Capped map[string]float64 `json:"capped"`           // percent of the threads, by tenant
	Moved  map[string]int     `json:"moved"`            // index of the GPU, by tenant
	// Touched describes changes that others made to the log; "" = none.
	Touched string `json:"touched,omitempty"`
}

type acted struct {
	Time   time.Time `json:"time"`
	GPU    int       `json:"gpu"`
	Action Action    `json:"action"`
}

// keepActs is the time for which actions are kept: more than any budget or cool-down needs.
const keepActs = 24 * time.Hour

// apply changes the state by an entry.
func (s *state) apply(e *AuditEntry) {
	s.Entry = e
	switch e.Event {
	case EventTrying:
		s.Trying = e
		if e.Action.Acts() {
			s.Acts = append(slices.DeleteFunc(s.Acts, func(a acted) bool { return e.Time.Sub(a.Time) > keepActs }),
				acted{e.Time, e.GPU, e.Action})
		}
	case EventDone:
		switch s.Trying = nil; e.Action {
		case ActionCap:
			s.Capped[e.Target] = e.Percent
		case ActionMove:
			s.Moved[e.Target] = *e.To
		}
	case EventFailed, EventUnfinished, EventAcknowledged:
		s.Trying = nil
	}
}

func newState() state {
	return state{Capped: map[string]float64{}, Moved: map[string]int{}}
}

// OpenLog opens or makes the audit log at path and its state in path.state. What was being tried when the program
// ended is recorded as unfinished. Where the state is missing beside a log, cannot be read, or is older than the
// log or newer by more than an entry, Stopped says so and an Actor does nothing; acknowledge, which is for a person
// who has looked, makes the state anew from the log. A stopped log records nothing.
func OpenLog(path string, acknowledge bool) (*Log, error) {
	l := &Log{path: path, now: time.Now}
	entries, tail, err := readLog(path)
	if err != nil {
		return nil, err
	}
	if l.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	if info, err := l.file.Stat(); err == nil {
		l.size = info.Size()
	}
	l.stopped = l.load(entries, tail)
	if l.stopped != "" && !acknowledge {
		l.stopped += "; look at what was done, then start with -acknowledge"
		return l, nil
	}
	if l.stopped != "" {
		why, seq := l.stopped, int64(0)
		if l.state.Entry != nil {
			seq = l.state.Entry.Seq
		}
		l.state, l.stopped = newState(), ""
		for i := range entries {
			l.state.apply(&entries[i])
			seq = max(seq, entries[i].Seq)
		}
		l.state.Entry = &AuditEntry{Seq: seq}
		if len(tail) > 0 {
			if err := l.appendLine(nil); err != nil {
				return nil, errors.Join(err, l.Close())
			}
		}
		err = l.write(AuditEntry{Event: EventAcknowledged, Error: why})
	} else if t := l.state.Trying; t != nil {
		err = l.write(AuditEntry{
			Event: EventUnfinished, Proposal: t.Proposal,
			Error: "the program ended while this was tried: it may have done all, a part or nothing of it",
		})
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// load reads the state and holds it against the log. It returns what is wrong.
func (l *Log) load(entries []AuditEntry, tail []byte) string {
	l.state = newState()
	data, err := os.ReadFile(l.path + ".state")
	last, unread := int64(0), false
	for i := range entries {
		last = max(last, entries[i].Seq)
		unread = entries[i].Seq == 0 || unread && entries[i].Event != EventAcknowledged
	}
	switch {
	case unread:
		return "the log has a line that cannot be read"
	case errors.Is(err, fs.ErrNotExist) && len(entries) == 0 && len(tail) == 0:
		return ""
	case err != nil:
		return fmt.Sprintf("the state beside the log cannot be read: %v", err)
	}
	if err := json.Unmarshal(data, &l.state); err != nil || l.state.Entry == nil {
		l.state = newState()
		return "the state beside the log is cut or not a state"
	}
	switch seq := l.state.Entry.Seq; {
	case l.state.Touched != "":
		return l.state.Touched
	case seq < last:
		return fmt.Sprintf("the state is older than the log: %d entries, %d in the log", seq, last)
	case seq > last+1:
		return fmt.Sprintf("the log is older than its state: %d entries, %d in the state", last, seq)
	case seq == last && len(tail) == 0:
		return ""
	case seq == last:
		return "the log ends in the middle of a line"
	}
	// The program ended between the two files, or within the line.
	line, err := json.Marshal(l.state.Entry)
	if err != nil || !bytes.HasPrefix(line, tail) {
		return "the log ends in the middle of a line"
	}
	if err := l.appendLine(line[len(tail):]); err != nil {
		return err.Error()
	}
	return ""
}

// readLog reads the entries of a log, as far as lines are whole, and the tail after
// the last newline. A line that cannot be read is an entry without a number.
func readLog(path string) (entries []AuditEntry, tail []byte, err error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("guard: %w", err)
	}
	for line := range bytes.Lines(data) {
		whole, ok := bytes.CutSuffix(line, []byte("\n"))
		if !ok {
			return entries, line, nil
		}
		var e AuditEntry
		if len(whole) == 0 {
			continue
		}
		if err := json.Unmarshal(whole, &e); err != nil {
			e = AuditEntry{}
		}
		entries = append(entries, e)
	}
	return entries, nil, nil
}

// Stopped returns the reason for which nothing is done; "" = none.
func (l *Log) Stopped() string { return l.stopped }

// Close closes the log.
func (l *Log) Close() error { return l.file.Close() }

// begin records the rules under which the program acts.
func (l *Log) begin(r Rules, c *Config) error {
	rules := &LoggedRules{
		Window: r.Window, Slow: r.Slow, Cooldown: r.Cooldown, Budget: r.Budget, WarnAfter: noticeAfter(r.Policy),
		ReapAfter: r.Policy.ReapAfter, Reap: c.Reap,
	}
	for i := range c.Tenants {
		if c.Tenants[i].MayReap {
			rules.MayBeReaped = append(rules.MayBeReaped, c.Tenants[i].Name)
		}
	}
	return l.write(AuditEntry{Event: EventBegin, Rules: rules})
}

// write records an entry of now: in the state, which is replaced whole, and then in the log; nowhere while that is
// stopped.
func (l *Log) write(e AuditEntry) error {
	if l.stopped != "" {
		return nil
	}
	if l.stopped = l.touched(); l.stopped != "" {
		l.state.Touched = l.stopped
		return l.saveState()
	}
	if e.Seq = 1; l.state.Entry != nil {
		e.Seq = l.state.Entry.Seq + 1
	}
	e.Time = l.now().UTC()
	line, err := json.Marshal(&e)
	if err != nil {
		return fmt.Errorf("guard: audit log: %w", err)
	}
	l.state.apply(&e)
	if err := l.saveState(); err != nil {
		return err
	}
	return l.appendLine(line)
}

// saveState replaces the state on the disk.
func (l *Log) saveState() error {
	data, err := json.Marshal(&l.state)
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

// touched returns what somebody else did to the log since it was written last; "" = nothing.
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

// Resume takes up what a log's state says was done. Call it before the first Step, whose observations count from now.
func (g *Guard) Resume(l *Log, now time.Time) {
	at := map[int]int{}
	for i := range g.gpus {
		at[g.gpus[i].Index] = i
	}
	for _, a := range l.state.Acts {
		g.acted = append(g.acted, a.Time.Sub(now))
		if i, ok := at[a.GPU]; ok && a.Action != ActionReap {
			g.devices[i].lastAct = max(g.devices[i].lastAct, a.Time.Sub(now))
		}
	}
	for k := range g.tenants {
		g.states[k].capped = l.state.Capped[g.tenants[k].Name] / 100
		if to, ok := l.state.Moved[g.tenants[k].Name]; ok {
			if i, there := at[to]; there {
				g.tenants[k].GPU = i
			}
		}
	}
}
