// Package kube reads a live cluster's objects for package discover, with nothing but get and list: over the API
// server's own HTTP interface, or through kubectl where the kubeconfig's user logs in by a program. It reads no
// Secret and no ConfigMap.
//
// The package is experimental: its API may change between minor versions.
package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// ErrConfig is matched by errors about a kubeconfig that is missing or unusable.
var ErrConfig = errors.New("kube: no usable kubeconfig")

// Options tune Read. The zero value is the documented default.
type Options struct {
	// Kubectl makes Read run kubectl, when it is on PATH, also for a user whose credentials stand in the kubeconfig.
	Kubectl bool
	// Messages receives what kubectl prints on standard error while it logs in; nil discards it.
	Messages io.Writer
}

// Read lists what the cluster of the current context has of each resource and passes it to take (the method Read of
// a discover.Collector) as JSON, together with a name for messages. It finds the context as kubectl does:
// $KUBECONFIG, ~/.kube/config, and in a pod the service account. part names resources that could not be read beside
// others that could; err is set when nothing was read, and matches ErrConfig when the kubeconfig is at fault.
func Read(ctx context.Context, take func(name string, r io.Reader) error, opts Options) (part, err error) {
	if opts.Kubectl && onPath() {
		return runKubectl(ctx, take, opts.Messages)
	}
	c, err := newClient()
	var program *loginError
	if errors.As(err, &program) && onPath() {
		return runKubectl(ctx, take, opts.Messages)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return c.read(ctx, take)
}

// resource is a kind of object that is listed. The version of a group that has several is chosen by the cluster.
type resource struct {
	group    string // "" for the core group
	versions []string
	name     string
	added    bool // by an extension, so that many clusters lack it
}

// The resources, in the order in which they are read.
var resources = []resource{
	{"", []string{"v1"}, "nodes", false}, {"", []string{"v1"}, "pods", false},
	{"apps", []string{"v1"}, "deployments", false}, {"apps", []string{"v1"}, "statefulsets", false},
	{"apps", []string{"v1"}, "replicasets", false}, {"apps", []string{"v1"}, "daemonsets", false},
	{"policy", []string{"v1"}, "poddisruptionbudgets", false}, {"", []string{"v1"}, "resourcequotas", false},
	{"batch", []string{"v1"}, "jobs", false}, {"autoscaling", []string{"v2"}, "horizontalpodautoscalers", false},
	{"leaderworkerset.x-k8s.io", []string{"v1"}, "leaderworkersets", true},
	{"resource.k8s.io", draVersions, "resourceslices", true}, {"resource.k8s.io", draVersions, "resourceclaims", true},
	{"resource.k8s.io", draVersions, "resourceclaimtemplates", true},
	{"resource.k8s.io", draVersions, "deviceclasses", true}, {"nvidia.com", []string{"v1alpha1"}, "gpuclusters", true},
}

// draVersions lists the versions of resource.k8s.io that package discover reads, newest first.
var draVersions = []string{"v1", "v1beta2", "v1beta1"}

// path returns the resource's path on the API server, or "" when groups, which may be nil for unknown, lacks it.
func (r *resource) path(groups map[string][]string) string {
	if r.group == "" {
		return "api/" + r.versions[0] + "/" + r.name
	}
	at := 0
	if groups != nil {
		at = slices.IndexFunc(r.versions, func(v string) bool { return slices.Contains(groups[r.group], v) })
	}
	if at < 0 {
		return ""
	}
	return "apis/" + r.group + "/" + r.versions[at] + "/" + r.name
}

const (
	pageSize = 500         // objects of one answer
	maxPage  = 64 << 20    // bytes of one answer
	timeout  = time.Minute // of one answer
)

// client talks to an API server.
type client struct {
	server string // https://host:port
	token  string
	http   *http.Client
}

func (c *client) read(ctx context.Context, take func(string, io.Reader) error) (part, err error) {
	read, groups := 0, c.groups(ctx)
	for i := range resources {
		path := resources[i].path(groups)
		if path == "" {
			continue
		}
		err := c.list(ctx, take, path)
		var status *statusError
		switch {
		case err == nil:
			read++
		case errors.As(err, &status) && status.code == http.StatusNotFound:
			// The cluster does not have that kind.
		case read == 0 && (status == nil || status.code != http.StatusForbidden):
			return nil, err
		default:
			part = errors.Join(part, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if read == 0 {
		return nil, cmp.Or(part, ctx.Err())
	}
	return part, nil
}

// statusError is an answer other than 200.
type statusError struct {
	path string
	code int
}

func (e *statusError) Error() string {
	switch e.code {
	case http.StatusUnauthorized:
		return fmt.Sprintf("kube: %s: the API server does not take the credentials (401)", e.path)
	case http.StatusForbidden:
		return fmt.Sprintf("kube: %s: not allowed (403): grant get and list on it; the rest is used", e.path)
	}
	return fmt.Sprintf("kube: %s: %d %s", e.path, e.code, http.StatusText(e.code))
}

func (c *client) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server+"/"+path, nil)
	if err != nil {
		return nil, errors.New("kube: the address of the API server is no URL")
	}
	req.Header.Set("Accept", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{strings.Split(path, "?")[0], resp.StatusCode}
	}
	if err == nil && len(body) > maxPage {
		err = fmt.Errorf("kube: %s: a page of %d objects is larger than %d MiB", path, pageSize, maxPage>>20)
	}
	return body, err
}

// groups returns the versions of each API group of the cluster; nil where it does not tell.
func (c *client) groups(ctx context.Context) map[string][]string {
	body, err := c.get(ctx, "apis")
	if err != nil {
		return nil
	}
	var list struct {
		Groups []struct {
			Name     string
			Versions []struct{ Version string }
		}
	}
	if json.Unmarshal(body, &list) != nil {
		return nil
	}
	out := map[string][]string{}
	for _, g := range list.Groups {
		for _, v := range g.Versions {
			out[g.Name] = append(out[g.Name], v.Version)
		}
	}
	return out
}

// list reads all pages of a list.
func (c *client) list(ctx context.Context, take func(string, io.Reader) error, path string) error {
	next := ""
	for {
		body, err := c.get(ctx, fmt.Sprintf("%s?limit=%d&continue=%s", path, pageSize, url.QueryEscape(next)))
		if err != nil {
			return err
		}
		var page struct {
			Metadata struct{ Continue string }
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return fmt.Errorf("kube: %s: %w", path, err)
		}
		if err := take(path, bytes.NewReader(body)); err != nil {
			return err
		}
		if next = page.Metadata.Continue; next == "" {
			return nil
		}
	}
}

// Resources names the resources that every cluster has of those that Read reads,
// for the remedy "kubectl get RESOURCES -A -o json".
func Resources() string {
	var names []string
	for i := range resources {
		if !resources[i].added {
			names = append(names, resources[i].name)
		}
	}
	return strings.Join(names, ",")
}

// onPath reports whether kubectl can be run.
func onPath() bool {
	_, err := exec.LookPath("kubectl")
	return err == nil
}

// noSuchKind is kubectl's message about a kind that the cluster lacks.
const noSuchKind = "the server doesn't have a resource type"

// runKubectl reads the resources of every cluster by one kubectl get, and each that an extension adds by another,
// since kubectl refuses the whole command for a kind that the cluster lacks.
func runKubectl(ctx context.Context, take func(string, io.Reader) error, messages io.Writer) (part, err error) {
	if err := kubectlGet(ctx, Resources(), take, messages); err != nil {
		var in *partError
		if !errors.As(err, &in) {
			return nil, err
		}
		part = err
	}
	for i := range resources {
		if r := &resources[i]; r.added && ctx.Err() == nil {
			err := kubectlGet(ctx, r.name, take, nil)
			if err != nil && !strings.Contains(err.Error(), noSuchKind) {
				part = errors.Join(part, err)
			}
		}
	}
	return part, nil
}

// partError is an error beside which some objects were read.
type partError struct{ error }

func kubectlGet(ctx context.Context, names string, take func(string, io.Reader) error, messages io.Writer) error {
	cmd := exec.CommandContext(ctx, "kubectl", "get", names, "--all-namespaces", "-o", "json")
	cmd.WaitDelay = 5 * time.Second // for pipes that a program it started still holds
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if messages != nil {
		cmd.Stderr = io.MultiWriter(&errs, messages)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("kube: %w", err)
	}
	name := "kubectl get " + names
	counted := &counter{r: out}
	takeErr := take(name, counted)
	_, _ = io.Copy(io.Discard, out) // so that kubectl can end
	err = cmd.Wait()
	if ctx.Err() != nil {
		return &partError{ctx.Err()}
	}
	if err != nil {
		err = fmt.Errorf("kube: %s: %w", name, err)
		if messages == nil {
			err = fmt.Errorf("%w: %s", err, strings.ReplaceAll(strings.TrimSpace(errs.String()), "\n", "; "))
		}
		if counted.n == 0 {
			return err
		}
		return &partError{errors.Join(takeErr, err)}
	}
	if takeErr != nil {
		return &partError{takeErr}
	}
	return nil
}

// counter counts the bytes that were read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
