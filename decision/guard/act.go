package guard

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/plaintext"
)

// hookTime bounds a hook and an eviction, where the Actor does not.
const hookTime = 30 * time.Second

// Actor carries out what is proposed, and writes everything down first. The zero Actor does nothing.
type Actor struct {
	Apply bool   // false: everything is withheld
	Kill  string // path of a file; while it exists, nothing is done
	Hooks map[Action][]string
	Evict *Evictor // reaps where there is no hook for it; nil = none
	Log   *Log     // where everything is recorded; without one nothing is done
	// Timeout bounds a hook and an eviction; 0 is 30 s.
	Timeout time.Duration

	try func(context.Context, *Proposal) error // instead of hooks and evictions; nil = none
}

func (a *Actor) write(event Event, p *Proposal, err error) error {
	if a.Log == nil {
		return nil
	}
	entry := AuditEntry{Event: event, Proposal: *p}
	if err != nil {
		entry.Error = err.Error()
	}
	return a.Log.write(entry)
}

// Act carries out a proposal where it may, and says whether it did; where it may not it sets p.Withheld. An audit
// log that cannot be written is an error, and nothing is done unrecorded.
func (a *Actor) Act(ctx context.Context, p *Proposal) (done bool, err error) {
	if p.Action == ActionKeep || p.Action == ActionSplit {
		return false, a.write(EventProposed, p, nil)
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
		case a.try == nil && len(a.Hooks[p.Action]) == 0 && (a.Evict == nil || p.Action != ActionReap):
			p.Withheld = "no hook for " + string(p.Action)
		}
	}
	if p.Withheld != "" {
		return false, a.write(EventWithheld, p, nil)
	}
	if err := a.write(EventTrying, p, nil); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.Timeout, hookTime))
	defer cancel()
	switch hook := a.Hooks[p.Action]; {
	case a.try != nil:
		err = a.try(ctx, p)
	case len(hook) > 0:
		err = runHook(ctx, hook, p)
	default:
		err = a.Evict.evict(ctx, p.Target)
	}
	if err != nil {
		p.Withheld = "failed: " + err.Error()
		return false, a.write(EventFailed, p, err)
	}
	return true, a.write(EventDone, p, nil)
}

// runHook runs a command without a shell: the proposal is its standard input as JSON, and GUARD_ACTION,
// GUARD_TARGET, GUARD_GPU, GUARD_PERCENT and GUARD_TO are in its environment.
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
	out, err := cmd.CombinedOutput()
	said := plaintext.Show(strings.TrimSpace(string(out)))
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s: timed out; %s, and it may have done all, a part or nothing of the %s: %.200s",
			hook[0], ended, p.Action, said)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %.200s", hook[0], err, said)
	}
	return nil
}

// post posts JSON. An answer that is no success is an error, with its status and the beginning of its text.
func post(ctx context.Context, client *http.Client, url, token string, in []byte) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(in))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		err = fmt.Errorf("%s answers %s: %s", req.URL.Host, plaintext.Show(resp.Status),
			plaintext.Show(strings.TrimSpace(string(text))))
	}
	return resp.StatusCode, err
}

// Evictor takes pods back through the Kubernetes eviction API, which honours
// their disruption budgets and termination grace.
type Evictor struct {
	server *url.URL
	token  string // file, read anew each time: it is rotated
	client *http.Client
}

// serviceAccount is the folder of a pod's own service account.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// InCluster returns the evictor that uses the service account of the pod in which the program runs.
func InCluster() (*Evictor, error) { return inCluster(serviceAccount) }

func inCluster(dir string) (*Evictor, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("guard: not in a pod (KUBERNETES_SERVICE_HOST and _PORT are not set); " +
			"use hooks.reap instead of evicting")
	}
	pem, err := os.ReadFile(dir + "/ca.crt")
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("guard: no certificate in " + dir + "/ca.crt")
	}
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return &Evictor{
		server: &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}, token: dir + "/token",
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: config}},
	}, nil
}

// evict asks for the eviction of the pod namespace/name.
func (e *Evictor) evict(ctx context.Context, target string) error {
	namespace, name, ok := strings.Cut(target, "/")
	if !ok || strings.Contains(name, "/") {
		return fmt.Errorf("%q names no pod (use namespace/name as the tenant's name)", target)
	}
	token, err := os.ReadFile(e.token)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata": map[string]string{"name": name, "namespace": namespace}})
	if err != nil {
		return err
	}
	u := e.server.JoinPath("api", "v1", "namespaces", namespace, "pods", name, "eviction")
	switch status, err := post(ctx, e.client, u.String(), strings.TrimSpace(string(token)), body); status {
	case http.StatusNotFound: // gone already is as good
		return nil
	case http.StatusTooManyRequests:
		return fmt.Errorf("its disruption budget does not allow it now: %w", err)
	default:
		return err
	}
}
