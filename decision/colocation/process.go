// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
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
	go func() { // until it has ended, and all of its output is read
		s.err = s.cmd.Wait()
		s.out.Wait()
		close(s.done)
	}()
	return s, nil
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

const (
	longestLine = 64 << 10        // bytes of a line that are read
	longestLog  = 4 << 20         // bytes of a tenant's output that are kept
	shownLines  = 6               // at the end of an output, each of shownWidth at most
	shownWidth  = 160             // characters
	mostLines   = 50_000          // a second; reading more would slow the tenant
	reportEvery = 5 * time.Second // while a server or tenant is waited for
)

// length returns the index of the group that holds a step's length, -1 where there is none, and its unit.
func (p *Progress) length() (group int, unit time.Duration) {
	if i := p.line.SubexpIndex("ms"); i >= 0 {
		return i, time.Millisecond
	}
	return p.line.SubexpIndex("s"), time.Second
}

// doneStep is a step that ended.
type doneStep struct {
	at   time.Time
	took time.Duration
}

// meter counts the steps of a tenant. It is safe for concurrent use.
type meter struct {
	progress *Progress

	mu     sync.Mutex
	steps  []doneStep
	last   time.Time // when the last step ended, zero after a halt
	tail   []string  // the last lines
	seen   bool      // a step has ended
	failed error     // why the steps cannot be counted
	second time.Time // in which lines are counted
	lines  int       // in that second
}

// listen reads a tenant's output to its end: the lines that end its steps, and the beginning of it into a log.
func (m *meter) listen(from io.Reader, log io.WriteCloser) {
	defer log.Close()
	in := bufio.NewReaderSize(from, longestLine)
	for kept, rest := 0, false; ; {
		line, err := in.ReadSlice('\n')
		if kept < longestLog {
			n, _ := log.Write(line)
			kept += n
		}
		if len(line) > 0 && !rest {
			m.line(line, time.Now())
		}
		if rest = errors.Is(err, bufio.ErrBufferFull); err != nil && !rest {
			return
		}
	}
}

// line takes note of a line of output.
func (m *meter) line(line []byte, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.second) >= time.Second {
		m.second, m.lines = now, 0
	}
	if m.lines++; m.lines > mostLines {
		m.failed = fmt.Errorf("it prints more than %d lines a second, and reading them would be part of what is measured: "+
			"have it print a line a step", mostLines)
		return
	}
	if m.tail = append(m.tail, string(line[:min(len(line), 4*shownWidth)])); len(m.tail) > shownLines {
		m.tail = m.tail[1:]
	}
	found := m.progress.line.FindSubmatchIndex(line)
	if found == nil {
		return
	}
	own := time.Duration(-1)
	if group, unit := m.progress.length(); group >= 0 && found[2*group] >= 0 {
		v, err := strconv.ParseFloat(string(line[found[2*group]:found[2*group+1]]), 64)
		if err != nil || !(v > 0 && v < 1e9) {
			m.failed = fmt.Errorf("%q is no length of a step", line[found[2*group]:found[2*group+1]])
			return
		}
		own = time.Duration(v * float64(unit))
	}
	if own < 0 && !m.last.IsZero() {
		own = now.Sub(m.last)
	}
	if m.seen, m.last = true, now; own >= 0 {
		m.steps = append(m.steps, doneStep{now, own})
	}
}

// begin counts anew.
func (m *meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps, m.last, m.failed = nil, time.Time{}, nil
}

// shown is the end of an output, indented and without control characters. Of a line that overwrites itself, as progress
// bars do, it has the last state.
func shown(tail []string) string {
	var out []string
	for _, line := range tail[max(0, len(tail)-shownLines):] {
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			continue
		}
		line = strings.Map(func(r rune) rune {
			if r == unicode.ReplacementChar || !unicode.IsPrint(r) && r != '\t' {
				return '.'
			}
			return r
		}, line[strings.LastIndexByte(line, '\r')+1:])
		out = append(out, fmt.Sprintf("  %.*s", shownWidth, line))
	}
	return cmp.Or(strings.Join(out, "\n"), "  (no output)")
}

// outcome sums up the steps that ended in a window of time.
func (m *meter) outcome(from, to time.Time) (o profile.Outcome, steps int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var took []float64
	var first, last time.Time
	sum := 0.0
	for _, s := range m.steps {
		if s.at.Before(from) || s.at.After(to) {
			continue
		}
		if len(took) == 0 {
			first = s.at
		}
		last = s.at
		took, sum = append(took, inMS(s.took)), sum+inMS(s.took)
	}
	n := len(took)
	if m.failed != nil || n == 0 {
		return o, n, m.failed
	}
	slices.Sort(took)
	at := func(q float64) sharing.Optional[float64] { return sharing.Some(stats.NearestRank(took, q)) }
	o.Step = profile.LatencyMS{P50: at(.5), P90: at(.9), P95: at(.95), P99: at(.99), Mean: sharing.Some(sum / float64(n))}
	o.StepsPerS = sharing.Some(float64(n) / to.Sub(from).Seconds())
	if n > 1 && last.After(first) { // without the parts of steps at the window's ends
		o.StepsPerS = sharing.Some(float64(n-1) / last.Sub(first).Seconds())
	}
	return o, n, nil
}

func inMS(d time.Duration) float64          { return float64(d) / float64(time.Millisecond) }
func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
