// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package cudaprobe

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
)

// Site is this machine's GPU. Its processes are started when needed and kept until Close. It is not safe for concurrent
// use.
type Site struct {
	opts    Options
	folder  string // of the daemon's sockets and logs
	info    probe.Info
	rates   map[string]float64
	plain   []*process  // without MPS
	daemon  *mps.Daemon // of its own
	client  *mps.Client // talks to the daemon
	clients []*process  // of the daemon
}

var errNoChild = errors.New("cudaprobe: main does not call cudaprobe.Child")

// Open checks that the GPU can be probed. The caller must call Close.
func Open(ctx context.Context, opts Options) (*Site, error) {
	if !asked.Load() {
		return nil, errNoChild
	}
	// The daemon's sockets need a short path on a local file system.
	folder, err := os.MkdirTemp("", "cotenant-probe-")
	if err != nil {
		return nil, err
	}
	s := &Site{opts: opts, folder: folder}
	first, err := s.start(ctx, s.environ(cmp.Or(opts.UUID, fmt.Sprint(opts.Device))))
	if err == nil {
		s.plain, s.info = []*process{first}, *first.hello.Info
		var a response
		a, err = first.ask(ctx, request{Tune: true}, tuneTime)
		s.rates = a.Rates
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.info.Others = opts.Others
	return s, nil
}

// How long a process may take to measure its rates, to start, and beyond a task.
const (
	tuneTime = 20 * time.Second
	initTime = 60 * time.Second
	extra    = 15 * time.Second
)

// environ is the environment of a process that is no client of any daemon, on the GPU of that index or UUID.
func (s *Site) environ(device string) []string {
	// A pipe directory without a daemon keeps it from becoming a client of another daemon that runs in the default one.
	env, err := mps.ClientEnvironment{PipeDirectory: filepath.Join(s.folder, "none")}.Environ(os.Environ())
	if err != nil {
		env = os.Environ()
	}
	return append(env, childVariable+"=1", "CUDA_DEVICE_ORDER=PCI_BUS_ID", mps.EnvVisibleDevices+"="+device)
}

// Basis returns sharing.BasisMeasured.
func (s *Site) Basis() sharing.Basis { return sharing.BasisMeasured }

// Info describes the GPU as Open found it.
func (s *Site) Info(context.Context) (probe.Info, error) { return s.info, nil }

// Run implements probe.Site.
func (s *Site) Run(ctx context.Context, m sharing.Mechanism, tasks ...probe.Task) ([]probe.Reading, error) {
	processes, err := s.processes(ctx, m, len(tasks))
	if err != nil {
		return nil, err
	}
	readings, errs := make([]probe.Reading, len(tasks)), make([]error, len(tasks))
	var wg sync.WaitGroup
	for i, t := range tasks {
		wg.Go(func() {
			a, err := processes[i].ask(ctx, request{Task: &t, Rates: s.rates}, t.Delay+16*t.For+extra)
			if errs[i] = err; err != nil {
				processes[i].stop() // after an error of a kernel its context fails for ever
				return
			}
			readings[i] = *a.Reading
		})
	}
	wg.Wait()
	return readings, errors.Join(errs...)
}

// processes are at least n that live, each with a context of its own.
func (s *Site) processes(ctx context.Context, m sharing.Mechanism, n int) ([]*process, error) {
	list, env := &s.plain, s.environ(s.info.UUID)
	if m == sharing.MechanismMPS {
		if err := s.startDaemon(ctx); err != nil {
			return nil, fmt.Errorf("MPS: %w", err)
		}
		list, env = &s.clients, s.clientEnviron()
	}
	*list = slices.DeleteFunc(*list, func(p *process) bool { return p.dead })
	for len(*list) < n {
		p, err := s.start(ctx, env)
		if err != nil {
			return nil, err
		}
		*list = append(*list, p)
		if m == sharing.MechanismMPS {
			if err := s.verify(ctx, p); err != nil {
				return nil, err
			}
		}
	}
	return *list, nil
}

// startDaemon starts a control daemon, if it does not run yet, when the processes without MPS have left the GPU.
func (s *Site) startDaemon(ctx context.Context) (err error) {
	if s.client != nil {
		return nil
	}
	stopAll(&s.plain)
	program := s.opts.Program
	if program == nil {
		program = &mps.Program{}
		if _, err := exec.LookPath(controlProgram); err != nil {
			program.Path = driversControl
		}
	}
	if s.opts.Pipe != "" {
		s.client, err = mps.NewClient(mps.Options{Runner: program, PipeDirectory: s.opts.Pipe})
		return err
	}
	s.daemon, err = mps.Start(ctx, mps.DaemonOptions{Program: program, PipeDirectory: filepath.Join(s.folder, "pipe"),
		LogDirectory:   filepath.Join(s.folder, "log"),
		VisibleDevices: []string{s.info.UUID}})
	if err == nil {
		s.client = s.daemon.Client()
	}
	return err
}

// Where containers have the control program when it is not on the PATH.
const (
	controlProgram = "nvidia-cuda-mps-control"
	driversControl = "/usr/local/nvidia/bin/" + controlProgram
)

// clientEnviron is the environment of an MPS client.
func (s *Site) clientEnviron() []string {
	pipe := s.client.PipeDirectory()
	env, err := mps.ClientEnvironment{PipeDirectory: pipe, DaemonPipeDirectory: pipe}.Environ(os.Environ())
	if err != nil {
		env = append(os.Environ(), mps.EnvPipeDirectory+"="+pipe)
	}
	return append(env, childVariable+"=1")
}

// verify makes sure that a process is a client: one that cannot reach its daemon runs without MPS and reports nothing.
func (s *Site) verify(ctx context.Context, p *process) error {
	m, err := s.client.Verify(ctx, p.cmd.Process.Pid, mps.VerifyOptions{Wait: 5 * time.Second})
	if err != nil {
		return fmt.Errorf("MPS: %w", err)
	}
	if m.Client == sharing.AnswerNo {
		return errors.New("MPS: the process runs without MPS, so nothing can be measured")
	}
	return nil
}

// spinFor bounds one spin of the neighbour, after which it is asked to go on.
const spinFor = 2 * time.Second

// NextToSpinner calls run while a process of the probe spins on the GPU without MPS: other work alternates with it.
// From the lengths of a workload's decode step, isolated and in run, predict.Predictor.SlicesNextToSpinner counts its
// time slices. If the neighbour fails, run's ctx ends, and the error has the reason.
func (s *Site) NextToSpinner(ctx context.Context, run func(ctx context.Context) error) error {
	processes, err := s.processes(ctx, sharing.MechanismTimeSlicing, 1)
	if err != nil {
		return err
	}
	p := processes[0]
	spin := func(d time.Duration) error {
		_, err := p.ask(ctx, request{Task: &probe.Task{Kind: probe.KindSpin, For: d}}, 16*d+extra)
		return err
	}
	if err := spin(time.Millisecond); err != nil { // it is there before run begins
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	spun := make(chan struct{})
	go func() {
		defer close(spun)
		for ctx.Err() == nil {
			if err := spin(spinFor); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("the spinning neighbour: %w", err))
			}
		}
	}()
	err = run(ctx)
	failed := context.Cause(ctx)
	cancel(nil) // ends the neighbour without a wait for its kernel
	<-spun
	if failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// Close ends the processes and the daemon.
func (s *Site) Close() error {
	stopAll(&s.plain)
	stopAll(&s.clients)
	var err error
	if s.daemon != nil {
		_, err = s.daemon.Stop(context.Background(), 5*time.Second)
		s.daemon, s.client = nil, nil
	}
	return errors.Join(err, os.RemoveAll(s.folder))
}

func stopAll(list *[]*process) {
	var wg sync.WaitGroup
	for _, p := range *list {
		wg.Go(p.stop)
	}
	wg.Wait()
	*list = nil
}

// process is the program, started again.
type process struct {
	cmd     *exec.Cmd
	in      *json.Encoder
	close   func() error // of its input
	answers chan response
	stderr  bytes.Buffer
	hello   response
	dead    bool // it did not answer and was killed
}

func (s *Site) start(ctx context.Context, env []string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self), answers: make(chan response, 1)}
	p.cmd.Env, p.cmd.Stderr = env, &p.stderr
	// A Ctrl-C is for the program, which ends its processes in order. They end by
	// themselves when it does, since that closes their input.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.close = json.NewEncoder(stdin), stdin.Close
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.answers)
		for d := json.NewDecoder(bufio.NewReader(stdout)); ; {
			var a response
			if d.Decode(&a) != nil {
				return
			}
			p.answers <- a
		}
	}()
	if p.hello, err = p.answer(ctx, initTime); err == nil && p.hello.Info == nil {
		err = errors.New("cudaprobe: the process of the probe does not speak its language")
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// ask sends a request and waits for its answer. A process that does not answer in time is killed.
func (p *process) ask(ctx context.Context, q request, within time.Duration) (response, error) {
	if err := p.in.Encode(q); err != nil {
		p.kill()
		return response{}, fmt.Errorf("cudaprobe: a process of the probe has ended: %w: %s", err, p.stderr.String())
	}
	return p.answer(ctx, within)
}

func (p *process) answer(ctx context.Context, within time.Duration) (response, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case a, ok := <-p.answers:
		if ok {
			return a, a.err()
		}
		p.kill()
		return a, fmt.Errorf("cudaprobe: a process of the probe ended without an answer: %s",
			bytes.TrimSpace(p.stderr.Bytes()))
	case <-timer.C:
		p.kill()
		return response{}, fmt.Errorf("cudaprobe: a process of the probe did not answer in %v", within)
	case <-ctx.Done():
		p.kill()
		return response{}, context.Cause(ctx)
	}
}

// kill ends a process that cannot be used any more.
func (p *process) kill() {
	p.dead = true
	_ = p.cmd.Process.Kill() // it may have ended already
	_ = p.cmd.Wait()
}

// stop ends the process when it has finished its task.
func (p *process) stop() {
	if p.dead {
		return
	}
	_ = p.close()
	late := time.AfterFunc(extra, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	for range p.answers {
	}
	_ = p.cmd.Wait() // its answers have been read
	p.dead = true
}
