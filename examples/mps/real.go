package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cotenant/cotenant/mps"
)

// realStage plays on this machine's daemon with real processes.
func (c *config) realStage() (*stage, error) {
	commands := map[string]string{"a": c.a, "b": c.b, "stray": c.stray}
	asks := map[string]string{"a": c.askA, "b": c.askB}
	for _, name := range []string{"a", "b", "stray"} {
		if len(strings.Fields(commands[name])) == 0 {
			return nil, fmt.Errorf("%w: -%s: give the command of client %s", errUsage, name, name)
		}
	}
	for _, name := range []string{"a", "b"} {
		if !strings.HasPrefix(asks[name], "http") {
			return nil, fmt.Errorf("%w: -ask-%s: give the base URL of client %s, for example http://127.0.0.1:8001", errUsage,
				name, name)
		}
	}
	pipe, log, remove, err := c.directories()
	if err != nil {
		return nil, err
	}
	d, err := mps.Start(c.ctx, mps.DaemonOptions{Program: c.program(), Runner: c.runner, PipeDirectory: pipe,
		LogDirectory: log, Timeout: c.timeout})
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	s := &stage{client: d.Client(), wrong: pipe + "-wrong"}
	s.stop = func(ctx context.Context) (mps.StopResult, error) { return d.Stop(ctx, c.grace) }
	var started []*realApp
	s.cleanup = func() {
		for _, a := range started {
			a.end()
		}
		_, err := d.Stop(context.WithoutCancel(c.ctx), 0)
		if err := errors.Join(err, remove()); err != nil {
			fmt.Fprintf(c.stderr, "mps: %v\n", err)
		}
	}
	env, err := c.environment(s.client)
	if err != nil {
		s.cleanup()
		return nil, err
	}
	s.gpus = env.GPUs
	s.start = func(name string, environ []string) (app, error) {
		a, err := c.startApp(name, commands[name], asks[name], environ, log)
		if a != nil {
			started = append(started, a)
		}
		if err != nil {
			return nil, err
		}
		return a, nil
	}
	return s, nil
}

// realApp is a process with an OpenAI-compatible API.
type realApp struct {
	cmd  *exec.Cmd
	ask  string
	out  string // file of its output
	done chan struct{}
}

// startApp starts a command, split at spaces and without a shell, and waits
// until it answers, or for one without an API until its wait is over.
func (c *config) startApp(name, command, ask string, environ []string, log string) (*realApp, error) {
	args := strings.Fields(command)
	out, err := os.OpenFile(filepath.Join(log, "client-"+name+".out"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	a := &realApp{cmd: exec.Command(args[0], args[1:]...), ask: ask, out: out.Name(), done: make(chan struct{})}
	a.cmd.Env, a.cmd.Stdout, a.cmd.Stderr = environ, out, out
	err = a.cmd.Start()
	if err := errors.Join(err, out.Close()); err != nil {
		return nil, err
	}
	go func() {
		defer close(a.done)
		_ = a.cmd.Wait() // how it ended is the scenario's own doing
	}()
	ctx, cancel := context.WithTimeoutCause(c.ctx, c.wait, fmt.Errorf("client %s did not answer within %v", name, c.wait))
	defer cancel()
	for {
		if a.ready(ctx) {
			return a, nil
		}
		select {
		case <-a.done:
			return a, fmt.Errorf("client %s ended: %s", name, a.tail())
		case <-ctx.Done():
			return a, fmt.Errorf("%w: %s", context.Cause(ctx), a.tail())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// ready reports whether the process serves: by a request, or without an API by
// a line "ready" in its output.
func (a *realApp) ready(ctx context.Context) bool {
	if a.ask != "" {
		return a.Answer(ctx) == nil
	}
	b, err := os.ReadFile(a.out)
	return err == nil && bytes.Contains(b, []byte("ready"))
}

func (a *realApp) tail() string {
	b, err := os.ReadFile(a.out)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-400):]))
}

func (a *realApp) PID() int { return a.cmd.Process.Pid }

func (a *realApp) Signal(s os.Signal) error {
	err := a.cmd.Process.Signal(s)
	if s == os.Kill && err == nil {
		<-a.done
	}
	return err
}

func (a *realApp) Ended(ctx context.Context) error {
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(10 * time.Second):
		return fmt.Errorf("process %d has left the daemon and does not end", a.PID())
	}
}

// Answer asks for a few tokens, which is work on the GPU.
func (a *realApp) Answer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	body := `{"model":"any","prompt":"one two three","max_tokens":8,"ignore_eos":true}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(a.ask, "/")+"/v1/completions",
		strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || !bytes.Contains(text, []byte("choices")) {
		return fmt.Errorf("it answers %s: %.200s", resp.Status, text)
	}
	return nil
}

// end makes sure that the process has ended.
func (a *realApp) end() {
	select {
	case <-a.done:
	default:
		_ = a.cmd.Process.Kill() // it may have ended in between
		<-a.done
	}
}
