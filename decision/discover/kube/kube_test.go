package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/discover/kube"
)

// Objects of a cluster that cannot be reached directly come through kubectl.
func ExampleResources() {
	fmt.Println("kubectl get " + kube.Resources() + " -A -o json")
	// Output:
	// kubectl get nodes,pods,deployments,statefulsets,replicasets,daemonsets,poddisruptionbudgets,resourcequotas,jobs,horizontalpodautoscalers -A -o json
}

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
