package mps

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// EventKind is what happened. The zero value is no event.
type EventKind uint8

// The kinds of events.
const (
	EventNone         EventKind = iota
	EventDaemonUp               // a daemon answers
	EventDaemonGone             // none answers any more
	EventDaemonSilent           // it does not answer in time
	EventServerUp               // a server appeared
	EventServerState            // a server's state changed, for example to FAULT
	EventServerGone             // a server is listed no more
	EventClientJoined
	EventClientLeft
	EventLog   // a line of control.log or server.log; see Event.Log
	EventError // an answer or line that cannot be understood; see Event.Err
)

var eventNames = enum.Of[EventKind](ErrInvalid, "event", "none", "daemon-up", "daemon-gone", "daemon-silent", "server-up", "server-state",
	"server-gone", "client-joined", "client-left", "log", "error")

// String returns the kind's text, for example "server-state".
func (k EventKind) String() string { return eventNames.String(k) }

// MarshalText returns the kind's text.
func (k EventKind) MarshalText() ([]byte, error) { return eventNames.Text(k) }

// UnmarshalText reads what String writes.
func (k *EventKind) UnmarshalText(b []byte) error { return eventNames.Parse(k, b) }

// Event is one observation of Watch.
type Event struct {
	Time     time.Time
	Kind     EventKind
	Server   int         // 0 where it concerns none
	Client   int         // 0 where it concerns none
	State    ServerState // of EventServerUp and EventServerState
	Previous ServerState // of EventServerState
	Log      *LogRecord  // of EventLog
	Err      error       // of EventError
}

// String describes the event in a few words, without its time.
func (e Event) String() string {
	switch e.Kind {
	case EventServerUp:
		return fmt.Sprintf("server %d is up: %v", e.Server, e.State)
	case EventServerState:
		return fmt.Sprintf("server %d: %v -> %v", e.Server, e.Previous, e.State)
	case EventServerGone:
		return fmt.Sprintf("server %d has gone", e.Server)
	case EventClientJoined:
		return fmt.Sprintf("client %d joined server %d", e.Client, e.Server)
	case EventClientLeft:
		return fmt.Sprintf("client %d left server %d", e.Client, e.Server)
	case EventLog:
		return fmt.Sprintf("log %v: %s", e.Log.Kind, e.Log.Text)
	case EventError:
		return "error: " + e.Err.Error()
	}
	return e.Kind.String()
}

// WatchOptions are options of Watch.
type WatchOptions struct {
	Interval time.Duration // between looks; 0 = 500 ms
	// LogDirectory holds control.log and server.log; "" = no log events. Only
	// lines written after Watch began are reported.
	LogDirectory string
}

// Watch looks at the daemon every Interval and calls handle with what changed,
// first with what is there. It blocks until ctx ends or handle returns an
// error, which it returns; so is ctx's cause. handle is called from this
// goroutine only.
func (c *Client) Watch(ctx context.Context, opts WatchOptions, handle func(Event) error) error {
	if opts.Interval < 0 {
		return fmt.Errorf("%w: Interval: %v is negative", ErrInvalid, opts.Interval)
	}
	if opts.Interval == 0 {
		opts.Interval = 500 * time.Millisecond
	}
	var tails []*logTail
	if opts.LogDirectory != "" {
		for _, n := range []string{"control.log", "server.log"} {
			t := newLogTail(filepath.Join(opts.LogDirectory, n))
			defer t.close()
			tails = append(tails, t)
		}
	}
	w := watcher{client: c, first: true}
	for {
		events := w.look(ctx)
		for _, t := range tails {
			events = append(events, t.events()...)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, e := range events {
			if err := handle(e); err != nil {
				return err
			}
		}
		if err := sleep(ctx, opts.Interval); err != nil {
			return err
		}
	}
}

type watcher struct {
	client *Client
	first  bool
	last   Snapshot
	failed string // the last error, reported once until an answer is good again
}

// look takes a snapshot and returns how it differs from the last.
func (w *watcher) look(ctx context.Context) []Event {
	now, err := w.client.Snapshot(ctx)
	if err != nil {
		if text := err.Error(); text != w.failed {
			w.failed = text
			return []Event{{Time: now.Time, Kind: EventError, Err: err}}
		}
		return nil
	}
	w.failed = ""
	events := changes(w.last, now)
	if w.first && now.Daemon == sharing.AnswerUnknown {
		events = []Event{{Time: now.Time, Kind: EventDaemonSilent}}
	}
	w.first = false
	// What is silent says nothing about those behind it: the last lists stand.
	if now.Daemon == sharing.AnswerUnknown {
		now.Servers = w.last.Servers
	}
	for i, s := range now.Servers {
		if s.State != StateUnknown {
			continue
		}
		for _, o := range w.last.Servers {
			if o.Server == s.Server {
				now.Servers[i].Clients = o.Clients
			}
		}
	}
	w.last = now
	return events
}

// changes returns what happened between two snapshots, in a fixed order:
// daemon, then servers by process ID, each with its clients.
func changes(before, now Snapshot) []Event {
	var events []Event
	add := func(e Event) {
		e.Time = now.Time
		events = append(events, e)
	}
	if now.Daemon != before.Daemon {
		add(Event{Kind: [...]EventKind{EventDaemonSilent, EventDaemonGone, EventDaemonUp}[now.Daemon]})
	}
	if now.Daemon == sharing.AnswerUnknown {
		return events
	}
	pids := map[int]bool{}
	old, cur := byServer(before, pids), byServer(now, pids)
	for _, pid := range slices.Sorted(maps.Keys(pids)) {
		o, had := old[pid]
		n, has := cur[pid]
		switch {
		case !has:
			for _, p := range o.Clients {
				add(Event{Kind: EventClientLeft, Server: pid, Client: p})
			}
			add(Event{Kind: EventServerGone, Server: pid, Previous: o.State})
			continue
		case !had:
			add(Event{Kind: EventServerUp, Server: pid, State: n.State})
		case o.State != n.State:
			add(Event{Kind: EventServerState, Server: pid, State: n.State, Previous: o.State})
		}
		if n.State == StateUnknown {
			continue // it did not answer: its list of clients is not known
		}
		for _, p := range n.Clients {
			if !slices.Contains(o.Clients, p) {
				add(Event{Kind: EventClientJoined, Server: pid, Client: p})
			}
		}
		for _, p := range o.Clients {
			if !slices.Contains(n.Clients, p) {
				add(Event{Kind: EventClientLeft, Server: pid, Client: p})
			}
		}
	}
	return events
}

func byServer(s Snapshot, pids map[int]bool) map[int]ServerSnapshot {
	m := map[int]ServerSnapshot{}
	for _, srv := range s.Servers {
		m[srv.Server], pids[srv.Server] = srv, true
	}
	return m
}
