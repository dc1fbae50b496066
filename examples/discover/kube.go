package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision/discover"
)

// resources are what is asked for, nothing of it by more than get and list.
// Secrets and ConfigMaps are left alone.
var resources = []struct{ group, name string }{
	{"api/v1", "nodes"}, {"api/v1", "pods"}, {"apis/apps/v1", "deployments"}, {"apis/apps/v1", "statefulsets"}, {"apis/apps/v1", "replicasets"},
	{"apis/apps/v1", "daemonsets"}, {"apis/batch/v1", "jobs"}, {"apis/autoscaling/v2", "horizontalpodautoscalers"},
	{"apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets"},
	{"apis/resource.k8s.io/", "resourceslices"}, {"apis/resource.k8s.io/", "resourceclaims"}, {"apis/resource.k8s.io/", "resourceclaimtemplates"},
}

const (
	pageSize = 500      // objects
	maxPage  = 64 << 20 // bytes
)

// insteadOfKube is the way for who can't be reached or authenticated to.
const insteadOfKube = "kubectl get nodes,pods,deployments,statefulsets,replicasets,jobs,hpa,resourceslices,resourceclaims -A -o json | discover -"

// kube is an API server with read-only access.
type kube struct {
	server string
	token  string
	user   string
	pass   string
	http   *http.Client
}

// readKube reads a live cluster into c. part is what could not be read of it.
func readKube(ctx context.Context, c *discover.Collector) (part, err error) {
	k, err := newKube()
	if err != nil {
		return nil, err
	}
	read, groups := 0, k.groups(ctx)
	for _, r := range resources {
		group := r.group
		if name, ok := strings.CutPrefix(group, "apis/"); ok && groups != nil {
			name, wanted, _ := strings.Cut(name, "/")
			have := groups[name]
			if wanted != "" && !slices.Contains(have, wanted) {
				continue // the cluster does not have that kind
			}
		}
		if strings.HasSuffix(group, "/") {
			at := slices.IndexFunc(draVersions, func(v string) bool { return slices.Contains(groups["resource.k8s.io"], v) })
			if at < 0 {
				continue
			}
			group += draVersions[at]
		}
		err := k.list(ctx, c, group+"/"+r.name)
		var status *statusError
		switch {
		case err == nil:
			read++
		case errors.As(err, &status) && status.code == http.StatusNotFound:
			// The cluster does not have that kind.
		case read == 0:
			return nil, err
		default:
			part = errors.Join(part, err)
		}
		if ctx.Err() != nil {
			return part, nil
		}
	}
	return part, nil
}

type statusError struct {
	path string
	code int
	text string
}

func (e *statusError) Error() string {
	switch e.code {
	case http.StatusUnauthorized:
		return fmt.Sprintf("%s: the API server does not take the credentials (401); or use: %s", e.path, insteadOfKube)
	case http.StatusForbidden:
		return fmt.Sprintf("%s: not allowed (403): grant get and list on it; the rest is used", e.path)
	}
	return fmt.Sprintf("%s: %d %s", e.path, e.code, e.text)
}

func (k *kube) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.server+"/"+path, nil)
	if err != nil {
		return nil, errors.New("the address of the API server is no URL")
	}
	req.Header.Set("Accept", "application/json")
	switch {
	case k.token != "":
		req.Header.Set("Authorization", "Bearer "+k.token)
	case k.user != "":
		req.SetBasicAuth(k.user, k.pass)
	}
	resp, err := k.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w; or use: %s", err, insteadOfKube)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{path, resp.StatusCode, http.StatusText(resp.StatusCode)}
	}
	if err == nil && len(body) > maxPage {
		err = fmt.Errorf("%s: a page of %d objects is larger than %d MiB", path, pageSize, maxPage>>20)
	}
	return body, err
}

// draVersions are those of resource.k8s.io that are read, best first.
var draVersions = []string{"v1", "v1beta2", "v1beta1"}

