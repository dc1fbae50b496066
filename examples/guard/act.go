package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// hookTime bounds a hook and an eviction.
const hookTime = 30 * time.Second

// actor carries out what is proposed, and writes everything down first.
type actor struct {
	apply bool
	kill  string // while this file exists, nothing is done
	hooks map[action][]string
	evict *evictor
	audit *os.File // nil = none
	now   func() time.Time
}

// auditLine is one line of the audit log. Every action has a line before it is
// tried and one after.
type auditLine struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"` // proposed, withheld, trying, done, failed
	proposal
	Error string `json:"error,omitempty"`
}

func (a *actor) write(event string, p *proposal, err error) error {
	if a.audit == nil {
		return nil
	}
	line := auditLine{Time: a.now().UTC(), Event: event, proposal: *p}
	if err != nil {
		line.Error = err.Error()
	}
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if _, err := a.audit.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return a.audit.Sync()
}

// act carries out a proposal where it may, and says whether it did. An audit log
// that cannot be written stops everything: nothing is done unrecorded.
func (a *actor) act(ctx context.Context, p *proposal) (done bool, err error) {
	if p.Action == actionKeep || p.Action == actionSplit {
		return false, a.write("proposed", p, nil)
	}
	if p.Withheld == "" {
		switch _, err := os.Stat(a.kill); {
		case !a.apply:
			p.Withheld = "dry run (-apply acts)"
		case a.kill != "" && !errors.Is(err, os.ErrNotExist):
			p.Withheld = "kill switch: " + a.kill
		case a.hooks[p.Action] == nil && (a.evict == nil || p.Action != actionReap):
			p.Withheld = "no hook for " + string(p.Action)
		}
	}
	if p.Withheld != "" {
		return false, a.write("withheld", p, nil)
	}
	if err := a.write("trying", p, nil); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	if hook := a.hooks[p.Action]; hook != nil {
		err = runHook(ctx, hook, p)
	} else {
		err = a.evict.evict(ctx, p.Target)
	}
	if err != nil {
		p.Withheld = "failed: " + err.Error()
		return false, a.write("failed", p, err)
	}
	return true, a.write("done", p, nil)
}

// runHook runs a command without a shell: the proposal is its standard input as
// JSON, and GUARD_ACTION, GUARD_TARGET, GUARD_GPU, GUARD_PERCENT and GUARD_TO
// are in its environment.
func runHook(ctx context.Context, hook []string, p *proposal) error {
	in, err := json.Marshal(p)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, hook[0], hook[1:]...)
	cmd.WaitDelay = time.Second
	cmd.Stdin = bytes.NewReader(in)
	cmd.Env = append(os.Environ(), "GUARD_ACTION="+string(p.Action), "GUARD_TARGET="+p.Target, "GUARD_GPU="+strconv.Itoa(p.GPU))
	if p.Percent > 0 {
		cmd.Env = append(cmd.Env, "GUARD_PERCENT="+strconv.FormatFloat(p.Percent, 'g', -1, 64))
	}
	if p.To != nil {
		cmd.Env = append(cmd.Env, "GUARD_TO="+strconv.Itoa(*p.To))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.200s", hook[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}

// evictor takes pods back through the Kubernetes eviction API, which honours
// their disruption budgets and termination grace.
type evictor struct {
	server *url.URL
	token  string // file, read anew each time: it is rotated
	client *http.Client
}

// inCluster returns the evictor of a pod's own service account.
func inCluster(dir string) (*evictor, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("-evict: not in a pod (KUBERNETES_SERVICE_HOST and _PORT are not set); use hooks.reap instead")
	}
	pem, err := os.ReadFile(dir + "/ca.crt")
	if err != nil {
		return nil, fmt.Errorf("-evict: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("-evict: no certificate in " + dir + "/ca.crt")
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return &evictor{server: &url.URL{Scheme: "https", Host: host + ":" + port}, token: dir + "/token",
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}}, nil
}

// evict asks for the eviction of the pod namespace/name.
func (e *evictor) evict(ctx context.Context, target string) error {
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
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusNotFound {
		return nil // gone already is as good
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
	why := ""
	if resp.StatusCode == http.StatusTooManyRequests {
		why = " (its disruption budget does not allow it now)"
	}
	return fmt.Errorf("the API server answers %s%s: %s", resp.Status, why, strings.TrimSpace(string(text)))
}
