package colocation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/cotenant/cotenant/loadgen"
)

// server is a process that was started for a mode.
type server struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
	err  error         // how; after done
}

// errOccupied says that a server's address is taken.
var errOccupied = errors.New("something answers there already; stop it, or leave the command out to measure it as " +
	"it is")

// startServer starts a plan's command without a shell.
func startServer(p *Server, env []string, dir, log string) (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if answers(ctx, p.URL) == nil {
		return nil, fmt.Errorf("%s: %w", p.URL, errOccupied)
	}
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	s := &server{cmd: exec.Command(p.Command[0], p.Command[1:]...), log: log, done: make(chan struct{})}
	s.cmd.Env, s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = env, dir, out, out
	ownGroup(s.cmd)
	err = s.cmd.Start()
	if err := errors.Join(err, out.Close()); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.done)
		s.err = s.cmd.Wait()
	}()
	return s, nil
}

// ready waits until the plan's server answers. s is its process, nil for one that ran already.
func (m *Machine) ready(ctx context.Context, p *Server, s *server) error {
	var ended chan struct{}
	if s != nil {
		ended = s.done
	}
	ctx, cancel := context.WithTimeoutCause(ctx, milliseconds(1e3*m.plan.StartSecs),
		fmt.Errorf("no answer within %v s (start_seconds)", m.plan.StartSecs))
	defer cancel()
	for {
		err := answers(ctx, p.URL)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("server %s ended (%v):\n%s", p.Name, s.err, s.tail())
		case <-ctx.Done():
			if s == nil {
				return fmt.Errorf("server %s at %s: %w: %w", p.Name, p.URL, context.Cause(ctx), err)
			}
			return fmt.Errorf("server %s at %s: %w: %w\n%s", p.Name, p.URL, context.Cause(ctx), err, s.tail())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// answers requests the list of models.
func answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	status, err := request(ctx, http.MethodGet, url, "/models", nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("/v1/models answers %d %s", status, http.StatusText(status))
	}
	return err
}

// askToken requests one token of a server, since many answer health checks when their
// engine has died. An answer of any status will do.
func askToken(ctx context.Context, p *Server) error {
	path, body := "/completions", map[string]any{"model": p.Model, "prompt": "one", "max_tokens": 1}
	if p.API == loadgen.APIChat {
		path, body["messages"] = "/chat/completions", []map[string]string{{"role": "user", "content": "one"}}
		delete(body, "prompt")
	}
	_, err := request(ctx, http.MethodPost, p.URL, path, body)
	return err
}

// request sends a request to an OpenAI-compatible API and reads the answer to its end.
func request(ctx context.Context, method, url, path string, body any) (status int, err error) {
	var data []byte
	if body != nil {
		if data, err = json.Marshal(body); err != nil {
			return 0, err
		}
	}
	url = strings.TrimSuffix(strings.TrimRight(url, "/"), "/v1") + "/v1" + path
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(data))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

// tail is the end of the server's output.
func (s *server) tail() string {
	b, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-800):]))
}

// stop ends the server and its children.
func (s *server) stop() error {
	for _, sig := range []os.Signal{os.Interrupt, os.Kill} {
		select {
		case <-s.done:
			return nil
		default:
		}
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
