// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/plaintext"
)

// hookTime bounds a hook, where the Actor does not.
const hookTime = 30 * time.Second

// Actor carries out proposals, and records everything first. The zero Actor does nothing.
type Actor struct {
	Apply bool   // false: everything is withheld
	Kill  string // path of a file; while it exists, nothing is done
	Hooks map[Action][]string
	Log   *Log // where everything is recorded; without one nothing is done
	// Timeout bounds a hook; 0 is 30 s.
	Timeout time.Duration

	try func(context.Context, *Proposal) error // instead of hooks; nil = none
}

func (a *Actor) write(event event, p *Proposal, err error) error {
	if a.Log == nil {
		return nil
	}
	entry := auditEntry{Event: event, Proposal: *p}
	if err != nil {
		entry.Error = err.Error()
	}
	return a.Log.write(entry)
}

// Act carries out a proposal where it may, and says whether it did; where it may not it sets p.Withheld. An audit
// log that cannot be written is an error, and nothing is done unrecorded.
func (a *Actor) Act(ctx context.Context, p *Proposal) (done bool, err error) {
	if p.Action == ActionKeep || p.Action == ActionSplit {
		return false, a.write(eventProposed, p, nil)
	}
	if p.Withheld == "" {
		switch _, err := os.Stat(a.Kill); {
		case !a.Apply:
			p.Withheld = "dry run"
		case a.Log == nil:
			p.Withheld = "no audit log"
		case a.Log.stopped != "":
			p.Withheld = a.Log.stopped
		case a.Kill != "" && !errors.Is(err, os.ErrNotExist):
			p.Withheld = "kill switch: " + a.Kill
		case a.try == nil && len(a.Hooks[p.Action]) == 0:
			p.Withheld = "no hook for " + string(p.Action)
		}
	}
	if p.Withheld != "" {
		return false, a.write(eventWithheld, p, nil)
	}
	if err := a.write(eventTrying, p, nil); err != nil {
		return false, err
	}
	if a.Log.stopped != "" { // it was not recorded
		p.Withheld = a.Log.stopped
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.Timeout, hookTime))
	defer cancel()
	if a.try != nil {
		err = a.try(ctx, p)
	} else {
		err = runHook(ctx, a.Hooks[p.Action], p)
	}
	if err != nil {
		p.Withheld = "failed: " + err.Error()
		return false, a.write(eventFailed, p, err)
	}
	return true, a.write(eventDone, p, nil)
}

// runHook runs a command without a shell: the proposal is its standard input as JSON, and GUARD_ACTION, GUARD_TARGET,
// GUARD_GPU, GUARD_PERCENT, GUARD_TO and GUARD_PODS are in its environment.
func runHook(ctx context.Context, hook []string, p *Proposal) error {
	in, err := json.Marshal(p)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, hook[0], hook[1:]...)
	cmd.WaitDelay = time.Second
	group(cmd)
	cmd.Stdin = bytes.NewReader(in)
	cmd.Env = append(os.Environ(),
		"GUARD_ACTION="+string(p.Action), "GUARD_TARGET="+p.Target, "GUARD_GPU="+strconv.Itoa(p.GPU))
	if p.Percent > 0 {
		cmd.Env = append(cmd.Env, "GUARD_PERCENT="+strconv.FormatFloat(p.Percent, 'g', -1, 64))
	}
	if p.To != nil {
		cmd.Env = append(cmd.Env, "GUARD_TO="+strconv.Itoa(*p.To))
	}
	if len(p.Pods) > 0 {
		cmd.Env = append(cmd.Env, "GUARD_PODS="+strings.Join(p.Pods, " "))
	}
	out, err := cmd.CombinedOutput()
	output := plaintext.Show(strings.TrimSpace(string(out)))
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s: timed out; %s, and it may have done all, a part or nothing of the %s: %.200s",
			hook[0], ended, p.Action, output)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %.200s", hook[0], err, output)
	}
	return nil
}
