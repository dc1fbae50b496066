package mps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// affected returns the clients that a fatal GPU fault of one of culprits reaches, culprits included, in ascending
// order: all clients on the GPUs shared with a culprit, and on through clients that span GPUs (nvidia-mps-guide). A
// culprit on no listed device reaches every client, since its devices are not known.
func affected(devices []DeviceClients, culprits ...int) []int {
	hit := map[int]bool{}
	// reach marks all clients of the devices that a marked one is on.
	reach := func(on func(pid int) bool) (found bool) {
		for _, d := range devices {
			if slices.ContainsFunc(d.Clients, func(c ClientContext) bool { return on(c.PID) }) {
				found = true
				for _, c := range d.Clients {
					hit[c.PID] = true
				}
			}
		}
		return found
	}
	for _, p := range culprits {
		hit[p] = true
		if !reach(func(pid int) bool { return pid == p }) {
			reach(func(int) bool { return true })
		}
	}
	for n := -1; n < len(hit); {
		n = len(hit)
		reach(func(pid int) bool { return hit[pid] })
	}
	return trueKeys(hit)
}

// Damage grades the effect of a lost client on the others. The zero value is DamageUnknown.
type Damage uint8

// The degrees.
const (
	DamageUnknown Damage = iota // the daemon or a server is silent
	DamageNone                  // servers are ACTIVE and the other clients are still listed
	DamageFault                 // a server is in FAULT until its affected clients have exited
	DamageServer                // a server has gone, and its clients with it
	DamageDaemon                // the daemon has gone; servers and clients may run on, unmanaged
)

var damageNames = enum.Of[Damage](ErrInvalid, "damage", "unknown", "none", "fault", "server-gone", "daemon-gone")

// Diagnosis holds the effects of lost clients on their neighbours, and advice.
type Diagnosis struct {
	Damage Damage
	// Lost are the clients that were there before and are no longer.
	Lost []int
	// Affected share a GPU with a lost or faulty client, directly or through clients that span GPUs. Killing a
	// client that has work in flight is undefined for them, so they deserve a look even without damage.
	Affected []int
	// MustExit are the clients that have to end before their server takes new ones.
	MustExit []int
	// Recovered answers whether new clients are taken now.
	Recovered sharing.Answer
	Advice    []string
}

// Diagnose compares two snapshots around the loss of clients. gone are the processes known to have ended, for example
// killed ones; a terminated client that is still listed counts among them. It is pure: same input, same diagnosis.
func Diagnose(before, after Snapshot, gone ...int) Diagnosis {
	d := Diagnosis{Damage: DamageNone, Recovered: sharing.AnswerYes}
	switch after.Daemon {
	case sharing.AnswerNo:
		d.worsen(DamageDaemon, "start a control daemon; no client can join until then, and clients started without one "+
			"run without limits")
	case sharing.AnswerUnknown:
		d.worsen(DamageUnknown, "the control daemon does not answer: ask again, and if it stays silent stop clients, then "+
			"servers, then the daemon")
	}
	hit, must := map[int]bool{}, map[int]bool{}
	for _, b := range before.Servers {
		i := slices.IndexFunc(after.Servers, func(s ServerSnapshot) bool { return s.Server == b.Server })
		var now ServerSnapshot
		if i >= 0 {
			now = after.Servers[i]
		}
		var culprits []int
		for _, p := range b.Clients {
			if slices.Contains(gone, p) || i >= 0 && now.State != StateUnknown && !slices.Contains(now.Clients, p) {
				culprits = append(culprits, p)
			}
		}
		d.Lost = append(d.Lost, culprits...)
		for _, p := range affected(b.Devices, culprits...) {
			hit[p] = !slices.Contains(culprits, p)
		}
		if i < 0 && after.Daemon == sharing.AnswerYes && len(b.Clients) > 0 && len(culprits) < len(b.Clients) {
			d.worsen(DamageServer, fmt.Sprintf("server %d has gone: its clients have failed; restart them, and a new server "+
				"starts with the first", b.Server))
			for _, p := range b.Clients {
				hit[p] = !slices.Contains(culprits, p)
			}
		}
	}
	for _, s := range after.Servers {
		d.judge(s, gone, hit, must)
	}
	for _, s := range after.Servers {
		for _, p := range gone {
			if slices.Contains(s.Clients, p) {
				d.Advice = append(d.Advice, fmt.Sprintf("server %d still lists %d; it leaves the list when its process has ended",
					s.Server, p))
			}
		}
	}
	slices.Sort(d.Lost)
	d.Affected, d.MustExit = trueKeys(hit), trueKeys(must)
	if d.Damage == DamageNone && len(d.Affected) > 0 {
		d.Advice = append(d.Advice, fmt.Sprintf("check that %s still answer: killing a neighbour with work in flight is "+
			"undefined for them; terminate_client first is safe", pidList(d.Affected)))
	}
	return d
}

