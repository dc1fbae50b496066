package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/sharing"
)

// app is a client of the scenario, a real process or a fake one.
type app interface {
	PID() int
	Signal(os.Signal) error
	// Answer answers a request with GPU work, or says why it cannot.
	Answer(context.Context) error
	// Ended waits until the process has ended: it leaves the daemon's list
	// before it gives up its port.
	Ended(context.Context) error
}

// stage is the machine of the scenario, real or simulated.
type stage struct {
	client  *mps.Client
	gpus    []mps.GPU // what clients see
	wrong   string    // a pipe directory where no daemon is
	start   func(name string, environ []string) (app, error)
	verify  mps.VerifyOptions
	stop    func(context.Context) (mps.StopResult, error)
	cleanup func()
}

// step is one line of the scenario's report.
type step struct {
	Step   string                `json:"step"`
	OK     bool                  `json:"ok"`
	Detail string                `json:"detail"`
	TookMs mps.Optional[float64] `json:"took_ms,omitzero"` // absent when simulated
}

type scenarioReport struct {
	Simulated bool   `json:"simulated,omitempty"`
	Steps     []step `json:"steps"`
}

// player plays the steps and keeps their report.
type player struct {
	c      *config
	s      *stage
	report scenarioReport
	a, b   app
	failed bool
}

func (c *config) scenario() error {
	if c.percent == 0 {
		c.percent = 50
	}
	if c.memory == 0 {
		c.memory = 16 * sharing.GiB
	}
	var s *stage
	var err error
	p := &player{c: c, report: scenarioReport{Simulated: !c.real, Steps: []step{}}}
	open := c.fakeStage
	if c.real {
		open = c.realStage
	}
	p.do("start a daemon of its own", func() (string, error) {
		if s, err = open(); err != nil {
			return "", err
		}
		servers, err := s.client.Servers(c.ctx)
		return fmt.Sprintf("it answers, servers: %v", servers), err
	})
	if err != nil {
		return err
	}
	p.s = s
	defer s.cleanup()
	p.play()
	if err := p.c.print(p.report, func(io.Writer) {}); err != nil {
		return err
	}
	if c.ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d steps: %w", len(p.report.Steps), context.Cause(c.ctx))
	}
	if p.failed {
		return errors.New("the scenario failed; see the steps above")
	}
	return nil
}

// do plays one step and reports it at once. It is passed over when an earlier
// one failed.
func (p *player) do(name string, f func() (string, error)) {
	if p.failed || p.c.ctx.Err() != nil {
		return
	}
	p.always(name, f)
}

// always plays a step whatever happened before.
func (p *player) always(name string, f func() (string, error)) {
	start := time.Now()
	detail, err := f()
	st := step{Step: name, OK: err == nil, Detail: detail}
	if p.c.real {
		st.TookMs = mps.Some(float64(time.Since(start).Microseconds()) / 1000)
	}
	if err != nil {
		st.Detail = strings.TrimSpace(detail + " " + err.Error())
		p.failed = true
	}
	p.report.Steps = append(p.report.Steps, st)
	if p.c.json {
		return
	}
	mark := map[bool]string{true: "ok  ", false: "FAIL"}[st.OK]
	took := ""
	if ms, ok := st.TookMs.Get(); ok {
		took = fmt.Sprintf(" [%.0f ms]", ms)
	}
	fmt.Fprint(p.c.stdout, page.Fold(fmt.Sprintf("%s %s: %s%s\n", mark, name, st.Detail, took)))
}

func (p *player) play() {
	p.do("limit the clients to come", p.limit)
	p.do("start client a", func() (detail string, err error) { p.a, detail, err = p.join("a"); return detail, err })
	p.do("start client b", func() (detail string, err error) { p.b, detail, err = p.join("b"); return detail, err })
	p.do("verify a", func() (string, error) { return p.verify(p.a) })
	p.do("verify b", func() (string, error) { return p.verify(p.b) })
	p.do("refuse the trap 0=2G,1=4G", p.trap)
	p.do("report a wrong pipe directory", p.stray)
	p.do("terminate b, then end it", p.terminate)
	p.do("a keeps answering", func() (string, error) { return "it does", p.a.Answer(p.c.ctx) })
	p.do("start client b again", func() (detail string, err error) { p.b, detail, err = p.join("b"); return detail, err })
	p.do("kill -9 b and look", p.kill)
	p.do("back to ACTIVE", p.recover)
	p.always("stop", p.stop)
}

