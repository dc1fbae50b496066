// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// verify reads an audit log and nothing else, and returns a line for each action before which a condition of the
// package's documentation does not hold by what the log says: rules that were recorded, a fresh reading, an alarm,
// the cool-down and the budget, and before a reaping the consent, a notice that was carried out early enough, and
// an idle time that was observed.
func verify(r io.Reader) (problems []string, err error) {
	v := verifier{notices: map[string]time.Time{}, last: map[int]time.Time{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		if n++; len(lines.Bytes()) == 0 {
			continue
		}
		var e auditEntry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			problems = append(problems, fmt.Sprintf("line %d: %v", n, err))
			continue
		}
		for _, p := range v.entry(&e) {
			problems = append(problems, fmt.Sprintf("line %d: %s %s: %s", n, e.Action, e.Target, p))
		}
	}
	if err := lines.Err(); err != nil {
		return problems, fmt.Errorf("line %d: %w: it is no audit log", n+1, err)
	}
	if v.seq == 0 && len(problems) == 0 {
		err = errors.New("there is no entry, so that nothing can be said")
	}
	return problems, err
}

// verifier holds what the log said so far.
type verifier struct {
	seq     int64
	rules   *loggedRules
	trying  *auditEntry
	acts    []time.Time
	last    map[int]time.Time    // the last cap or move of a GPU
	notices map[string]time.Time // that were carried out, by tenant
}

func (v *verifier) entry(e *auditEntry) (problems findings) {
	bad := problems.add
	bad(e.Seq <= v.seq || e.Seq != v.seq+1 && e.Event != eventAcknowledged, "entry %d follows entry %d", e.Seq, v.seq)
	v.seq = e.Seq
	switch e.Event {
	case eventBegin:
		bad(v.trying != nil, "a program began while an action was tried, and nothing says how it ended")
		bad(e.Rules == nil, "no rules")
		v.rules = e.Rules
	case eventTrying:
		bad(v.trying != nil, "it was tried while another action was")
		v.trying = e
		if e.Action != ActionNotice {
			problems = append(problems, v.act(e)...)
		}
	case eventDone, eventFailed, eventUnfinished:
		same := v.trying != nil && v.trying.Action == e.Action && v.trying.Target == e.Target
		bad(!same, "it ended without having been tried")
		if v.trying = nil; e.Event == eventDone && e.Action == ActionNotice {
			v.notices[e.Target] = e.Time
		}
	case eventAcknowledged:
		v.trying = nil
	case eventProposed, eventWithheld:
	default:
		bad(true, "%.40q is no event", e.Event)
	}
	return problems
}

type findings []string

func (f *findings) add(wrong bool, format string, args ...any) {
	if wrong {
		*f = append(*f, fmt.Sprintf(format, args...))
	}
}

// act checks the conditions of an action that is about to be tried.
func (v *verifier) act(e *auditEntry) (problems findings) {
	bad := problems.add
	r, c := v.rules, e.Checks
	if r == nil || c == nil {
		return []string{"no rules, or no checks, are recorded before it"}
	}
	bad(!e.Action.Acts(), "it is only ever proposed")
	bad(e.Withheld != "", "it was withheld: %s", e.Withheld)
	bad(c.ReadingAge < 0 || c.ReadingAge >= r.Window, "the newest reading was %v old", c.ReadingAge)
	v.acts = slices.DeleteFunc(v.acts, func(at time.Time) bool { return e.Time.Sub(at) > time.Hour-r.Window })
	bad(len(v.acts) >= r.Budget, "%d actions in the hour before (the budget is %d)", len(v.acts), r.Budget)
	v.acts = append(v.acts, e.Time)
	if e.Action != ActionReap {
		before, acted := v.last[e.GPU]
		bad(acted && e.Time.Sub(before) < r.Cooldown-r.Window, "%v after the last one on GPU %d", e.Time.Sub(before), e.GPU)
		bad(c.Windows < r.Slow || !(c.TPOT > c.Limit), "no alarm: %d windows, %s of %s", c.Windows, ms(c.TPOT), ms(c.Limit))
		v.last[e.GPU] = e.Time
		return problems
	}
	told, ok := v.notices[e.Target]
	bad(!r.Reap, "reaping is off")
	bad(!slices.Contains(r.MayBeReaped, e.Target), "the owner has not agreed")
	bad(c.Idle < r.Policy.ReapAfter, "idle for %v only", c.Idle)
	bad(c.Watched < watchedPart, "%.0f%% of the idle time was observed", 100*c.Watched)
	bad(!ok || told.Before(e.Time.Add(-c.Idle-r.Window)), "no notice of this idle time was carried out")
	bad(ok && e.Time.Sub(told) < r.Policy.ReapAfter-noticeAfter(r.Policy)-r.Window, "the owner was told %v before", e.Time.Sub(told))
	return problems
}
