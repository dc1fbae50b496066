package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// server serves the built-in cluster's nodes and pods, two a page, as an API
// server does: without kind on the items.
func server(t *testing.T, forbidden string) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var list struct{ Items []map[string]any }
	if err := json.Unmarshal(discoverCluster, &list); err != nil {
		t.Fatal(err)
	}
	of := map[string][]map[string]any{}
	for _, o := range list.Items {
		kind := o["kind"].(string)
		delete(o, "kind")
		delete(o, "apiVersion")
		of[kind] = append(of[kind], o)
	}
	var requests atomic.Int64
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		kinds := map[string]string{"/api/v1/nodes": "Node", "/api/v1/pods": "Pod", "/apis/autoscaling/v2/horizontalpodautoscalers": "HorizontalPodAutoscaler", "/apis/apps/v1/deployments": "Deployment"}
		kind := kinds[r.URL.Path]
		switch {
		case r.Method != http.MethodGet:
			t.Errorf("%s %s", r.Method, r.URL)
		case r.Header.Get("Authorization") != "Bearer t0ken":
			w.WriteHeader(http.StatusUnauthorized)
		case kind == "":
			w.WriteHeader(http.StatusNotFound)
		case kind == forbidden:
			w.WriteHeader(http.StatusForbidden)
		default:
			from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
			to := min(from+2, len(of[kind]))
			next := ""
			if to < len(of[kind]) {
				next = strconv.Itoa(to)
			}
			items, _ := json.Marshal(append([]map[string]any{}, of[kind][from:to]...))
			fmt.Fprintf(w, `{"kind":"%sList","apiVersion":"v1","metadata":{"continue":"%s"},"items":%s}`, kind, next, items)
		}
	}))
	t.Cleanup(s.Close)
	return s, &requests
}

// config writes a kubeconfig for a server and a user.
func config(t *testing.T, s *httptest.Server, user string) {
	t.Helper()
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	file := filepath.Join(dir, "config")
	text := fmt.Sprintf("current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: %q, certificate-authority: ca.crt}}]\nusers: [{name: u, user: %s}]\n", s.URL, user)
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

// TestKube: a live cluster gives what its objects in a file give.
func TestKube(t *testing.T) {
	s, requests := server(t, "")
	config(t, s, "{token: t0ken}")
	code, live, stderr := program(t, "", "discover", "-kube", "-json")
	if code != exitDone || stderr != "" {
		t.Fatal(code, stderr)
	}
	_, file, _ := program(t, string(discoverCluster), "discover", "-json", "-")
	if live != file {
		t.Errorf("live:\n%s\nfrom a file:\n%s", live, file)
	}
	if n := requests.Load(); n < 15 {
		t.Errorf("%d requests for pages of two", n)
	}
}

func TestKubeRefused(t *testing.T) {
	s, _ := server(t, "HorizontalPodAutoscaler")
	t.Setenv("PATH", t.TempDir()) // no kubectl
	for _, c := range []struct {
		name, user, want string
		code             int
	}{
		{"forbidden in part", "{token: t0ken}", "horizontalpodautoscalers: not allowed (403)", exitCannot},
		{"wrong token", "{token: s3cret}", "does not take the credentials (401)\ncotenant discover: or use: kubectl get nodes,pods", exitCannot},
		{"exec plugin", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: aws-iam-authenticator}}", "logs in through \"aws-iam-authenticator\", which kubectl runs", exitBadInput},
		{"provider", "{auth-provider: {name: gcp}}", "logs in through \"gcp\"", exitBadInput},
		{"certificate", "{client-certificate-data: '####', client-key-data: s3cret}", "not base64", exitBadInput},
	} {
		config(t, s, c.user)
		code, stdout, stderr := program(t, "", "discover", "-kube")
		if code != c.code || !strings.Contains(stderr, c.want) || strings.Contains(stdout+stderr, "s3cret") {
			t.Errorf("%s: exit %d\n%s", c.name, code, stderr)
		}
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if code, _, stderr := program(t, "", "discover", "-kube"); code != exitBadInput || !strings.Contains(stderr, "there is no kubeconfig") {
		t.Error(code, stderr)
	}
}

// kubectl plays kubectl: get prints the built-in cluster, and cotenant starts the
// plugin that it finds on PATH.
const kubectl = `#!/bin/sh
case "$*" in
"cotenant "*) shift; exec kubectl-cotenant "$@" ;;
"get nodes,"*" --all-namespaces -o json") exec cat "$CLUSTER" ;;
"get leaderworkersets "*) echo "error: the server doesn't have a resource type \"leaderworkersets\"" >&2; exit 1 ;;
"get resourceclaims $FORBIDDEN"*) echo 'Error from server (Forbidden): resourceclaims is forbidden' >&2; exit 1 ;;
get*) echo '{"kind": "List", "items": []}' ; exit 0 ;;
esac
echo "unexpected: $*" >&2
exit 64
`

// TestPlugin runs the program as kubectl's plugin: without files it reads the live
// cluster through kubectl, as -kube does where the context logs in by a program.
func TestPlugin(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the script needs a POSIX shell")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "cluster.json")
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "kubectl"), []byte(kubectl), 0o700),
		os.WriteFile(file, discoverCluster, 0o600),
		os.Symlink(self, filepath.Join(dir, "kubectl-cotenant")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("CLUSTER", file)
	t.Setenv("FORBIDDEN", "no")
	_, want, _ := program(t, string(discoverCluster), "discover", "-json", "-")
	if got, err := exec.Command("kubectl", "cotenant", "discover", "-json").Output(); err != nil || string(got) != want {
		t.Errorf("the plugin printed, with %v:\n%s", err, got)
	}
	s, requests := server(t, "")
	config(t, s, "{exec: {apiVersion: client.authentication.k8s.io/v1, command: aws-iam-authenticator}}")
	if code, got, stderr := program(t, "", "discover", "-kube", "-json"); code != exitDone || got != want || requests.Load() > 0 {
		t.Errorf("with a program that logs in: exit %d, %s\n%s", code, stderr, got)
	}
	t.Setenv("FORBIDDEN", "--all-namespaces")
	code, got, stderr := program(t, "", "discover", "-kube", "-json")
	if code != exitCannot || got != want || !strings.Contains(stderr, "resourceclaims is forbidden") || strings.Contains(stderr, "leaderworkersets") {
		t.Errorf("forbidden in part: exit %d, %s\n%s", code, stderr, got)
	}
	t.Setenv("CLUSTER", filepath.Join(dir, "none"))
	if code, got, stderr := program(t, "", "discover", "-kube"); code != exitCannot || got != "" || !strings.Contains(stderr, "kubectl get nodes,pods") {
		t.Errorf("refused: exit %d, %s\n%s", code, stderr, got)
	}
}
