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

// TestMergedConfigs: of several files the first that names a thing says it, as kubectl has it, one that is missing is
// left out, and a path is relative to its file.
func TestMergedConfigs(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer first" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprint(w, `{"kind":"List","items":[]}`)
	}))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	var files []string
	for i, text := range []string{
		"current-context: x\nusers: [{name: u, user: {token: first}}]\n",
		fmt.Sprintf("current-context: y\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: second}}]\nclusters: [{name: c, cluster: {server: %q, certificate-authority: ca.crt}}]\n", server.URL),
		"clusters: [{name: c, cluster: {server: 'https://elsewhere'}}]\n",
	} {
		dir := t.TempDir()
		files = append(files, filepath.Join(dir, "config"), filepath.Join(dir, "none"))
		err := os.WriteFile(files[2*i], []byte(text), 0o600)
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBECONFIG", strings.Join(files, string(filepath.ListSeparator)))
	read := 0
	part, err := kube.Read(t.Context(), func(string, io.Reader) error { read++; return nil }, kube.Options{})
	if part != nil || err != nil || read == 0 {
		t.Errorf("%d read, %v, %v", read, part, err)
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
