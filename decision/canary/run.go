package canary

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"time"

	"github.com/cotenant/cotenant/decision/guard"
)

// Why nothing is done: all are ErrWithheld, which is also a dry run, a kill switch or a log that disagrees with its
// state.
var (
	ErrWithheld = errors.New("canary: nothing was done")
	ErrConsent  = fmt.Errorf("%w: an owner has not agreed", ErrWithheld)
	ErrBusy     = fmt.Errorf("%w: another canary is on this GPU", ErrWithheld)
	// ErrSpent says that the day's bound on wrong take-backs is spent.
	ErrSpent = fmt.Errorf("%w: as many canaries were begun within a day as the plan allows", ErrWithheld)
)

// Source gives one look after another.
type Source interface {
	// Next waits for the next look. Its At counts from the source's beginning, by a clock that does not jump.
	Next(ctx context.Context) (Look, error)
}

// RunOptions are the options of Run.
type RunOptions struct {
	// Reload returns the plan as it stands now: where an owner has withdrawn in it the newcomer is taken back. One
	// that cannot be read changes nothing. nil = it does not change.
	Reload func() (Plan, error)
	// Told is called after each look; its error ends Run, and the newcomer stays until Run is called again.
	Told func(Result) error
	// Again begins anew with a newcomer whose canary is over; without it Run returns what that came to.
	Again bool
	// Retry is the time after which a step that failed is tried again; 0 is 30 s.
	Retry time.Duration
	// Settle leaves a step that was begun when the program was killed time to end by itself, before the
	// newcomer is taken back; 0 is 10 s.
	Settle time.Duration
}

// keepEvery is the time after which what was counted is saved.
const keepEvery = 10 * time.Second

// runner carries one canary out.
type runner struct {
	*Canary
	actor guard.Actor
	src   Source
	opts  RunOptions
	zero  time.Duration // At of the source's look when the newcomer was placed
	kept  time.Duration
}

// Run carries a plan out: it looks at the neighbours, has the newcomer placed, looks on, has it promoted or taken
// back, and watches on what was promoted. Each step is recorded by the actor's log before it is tried. Called again
// after the program ended, Run goes on with what was counted; a newcomer of which the log does not say that its
// placing ended is taken back. It ends with ctx, and then leaves the newcomer where it is until it is called again.
func Run(ctx context.Context, p Plan, a *guard.Actor, src Source, opts RunOptions) (Result, error) {
	c, err := New(p)
	if err != nil {
		return Result{}, err
	}
	if who := p.withdrawn(); who != "" {
		return c.Result(), fmt.Errorf("%w: %s (set agreed: true when they have)", ErrConsent, who)
	}
	if a.Log == nil {
		return c.Result(), fmt.Errorf("%w: no audit log", ErrWithheld)
	}
	r := &runner{Canary: c, actor: *a, src: src, opts: opts}
	r.actor.Hooks = p.hooks()
	r.opts.Retry, r.opts.Settle = cmp.Or(opts.Retry, 30*time.Second), cmp.Or(opts.Settle, 10*time.Second)
	known, placed := a.Log.Canaries()
	state, there := known[p.Tenants[0].Name]
	for name, other := range known {
		if name != p.Tenants[0].Name && other.GPU == p.GPU && !other.Over() {
			return c.Result(), fmt.Errorf("%w: %s on GPU %d (end that one first)", ErrBusy, name, p.GPU)
		}
	}
	switch {
	case state.Over() && state.Action == guard.ActionTakeBack && !opts.Again:
		c.Withdraw("it was taken back before; the log has the reason")
		return c.Result(), nil
	case !there || state.Over() && opts.Again:
		if placed >= c.plan.PerDay {
			return c.Result(), fmt.Errorf("%w: %d (wait, or raise canaries_per_day)", ErrSpent, placed)
		}
		if err := r.place(ctx); err != nil {
			return c.Result(), err
		}
	case state.Action == guard.ActionPlace && !state.Done:
		if err := wait(ctx, r.opts.Settle); err != nil {
			return c.Result(), err
		}
		c.Withdraw("the program ended while it was placed: nobody knows how far that came")
	case state.Action == guard.ActionTakeBack:
		c.Withdraw("the program ended while it was taken back")
	default:
		if err := r.resume(ctx, &state); err != nil {
			return c.Result(), err
		}
	}
	return r.look(ctx)
}

// hooks returns the plan's hooks, or kubectl's; what has none is only recorded.
func (p *Plan) hooks() map[guard.Action][]string {
	h := map[guard.Action][]string{guard.ActionPlace: {}, guard.ActionPromote: {}, guard.ActionTakeBack: {}}
	if p.Manifest != "" {
		h[guard.ActionPlace] = []string{"kubectl", "apply", "-f", p.Manifest}
		h[guard.ActionTakeBack] = []string{"kubectl", "delete", "--ignore-not-found", "-f", p.Manifest}
	}
	maps.Copy(h, p.Hooks)
	return h
}

