package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/sharing"
)

// wrongPipe is a pipe directory where no daemon is.
const wrongPipe = "/tmp/nvidia-mps-wrong"

// step is one line of the scenario's report.
type step struct {
	Step   string `json:"step"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

type scenarioReport struct {
	Simulated bool   `json:"simulated"`
	Steps     []step `json:"steps"`
}

// player plays the steps on the fake daemon and keeps their report.
type player struct {
	c        *config
	fake     *mpstest.Daemon
	client   *mps.Client
	environs map[int][]string // of the started processes
	report   scenarioReport
	a, b     app
	failed   bool
}

// app is a process of the scenario.
type app struct {
	d   *mpstest.Daemon
	pid int
}

func (a app) Signal(s os.Signal) error {
	if s == os.Kill {
		a.d.Kill(a.pid)
	} else {
		a.d.Exit(a.pid)
	}
	return nil
}

func (c *config) demo() (err error) {
	c.percent = cmp.Or(c.percent, 50)
	c.memory = cmp.Or(c.memory, 16*sharing.GiB)
	p := &player{c: c, environs: map[int][]string{}, report: scenarioReport{Simulated: true},
		fake: mpstest.New(mpstest.Options{PipeDirectory: c.pipe, KillEffect: mpstest.KillFaults})}
	p.client, err = mps.NewClient(mps.Options{Runner: p.fake, PipeDirectory: c.pipe, Timeout: c.timeout,
		GPUs: p.fake.GPUs()})
	if err != nil {
		return err
	}
	p.play()
	if err := c.print(p.report, func(io.Writer) {}); err != nil {
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

// do plays one step and reports it at once. It is passed over when an earlier one failed.
func (p *player) do(name string, f func() (string, error)) {
	if p.failed || p.c.ctx.Err() != nil {
		return
	}
	p.always(name, f)
}

// always plays a step whatever happened before.
func (p *player) always(name string, f func() (string, error)) {
	detail, err := f()
	st := step{Step: name, OK: err == nil, Detail: detail}
	if err != nil {
		st.Detail = strings.TrimSpace(detail + " " + err.Error())
		p.failed = true
	}
	p.report.Steps = append(p.report.Steps, st)
	if p.c.json {
		return
	}
	mark := map[bool]string{true: "ok  ", false: "FAIL"}[st.OK]
	fmt.Fprint(p.c.stdout, page.Fold(fmt.Sprintf("%s %s: %s\n", mark, name, st.Detail)))
}

func (p *player) play() {
	p.do("start a daemon of its own", func() (string, error) {
		servers, err := p.client.Servers(p.c.ctx)
		return fmt.Sprintf("it answers, servers: %v", servers), err
	})
	p.do("limit the clients to come", p.limit)
	p.do("start client a", func() (string, error) { return p.join(&p.a, "a") })
	p.do("start client b", func() (string, error) { return p.join(&p.b, "b") })
	p.do("verify a", func() (string, error) { return p.verify(p.a) })
	p.do("verify b", func() (string, error) { return p.verify(p.b) })
	p.do("refuse the trap 0=2G,1=4G", p.trap)
	p.do("report a wrong pipe directory", p.stray)
	p.do("terminate b, then end it", p.terminate)
	p.do("a keeps answering", func() (string, error) { return "it does", p.fake.Work(p.a.pid) })
	p.do("start client b again", func() (string, error) { return p.join(&p.b, "b") })
	p.do("kill -9 b and look", p.kill)
	p.do("back to ACTIVE", p.recover)
	p.always("stop", p.stop)
}

func (p *player) limit() (string, error) {
	if err := p.client.SetActiveThreadPercentage(p.c.ctx, 0, p.c.percent); err != nil {
		return "", err
	}
	if err := p.client.SetPinnedMemLimit(p.c.ctx, 0, p.c.device, p.c.memory); err != nil {
		return "", err
	}
	return fmt.Sprintf("%g%% of the threads and %v, read back", p.c.percent, p.c.memory), nil
}

// start starts a process; variables come after those of a client and win.
func (p *player) start(name string, variables ...string) (app, error) {
	pipe := p.client.PipeDirectory()
	environ, err := mps.ClientEnvironment{PipeDirectory: pipe, DaemonPipeDirectory: pipe, GPUs: p.fake.GPUs()}.
		Environ(os.Environ())
	if err != nil {
		return app{}, err
	}
	environ = append(environ, variables...)
	v, err := p.fake.Connect(mpstest.Process{Env: environ, Command: "./" + name})
	p.environs[v.PID] = environ
	return app{p.fake, v.PID}, err
}

func (p *player) join(a *app, name string) (detail string, err error) {
	*a, err = p.start(name)
	return fmt.Sprintf("process %d answers", a.pid), err
}

func (p *player) membership(a app) (mps.Membership, error) {
	return p.client.Verify(p.c.ctx, a.pid, mps.VerifyOptions{
		Environ: func(pid int) ([]string, error) { return p.environs[pid], nil },
	})
}

func (p *player) verify(a app) (string, error) {
	m, err := p.membership(a)
	if err == nil {
		err = m.Require()
	}
	if err == nil && (threads(m) == "-" || len(m.ServerLimits) == 0) {
		err = fmt.Errorf("process %d is a client without limits: %+v", m.PID, m)
	}
	return fmt.Sprintf("process %d is a client of server %d (%v) under %s and %s", m.PID, m.Server, m.ServerState,
		threads(m), memory(m.ServerLimits)), err
}

func (p *player) trap() (string, error) {
	limits, err := mps.ParsePinnedMemLimits("0=2G,1=4G")
	if err != nil {
		return "", err
	}
	_, err = mps.ClientEnvironment{GPUs: p.fake.GPUs()[:1], PinnedMemLimits: limits}.Build()
	if !errors.Is(err, mps.ErrInvalid) {
		return "", fmt.Errorf("the builder took it: %v", err)
	}
	return "refused: " + strings.TrimPrefix(err.Error(), "mps: invalid request: "), nil
}

func (p *player) stray() (string, error) {
	a, err := p.start("stray", mps.EnvPipeDirectory+"="+wrongPipe)
	if err != nil {
		return "", err
	}
	m, err := p.membership(a)
	if err == nil && m.Client != sharing.AnswerNo {
		err = fmt.Errorf("the daemon's lists say that %d is a client", a.pid)
	}
	return "not a client: " + m.Reason, errors.Join(err, a.Signal(os.Kill)) // no MPS client, so no harm
}

// end terminates a client on the daemon, then ends its process.
func (p *player) end(ctx context.Context, a app) (server int, r mps.StopReport, err error) {
	servers, err := p.client.Servers(ctx)
	if err == nil && len(servers) != 1 {
		err = fmt.Errorf("%d servers", len(servers))
	}
	if err != nil {
		return 0, r, err
	}
	r, err = p.client.StopClient(ctx, servers[0], a.pid, mps.StopOptions{Process: a, Kill: true, Grace: p.c.grace})
	return servers[0], r, err
}

func (p *player) terminate() (string, error) {
	server, r, err := p.end(p.c.ctx, p.b)
	if err == nil && (!r.Left || r.State != mps.StateActive || !slices.Contains(r.Others, p.a.pid)) {
		err = fmt.Errorf("%+v", r)
	}
	return fmt.Sprintf("server %d is %v, clients left: %v", server, r.State, r.Others), err
}

func (p *player) kill() (string, error) {
	before, err := p.client.Snapshot(p.c.ctx)
	if err != nil {
		return "", err
	}
	p.fake.Kill(p.b.pid)
	d, err := p.client.AwaitRecovery(p.c.ctx, before, 2*time.Second, p.b.pid)
	if err == nil && !slices.Contains(d.Affected, p.a.pid) {
		err = fmt.Errorf("a shares the GPU and is not named: %+v", d)
	}
	return fmt.Sprintf("damage %v, affected %v, must exit %v, recovered %v; %s",
		d.Damage, d.Affected, d.MustExit, d.Recovered, strings.Join(d.Advice, "; ")), err
}

// recover ends the client that must have exited before others are taken again.
func (p *player) recover() (string, error) {
	before, err := p.client.Snapshot(p.c.ctx)
	if err != nil {
		return "", err
	}
	answers := p.fake.Work(p.a.pid) == nil
	why := fmt.Sprintf("damage %v, a answers: %v; a (%d) ends", mps.Diagnose(before, before).Damage, answers, p.a.pid)
	p.fake.Kill(p.a.pid)
	d, err := p.client.AwaitRecovery(p.c.ctx, before, 20*time.Second, p.a.pid, p.b.pid)
	if err == nil && d.Recovered != sharing.AnswerYes {
		err = fmt.Errorf("the server takes no client: %+v", d)
	}
	if err != nil {
		return why, err
	}
	detail, err := p.join(&p.a, "a")
	return why + ", a new a: " + detail, err
}

func (p *player) stop() (string, error) {
	ctx := context.WithoutCancel(p.c.ctx)
	var errs []error
	if p.a.pid != 0 {
		_, _, err := p.end(ctx, p.a)
		errs = append(errs, err)
	}
	graceful, err := p.client.Quit(ctx, time.Second)
	if errs = append(errs, err); !graceful {
		errs = append(errs, errors.New("it had to be forced"))
	}
	return "the daemon has ended, its servers with it", errors.Join(errs...)
}
