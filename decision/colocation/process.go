// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
)

// server is a process that was started for a mode, or one that ran already, of which only the plan is known.
type server struct {
	plan  *Server
	cmd   *exec.Cmd
	log   string
	meter *meter        // of one that serves no tokens, else nil
	done  chan struct{} // closed when it has ended
	out   sync.WaitGroup
	err   error // how; after done
}

// errOccupied is the error for a server's address that is in use.
var errOccupied = errors.New("something answers there already; stop it, or leave the command out to measure it as " +
	"it is")

// startServer starts a plan's command without a shell. Both outputs of one that serves no tokens may show its steps,
// which a meter counts.
func startServer(p *Server, env []string, dir, log string) (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	s := &server{plan: p, cmd: exec.Command(p.Command[0], p.Command[1:]...), log: log, done: make(chan struct{})}
	s.cmd.Env, s.cmd.Dir = env, dir
	ownGroup(s.cmd)
	if p.Kind != profile.KindServer {
		s.meter = &meter{progress: &p.Progress}
	} else if answers(ctx, p.URL) == nil {
		return nil, fmt.Errorf("%s: %w", p.URL, errOccupied)
	}
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	to := out
	if s.meter != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(err, out.Close())
		}
		to = w
		s.out.Go(func() { s.meter.listen(r, out); _ = r.Close() })
	}
	s.cmd.Stdout, s.cmd.Stderr = to, to
	err = s.cmd.Start()
	if err := errors.Join(err, to.Close()); err != nil {
		return nil, err
	}
	go s.wait()
	return s, nil
}

// wait waits for the process to end, and for all of its output.
func (s *server) wait() {
	s.err = s.cmd.Wait()
	s.out.Wait()
	close(s.done)
}

// ended reports that the process is over; it is false for one that ran already.
func (s *server) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// errNoStep is the error of a tenant before its first step.
var errNoStep = errors.New("it has not done a step: no line has matched")

// answers returns the reason for which a server does not answer yet, or a tenant does no steps.
func (s *server) answers(ctx context.Context) error {
	if s.meter == nil {
		return answers(ctx, s.plan.URL)
	}
	s.meter.mu.Lock()
	defer s.meter.mu.Unlock()
	if s.meter.failed == nil && !s.meter.seen {
		return fmt.Errorf("%w %q", errNoStep, s.plan.Progress.Line)
	}
	return s.meter.failed
}

// answers requests the list of models of an OpenAI-compatible API.
func answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	url = strings.TrimSuffix(strings.TrimRight(url, "/"), "/v1") + "/v1/models"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/v1/models answers %s", resp.Status)
	}
	return nil
}

// tail is the end of the server's output.
func (s *server) tail() string {
	switch {
	case s.cmd == nil:
		return "  (it ran already: its own log may say more)"
	case s.meter != nil:
		s.meter.mu.Lock()
		defer s.meter.mu.Unlock()
		return shown(s.meter.tail)
	}
	b, err := os.ReadFile(s.log)
	if err != nil {
		return "  " + err.Error()
	}
	return shown(strings.Split(strings.TrimSpace(string(b[max(0, len(b)-4*shownWidth):])), "\n"))
}

// halt stops a tenant and its children where they are, or has them go on.
func (s *server) halt(stop bool) error { return haltGroup(s.cmd, stop) }

// stop ends the server and its children.
func (s *server) stop() error {
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Kill} {
		if s.ended() {
			return nil
		}
		_ = s.halt(false) // a halted process heeds no other signal
		if err := signalGroup(s.cmd, sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		select {
		case <-s.done:
			return nil
		case <-time.After(graceful):
		}
	}
	return fmt.Errorf("process %d does not end", s.cmd.Process.Pid)
}

// graceful is the time for servers and daemon to end by themselves.
const graceful = 10 * time.Second