// judge adds what a server's present state asks for.
func (d *Diagnosis) judge(s ServerSnapshot, gone []int, hit, must map[int]bool) {
	switch s.State {
	case StateFault:
		// The daemon does not tell the culprit; everybody still listed counts.
		for _, p := range s.Clients {
			if !slices.Contains(gone, p) {
				hit[p], must[p] = true, true
			}
		}
		d.worsen(DamageFault, fmt.Sprintf("server %d is in FAULT and takes no client until these have exited: %s; end "+
			"them, then it becomes ACTIVE by itself",
			s.Server, pidList(trueKeys(must))))
	case StateUnknown:
		d.worsen(DamageUnknown, fmt.Sprintf("server %d does not answer: if it stays silent its clients must exit and it "+
			"must be shut down with force", s.Server))
	case StateInitializing:
		if d.Recovered == sharing.AnswerYes {
			d.Recovered = sharing.AnswerUnknown
		}
		d.Advice = append(d.Advice, fmt.Sprintf("server %d is INITIALIZING: wait until it is ACTIVE", s.Server))
	}
}

// worsen records damage; the worst known degree stays.
func (d *Diagnosis) worsen(to Damage, advice string) {
	d.Advice = append(d.Advice, advice)
	if to == DamageUnknown {
		if d.Damage == DamageNone {
			d.Damage = DamageUnknown
		}
		if d.Recovered == sharing.AnswerYes {
			d.Recovered = sharing.AnswerUnknown
		}
		return
	}
	d.Damage = max(d.Damage, to)
	if to != DamageServer { // the next client starts a new server
		d.Recovered = sharing.AnswerNo
	}
}

func trueKeys(set map[int]bool) []int {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(set)), func(k int) bool { return !set[k] })
}

func pidList(pids []int) string {
	return cmp.Or(strings.Trim(strings.ReplaceAll(fmt.Sprint(pids), " ", ", "), "[]"), "none")
}

// AwaitRecovery asks the daemon until it takes clients again, or cannot before other clients have exited
// (MustExit), or within has passed, and returns the last diagnosis. before is a snapshot from before the loss. One
// silent answer is waited for no longer than a quarter of within.
func (c *Client) AwaitRecovery(ctx context.Context, before Snapshot, within time.Duration, gone ...int) (Diagnosis,
	error) {
	if within <= 0 {
		return Diagnosis{}, fmt.Errorf("%w: within: %v is not positive", ErrInvalid, within)
	}
	quick := *c
	quick.timeout = min(c.timeout, within/4)
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	last := Diagnosis{Advice: []string{"the daemon or a server is silent: ask again, and if it stays silent stop " +
		"clients, then servers, then the daemon"}}
	_, err := quick.until(bounded, "await recovery", within, min(50*time.Millisecond, within/20),
		func(ctx context.Context) (bool, error) {
			after, err := quick.Snapshot(ctx)
			if err != nil {
				return false, err
			}
			last = Diagnose(before, after, gone...)
			listed := slices.ContainsFunc(after.Servers, func(s ServerSnapshot) bool {
				return slices.ContainsFunc(gone, func(p int) bool { return slices.Contains(s.Clients, p) })
			})
			return last.Recovered == sharing.AnswerYes && !listed || len(last.MustExit) > 0, nil
		})
	if bounded.Err() != nil && ctx.Err() == nil {
		err = nil // time is up: what was last seen stands
	}
	return last, err
}

// Snapshot lists a daemon's servers and clients at one time.
type Snapshot struct {
	Time    time.Time
	Daemon  sharing.Answer // whether a daemon answers; Unknown if it is silent
	Servers []ServerSnapshot
}

// ServerSnapshot is one server in a Snapshot.
type ServerSnapshot struct {
	Server int
	// State is StateUnknown if the server did not answer.
	State   ServerState
	Clients []int
	Devices []DeviceClients
}

// Snapshot asks for all servers, their states and their clients. A missing or silent daemon is no error but an
// answer; a refusal or an answer that cannot be understood is one.
func (c *Client) Snapshot(ctx context.Context) (Snapshot, error) {
	s := Snapshot{Time: time.Now()}
	servers, err := c.Servers(ctx)
	switch {
	case errors.Is(err, ErrNoDaemon):
		s.Daemon = sharing.AnswerNo
		return s, nil
	case errors.Is(err, ErrTimeout):
		return s, nil
	case err != nil:
		return s, err
	}
	s.Daemon = sharing.AnswerYes
	for _, pid := range servers {
		srv, err := c.serverSnapshot(ctx, pid)
		if errors.Is(err, ErrServerNotFound) {
			continue // it ended in between
		}
		if err != nil && !errors.Is(err, ErrTimeout) {
			return s, err
		}
		s.Servers = append(s.Servers, srv)
	}
	return s, nil
}

func (c *Client) serverSnapshot(ctx context.Context, pid int) (ServerSnapshot, error) {
	s := ServerSnapshot{Server: pid}
	state, err := c.ServerStatus(ctx, pid)
	if err != nil {
		return s, err
	}
	clients, err := c.Clients(ctx, pid)
	if err != nil {
		return s, err
	}
	devices, err := c.DeviceClients(ctx, pid)
	if err != nil {
		return s, err
	}
	s.State, s.Clients, s.Devices = state, clients, devices
	return s, nil
}