// groups are the API groups that the cluster has, with their versions; nil where
// it does not tell.
func (k *kube) groups(ctx context.Context) map[string][]string {
	body, err := k.get(ctx, "apis")
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
func (k *kube) list(ctx context.Context, c *discover.Collector, path string) error {
	next := ""
	for {
		body, err := k.get(ctx, fmt.Sprintf("%s?limit=%d&continue=%s", path, pageSize, url.QueryEscape(next)))
		if err != nil {
			return err
		}
		var page struct {
			Metadata struct{ Continue string }
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := c.Read(path, bytes.NewReader(body)); err != nil {
			return err
		}
		if next = page.Metadata.Continue; next == "" {
			return nil
		}
	}
}

// kubeconfig is what is read of a kubeconfig file.
type kubeconfig struct {
	Current  string `yaml:"current-context"`
	Contexts []struct {
		Name    string
		Context struct{ Cluster, User string }
	}
	Clusters []struct {
		Name    string
		Cluster struct {
			Server   string
			CA       string `yaml:"certificate-authority"`
			CAData   string `yaml:"certificate-authority-data"`
			Insecure bool   `yaml:"insecure-skip-tls-verify"`
			Name     string `yaml:"tls-server-name"`
			Proxy    string `yaml:"proxy-url"`
		}
	}
	Users []struct {
		Name string
		User struct {
			Cert      string `yaml:"client-certificate"`
			CertData  string `yaml:"client-certificate-data"`
			Key       string `yaml:"client-key"`
			KeyData   string `yaml:"client-key-data"`
			Token     string
			TokenFile string `yaml:"tokenFile"`
			Username  string
			Password  string
			Exec      *struct{ Command string }
			Provider  *struct{ Name string } `yaml:"auth-provider"`
		}
	}
}

const inCluster = "/var/run/secrets/kubernetes.io/serviceaccount"

// newKube finds the cluster as kubectl does: $KUBECONFIG, ~/.kube/config, and in
// a pod its service account.
func newKube() (*kube, error) {
	file := ""
	for _, f := range filepath.SplitList(os.Getenv("KUBECONFIG")) {
		if _, err := os.Stat(f); file == "" && err == nil {
			file = f
		}
	}
	if home, err := os.UserHomeDir(); file == "" && os.Getenv("KUBECONFIG") == "" && err == nil {
		if f := filepath.Join(home, ".kube", "config"); exists(f) {
			file = f
		}
	}
	if file != "" {
		return fromFile(file)
	}
	if host := os.Getenv("KUBERNETES_SERVICE_HOST"); host != "" && exists(inCluster+"/token") {
		token, err := os.ReadFile(inCluster + "/token")
		if err != nil {
			return nil, err
		}
		k := &kube{server: "https://" + net.JoinHostPort(host, os.Getenv("KUBERNETES_SERVICE_PORT")), token: strings.TrimSpace(string(token))}
		ca, err := os.ReadFile(inCluster + "/ca.crt")
		return k, errors.Join(err, k.connect(&tls.Config{}, ca, ""))
	}
	return nil, fmt.Errorf("-kube: there is no kubeconfig ($KUBECONFIG or ~/.kube/config), and this is no pod; or use: %s", insteadOfKube)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func fromFile(file string) (*kube, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	bad := func(format string, args ...any) (*kube, error) {
		return nil, fmt.Errorf("%s: %s", file, fmt.Sprintf(format, args...))
	}
	var c kubeconfig
	if err := yaml.Unmarshal(data, &c); err != nil {
		return bad("it is no kubeconfig") // the error may quote a credential
	}
	cluster, user := "", ""
	for _, x := range c.Contexts {
		if x.Name == c.Current {
			cluster, user = x.Context.Cluster, x.Context.User
		}
	}
	if cluster == "" {
		return bad("current-context %q has no cluster: choose one with kubectl config use-context", c.Current)
	}
	// The content of a field, or of the file that another names.
	content := func(data, path string) ([]byte, error) {
		if data != "" {
			out, err := base64.StdEncoding.DecodeString(data)
			if err != nil {
				return nil, errors.New("certificate data are not base64")
			}
			return out, nil
		}
		if path == "" {
			return nil, nil
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(file), path)
		}
		return os.ReadFile(path)
	}
	k := &kube{}
	settings := &tls.Config{}
	for _, u := range c.Users {
		if u.Name != user {
			continue
		}
		v := u.User
		switch {
		case v.Exec != nil:
			return bad("user %q authenticates by the exec plugin %q, which is not run; use: %s", user, v.Exec.Command, insteadOfKube)
		case v.Provider != nil:
			return bad("user %q authenticates by the provider %q, which is not supported; use: %s", user, v.Provider.Name, insteadOfKube)
		}
		cert, err1 := content(v.CertData, v.Cert)
		key, err2 := content(v.KeyData, v.Key)
		if err := errors.Join(err1, err2); err != nil {
			return bad("user %q: %v", user, err)
		}
		if len(cert) > 0 {
			pair, err := tls.X509KeyPair(cert, key)
			if err != nil {
				return bad("user %q: the client certificate and its key do not fit", user)
			}
			settings.Certificates = []tls.Certificate{pair}
		}
		k.token, k.user, k.pass = v.Token, v.Username, v.Password
		if v.TokenFile != "" && k.token == "" {
			text, err := os.ReadFile(v.TokenFile)
			if err != nil {
				return bad("user %q: %v", user, err)
			}
			k.token = strings.TrimSpace(string(text))
		}
	}
	for _, x := range c.Clusters {
		if x.Name != cluster {
			continue
		}
		ca, err := content(x.Cluster.CAData, x.Cluster.CA)
		if err != nil {
			return bad("cluster %q: %v", cluster, err)
		}
		k.server = strings.TrimSuffix(x.Cluster.Server, "/")
		settings.InsecureSkipVerify, settings.ServerName = x.Cluster.Insecure, x.Cluster.Name
		if err := k.connect(settings, ca, x.Cluster.Proxy); err != nil {
			return bad("cluster %q: %v", cluster, err)
		}
	}
	if !strings.HasPrefix(k.server, "https://") {
		return bad("cluster %q: its server is not an https:// address", cluster)
	}
	return k, nil
}

// connect makes the client. An empty ca stands for the machine's.
func (k *kube) connect(settings *tls.Config, ca []byte, proxy string) error {
	settings.MinVersion = tls.VersionTLS12
	if len(ca) > 0 {
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(ca) {
			return errors.New("the certificate authority is no PEM")
		}
	}
	t := &http.Transport{TLSClientConfig: settings, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	if proxy != "" {
		u, err := url.Parse(proxy)
		if err != nil {
			return errors.New("proxy-url is no URL")
		}
		t.Proxy = http.ProxyURL(u)
	}
	// A redirect would carry the credentials elsewhere.
	k.http = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return nil
}
