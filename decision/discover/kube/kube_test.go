package kube_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/discover/kube"
)

// TestUnusableConfig: every kubeconfig that cannot be used is ErrConfig, named by its
// file and what to change, without its credentials.
func TestUnusableConfig(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no kubectl
	const head = "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
	for name, c := range map[string]struct{ text, want string }{
		"no YAML":      {"a: [s3cret", "it is no kubeconfig"},
		"no context":   {"current-context: y\n", `current-context "y" has no cluster`},
		"no TLS":       {head + "clusters: [{name: c, cluster: {server: 'http://h'}}]\n", "not an https:// address"},
		"no authority": {head + "clusters: [{name: c, cluster: {server: 'https://h', certificate-authority-data: eA==}}]\n", "no PEM"},
		"no CA file":   {head + "clusters: [{name: c, cluster: {server: 'https://h', certificate-authority: none}}]\n", "none"},
		"no token":     {head + "users: [{name: u, user: {tokenFile: none}}]\n", "none"},
		"a program":    {head + "users: [{name: u, user: {exec: {command: login, args: [s3cret]}}}]\n", `"login", which kubectl runs`},
	} {
		file := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("KUBECONFIG", file)
		take := func(string, io.Reader) error { t.Errorf("%s: something was read", name); return nil }
		for _, opts := range []kube.Options{{}, {Kubectl: true}} {
			part, err := kube.Read(context.Background(), take, opts)
			if part != nil || !errors.Is(err, kube.ErrConfig) || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), file) && !strings.Contains(err.Error(), "none") || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestForbidden: what RBAC refuses is named, and the rest is read, whichever kind comes first; where everything is
// refused nothing was read.
func TestForbidden(t *testing.T) {
	for refused, want := range map[string]int{"nodes": 1, "": 2, "s": 0} {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
			switch {
			case name == "apis":
				fmt.Fprint(w, `{"kind":"APIGroupList","groups":[]}`)
			case refused != "" && strings.HasSuffix(name, refused):
				w.WriteHeader(http.StatusForbidden)
			case name == "nodes" || name == "pods":
				fmt.Fprintf(w, `{"kind":"List","items":[]}`)
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		}))
		defer server.Close()
		file := filepath.Join(t.TempDir(), "config")
		ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
		config := fmt.Sprintf("current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\nusers: [{name: u, user: {token: t}}]\n", server.URL, ca)
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("KUBECONFIG", file)
		read := 0
		part, err := kube.Read(t.Context(), func(string, io.Reader) error { read++; return nil }, kube.Options{})
		if read != want || (err != nil) != (want == 0) || (part != nil) != (refused != "" && want > 0) {
			t.Errorf("%q: %d read, %v, %v", refused, read, part, err)
		}
		if refused != "" && !strings.Contains(fmt.Sprint(part, err), "not allowed (403): grant get and list on it") {
			t.Errorf("%q: %v, %v", refused, part, err)
		}
	}
}