// act carries a step out, whatever becomes of ctx.
func (r *runner) act(ctx context.Context, action guard.Action, why string) (done bool, withheld string, err error) {
	newcomer := &r.plan.Tenants[0]
	p := guard.Proposal{
		At: max(0, r.at), Action: action, GPU: r.plan.GPU, Target: newcomer.Name, Owner: newcomer.Owner,
		Evidence: []string{why}, Effect: fmt.Sprintf("wrongly in at most %v of canaries promoted, of days taken back %v",
			r.plan.WrongPromotion, r.plan.WrongTakeBack),
	}
	done, err = r.actor.Act(context.WithoutCancel(ctx), &p)
	return done, p.Withheld, err
}

// place looks at the neighbours as long as the plan says, and has the newcomer placed.
func (r *runner) place(ctx context.Context) error {
	for {
		l, err := r.src.Next(ctx)
		if err != nil {
			return err
		}
		if r.zero = l.At; l.At >= r.plan.Before {
			break
		}
		l.At -= r.plan.Before
		r.Look(l)
	}
	done, withheld, err := r.act(ctx, guard.ActionPlace, "the plan")
	known, _ := r.actor.Log.Canaries()
	switch _, tried := known[r.plan.Tenants[0].Name]; {
	case err != nil:
		return err
	case !done && (!tried || r.actor.Log.Stopped() != ""):
		return fmt.Errorf("%w: %s", ErrWithheld, withheld)
	case !done:
		r.Withdraw("it could not be placed: " + withheld)
	}
	return nil
}

// resume goes on with a newcomer that was placed.
func (r *runner) resume(ctx context.Context, state *guard.Canary) error {
	if len(state.Kept) > 0 {
		if err := r.Restore(state.Kept); err != nil {
			r.Withdraw(err.Error())
		}
	}
	if state.Action == guard.ActionPromote && r.verdict == KeepLooking {
		r.verdict, r.reason, r.moved = Promote, allKept, r.Result().At
	}
	l, err := r.src.Next(ctx)
	r.zero = l.At - max(0, r.at)
	if err == nil && r.verdict == Promote && (state.Action != guard.ActionPromote || !state.Done) {
		err = r.carryOut(ctx, guard.ActionPromote) // the program may have ended between the verdict and its step
	}
	return err
}

// look looks until nothing is left to look for.
func (r *runner) look(ctx context.Context) (Result, error) {
	for !r.done {
		l, err := r.src.Next(ctx)
		if err != nil {
			return r.Result(), err
		}
		before := r.verdict
		l.At -= r.zero
		ended := r.Look(l) != KeepLooking && before == KeepLooking
		if r.opts.Reload != nil {
			if p, err := r.opts.Reload(); err == nil && p.withdrawn() != "" && !r.done {
				r.Withdraw("consent was withdrawn: " + p.withdrawn())
			}
		}
		if ended {
			if err = r.keep(); err == nil && r.verdict == Promote {
				err = r.carryOut(ctx, guard.ActionPromote)
			}
		} else if r.at-r.kept >= keepEvery && !r.done {
			err = r.keep()
		}
		if err == nil && r.opts.Told != nil {
			err = r.opts.Told(r.Result())
		}
		if err != nil {
			return r.Result(), err
		}
	}
	if r.verdict == Promote {
		return r.Result(), nil
	}
	return r.Result(), r.carryOut(ctx, guard.ActionTakeBack)
}

// keep saves what was counted.
func (r *runner) keep() error {
	data, err := r.Snapshot()
	if r.kept = r.at; err != nil {
		return err
	}
	return r.actor.Log.Keep(r.plan.Tenants[0].Name, data)
}

// carryOut tries a step until it is done.
func (r *runner) carryOut(ctx context.Context, action guard.Action) error {
	for {
		done, withheld, err := r.act(ctx, action, r.reason)
		if done || err != nil {
			return err
		}
		if err := wait(ctx, r.opts.Retry); err != nil {
			return fmt.Errorf("canary: %s of %s is not done: %s: %w", action, r.plan.Tenants[0].Name, withheld, err)
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Listen serves Handler at a TCP address until stop is called.
func Listen(address string, result func() Result) (stop func() error, err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("canary: %w", err)
	}
	srv := &http.Server{Handler: Handler(result), ReadTimeout: time.Minute}
	go srv.Serve(l) // its error is that of Close
	return srv.Close, nil
}

// Handler answers requests with where a canary stands, as JSON with the field answer: pass, fail or wait. An Argo
// Rollouts web metric reads {$.answer}; for Flagger's webhooks, which know only the status, /gate answers 200, 409 or
// 425. The function must be safe for concurrent use.
func Handler(result func() Result) http.Handler {
	status := map[string]int{"pass": http.StatusOK, "fail": http.StatusConflict, "wait": http.StatusTooEarly}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		res := result()
		body, err := json.Marshal(struct {
			Answer string `json:"answer"`
			Result
		}{res.Answer(), res})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/gate" {
			w.WriteHeader(status[res.Answer()])
		}
		_, _ = w.Write(body) // who asked may have gone
	})
}