func (p *player) limit() (string, error) {
	if err := p.s.client.SetDefaultActiveThreadPercentage(p.c.ctx, p.c.percent); err != nil {
		return "", err
	}
	if err := p.s.client.SetDefaultPinnedMemLimit(p.c.ctx, p.c.device, p.c.memory); err != nil {
		return "", err
	}
	return fmt.Sprintf("%g%% of the threads and %v, read back", p.c.percent, p.c.memory), nil
}

// environ builds the environment of a client.
func (p *player) environ() ([]string, error) {
	pipe := p.s.client.PipeDirectory()
	return mps.ClientEnvironment{PipeDirectory: pipe, DaemonPipeDirectory: pipe, GPUs: p.s.gpus}.Environ(os.Environ())
}

// join starts a client and waits until it answers.
func (p *player) join(name string) (app, string, error) {
	environ, err := p.environ()
	if err != nil {
		return nil, "", err
	}
	a, err := p.s.start(name, environ)
	if err != nil {
		return nil, "", err
	}
	return a, fmt.Sprintf("process %d answers", a.PID()), nil
}

func (p *player) verify(a app) (string, error) {
	m, err := p.s.client.Verify(p.c.ctx, a.PID(), p.s.verify)
	if err != nil {
		return "", err
	}
	if err := m.Require(); err != nil {
		return "", err
	}
	r := p.c.report(m)
	percent, ok := r.Percent.Get()
	if !ok || len(r.Limits) == 0 {
		return "", fmt.Errorf("process %d is a client without limits: %+v", m.PID, r)
	}
	return fmt.Sprintf("process %d is a client of server %d (%v) under %g%% and %s", m.PID, m.Server, m.ServerState,
		percent, strings.Join(r.Limits, ", ")), nil
}

func (p *player) trap() (string, error) {
	limits, err := mps.ParsePinnedMemLimits("0=2G,1=4G")
	if err != nil {
		return "", err
	}
	// The trap needs a client that sees one GPU, whatever this machine has.
	gpus := []mps.GPU{{Ordinal: 0}}
	if len(p.s.gpus) > 0 {
		gpus = p.s.gpus[:1]
	}
	_, err = mps.ClientEnvironment{GPUs: gpus, PinnedMemLimits: limits}.Build()
	if !errors.Is(err, mps.ErrInvalid) {
		return "", fmt.Errorf("the builder took it: %v", err)
	}
	return "refused: " + strings.TrimPrefix(err.Error(), "mps: invalid request: "), nil
}

func (p *player) stray() (string, error) {
	environ, err := p.environ()
	if err != nil {
		return "", err
	}
	a, err := p.s.start("stray", append(environ, mps.EnvPipeDirectory+"="+p.s.wrong))
	if err != nil {
		return "", err
	}
	m, err := p.s.client.Verify(p.c.ctx, a.PID(), p.s.verify)
	if err == nil && m.Client != sharing.AnswerNo {
		err = fmt.Errorf("the daemon's lists say that %d is a client", a.PID())
	}
	return "not a client: " + m.Reason, errors.Join(err, a.Signal(os.Kill)) // no MPS client, so no harm
}

func (p *player) server() (int, error) {
	servers, err := p.s.client.Servers(p.c.ctx)
	if err == nil && len(servers) != 1 {
		err = fmt.Errorf("%d servers", len(servers))
	}
	if err != nil {
		return 0, err
	}
	return servers[0], nil
}

func (p *player) terminate() (string, error) {
	server, err := p.server()
	if err != nil {
		return "", err
	}
	r, err := p.s.client.StopClient(p.c.ctx, server, p.b.PID(), mps.StopOptions{Process: p.b, Kill: true,
		Grace: 10 * time.Second})
	if err == nil && (!r.Left || r.State != mps.StateActive || !slices.Contains(r.Others, p.a.PID())) {
		err = fmt.Errorf("%+v", r)
	}
	if err == nil {
		err = p.b.Ended(p.c.ctx)
	}
	return fmt.Sprintf("server %d is %v, clients left: %v", server, r.State, r.Others), err
}

func (p *player) kill() (string, error) {
	before, err := p.s.client.Snapshot(p.c.ctx)
	if err != nil {
		return "", err
	}
	start := time.Now()
	if err := p.b.Signal(os.Kill); err != nil {
		return "", err
	}
	d, err := p.s.client.AwaitRecovery(p.c.ctx, before, 2*time.Second, p.b.PID())
	took := ""
	if p.c.real {
		took = fmt.Sprintf(" (after %v)", time.Since(start).Round(time.Millisecond))
	}
	if err == nil && !slices.Contains(d.Affected, p.a.PID()) {
		err = fmt.Errorf("a shares the GPU and is not named: %+v", d)
	}
	return fmt.Sprintf("damage %v, affected %v, must exit %v, recovered %v%s; %s",
		d.Damage, d.Affected, d.MustExit, d.Recovered, took, strings.Join(d.Advice, "; ")), err
}

// recover makes sure that clients are taken again: at once, or after those
// that must have exited.
func (p *player) recover() (string, error) {
	before, err := p.s.client.Snapshot(p.c.ctx)
	if err != nil {
		return "", err
	}
	d := mps.Diagnose(before, before)
	if d.Damage == mps.DamageNone && d.Recovered == sharing.AnswerYes {
		if err = p.a.Answer(p.c.ctx); err == nil {
			return "the server is ACTIVE and a answers", nil
		}
	}
	why := fmt.Sprintf("damage %v, a answers: %v; a (%d) ends", d.Damage, err == nil && d.Damage == mps.DamageNone,
		p.a.PID())
	gone := []int{p.a.PID(), p.b.PID()}
	if err := p.a.Signal(os.Kill); err != nil {
		return why, err
	}
	p.a = nil
	if d, err = p.s.client.AwaitRecovery(p.c.ctx, before, 20*time.Second, gone...); err != nil {
		return why, err
	}
	if d.Recovered != sharing.AnswerYes { // it hangs: nothing is left to lose
		for _, s := range before.Servers {
			if err := p.s.client.ForceShutdownServer(p.c.ctx, s.Server); err != nil {
				return why, err
			}
		}
		why += ", the server is shut down with force"
	}
	a, detail, err := p.join("a")
	p.a = a
	return why + ", a new a: " + detail, err
}

func (p *player) stop() (string, error) {
	ctx := context.WithoutCancel(p.c.ctx)
	var errs []error
	if p.a != nil {
		if server, err := p.server(); err == nil {
			_, err = p.s.client.StopClient(ctx, server, p.a.PID(), mps.StopOptions{Process: p.a, Kill: true,
				Grace: 10 * time.Second})
			errs = append(errs, err)
		}
	}
	r, err := p.s.stop(ctx)
	errs = append(errs, err)
	if !r.Graceful {
		errs = append(errs, fmt.Errorf("it had to be forced: %+v", r))
	}
	return "the daemon has ended, its servers with it", errors.Join(errs...)
}

// fakeStage plays on the fake daemon.
func (c *config) fakeStage() (*stage, error) {
	fake := mpstest.New(mpstest.Options{PipeDirectory: c.pipe, KillEffect: mpstest.KillFaults})
	cl, err := mps.NewClient(mps.Options{Runner: fake, PipeDirectory: c.pipe, Timeout: c.timeout, GPUs: fake.GPUs()})
	if err != nil {
		return nil, err
	}
	environs := map[int][]string{}
	s := &stage{client: cl, gpus: fake.GPUs(), wrong: "/tmp/nvidia-mps-wrong", cleanup: func() {}}
	s.verify.Environ = func(pid int) ([]string, error) { return environs[pid], nil }
	s.start = func(name string, environ []string) (app, error) {
		v, err := fake.Connect(mpstest.Process{Env: environ, Command: "./" + name})
		environs[v.PID] = environ
		return fakeApp{fake, v}, err
	}
	s.stop = func(ctx context.Context) (mps.StopResult, error) {
		graceful, err := cl.Quit(ctx, time.Second)
		return mps.StopResult{Graceful: graceful}, err
	}
	return s, nil
}

type fakeApp struct {
	d *mpstest.Daemon
	v mpstest.View
}

func (a fakeApp) PID() int { return a.v.PID }

func (a fakeApp) Signal(s os.Signal) error {
	if s == os.Kill {
		a.d.Kill(a.v.PID)
	} else {
		a.d.Exit(a.v.PID)
	}
	return nil
}

func (a fakeApp) Ended(context.Context) error { return nil }

func (a fakeApp) Answer(context.Context) error { return a.d.Work(a.v.PID) }

// directories returns the flags' directories or new ones, and how to remove
// what was made.
func (c *config) directories() (pipe, log string, remove func() error, err error) {
	pipe, log = c.pipe, c.log
	if pipe != "" && log != "" {
		return pipe, log, func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "cotenant-mps-")
	if err != nil {
		return "", "", nil, err
	}
	if pipe == "" {
		pipe = filepath.Join(dir, "pipe")
	}
	if log == "" {
		log = filepath.Join(dir, "log")
	}
	return pipe, log, func() error { return os.RemoveAll(dir) }, nil
}
