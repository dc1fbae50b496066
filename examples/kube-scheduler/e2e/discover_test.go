// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

// TestDiscover: what stands on a live API server is discovered and decided by two commands, with the rights of
// reader.yaml, and the plan from what runs, or why it stays, is printed.
func TestDiscover(t *testing.T) {
	c := newControl(t)
	ctx := t.Context()
	for _, n := range makeNodes() {
		if _, err := c.admin.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	bind := func(name, node, asks, says string) {
		t.Helper()
		p := makePod(name, asks, says)
		p.Spec.SchedulerName, p.Spec.NodeName = "", node
		p, err := c.admin.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Status.Phase = v1.PodRunning
		if _, err := c.admin.CoreV1().Pods(namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	bind("chat", "a100-1", "nvidia.com/gpu=1", "kind=online-inference ttft-p99=800ms")
	bind("pretrain", "h100-1", "nvidia.com/gpu=8", "kind=distributed-training")
	bind("lab", "t4-1", "nvidia.com/gpu=1", "kind=notebook")
	bind("small", "mig-mixed-3", "nvidia.com/mig-1g.10gb=1", "")
	bind("limited", "hami-1", "nvidia.com/gpu=1 nvidia.com/gpumem=10240", "")
	kube := c.reader()
	fleet := filepath.Join(c.dir, "fleet.yaml")

	out := run1(t, kube, "./examples/cotenant", "discover", "-kube", "-json", "-out", fleet)
	var doc struct {
		Fleet    struct{ Pools, Workloads []struct{ Name, GPU string } }
		Findings []struct{ Code, Object string }
		Today    []struct {
			Pool, Mechanism string
			GPUs, Tenants   int
		}
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatal(err)
	}
	mechanisms, tenants, liars := map[string]int{}, 0, 0
	for _, s := range doc.Today {
		mechanisms[s.Mechanism] += s.GPUs
		tenants += s.Tenants
	}
	for _, f := range doc.Findings {
		if f.Code == "label-lies" && strings.HasPrefix(f.Object, "node liar-") {
			liars++
		}
	}
	// HAMi 4 and 2; MPS 4, 1 and 4 in thousandths; MIG 2, 1, 4, 2 and 2.
	if len(doc.Fleet.Workloads) != 5 || tenants != 5 || mechanisms["hami"] != 6 || mechanisms["mps"] != 9 || mechanisms["mig"] != 11 || liars < 2 {
		t.Errorf("%d workloads, %d tenants, GPUs %v, %d lies found\n%s", len(doc.Fleet.Workloads), tenants, mechanisms, liars, out)
	}
	if text := run1(t, kube, "./examples/cotenant", "decide", "-v", fleet); !bytes.Contains(text, []byte("default/chat")) {
		t.Errorf("decide:\n%s", text)
	}
	text := run1(t, kube, "./examples/cotenant", "plan", "-v")
	for _, part := range []string{"default/chat", "default/pretrain", "WORKLOADS", "CHECKLIST"} {
		if !bytes.Contains(text, []byte(part)) {
			t.Errorf("%s is missing in\n%s", part, text)
		}
	}
	t.Logf("\n%s", text)
}

// run1 runs a program of the SDK's own module.
func run1(t *testing.T, kube string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", append([]string{"run"}, args...)...)
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kube)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, &errs)
	}
	return out
}

// reader is a kubeconfig of an account with the rights of reader.yaml, and no others.
func (c *control) reader() string {
	c.t.Helper()
	config, err := clientcmd.LoadFromFile(c.kube)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, opts, name := c.t.Context(), metav1.CreateOptions{}, metav1.ObjectMeta{Name: "reader", Namespace: namespace}
	if _, err := c.admin.CoreV1().ServiceAccounts(namespace).Create(ctx, &v1.ServiceAccount{ObjectMeta: name}, opts); err != nil {
		c.t.Fatal(err)
	}
	data, err := os.ReadFile("../../cotenant/reader.yaml")
	if err != nil {
		c.t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(data, &role); err != nil {
		c.t.Fatal(err)
	}
	cluster := metav1.ObjectMeta{Name: "reader"}
	if _, err := c.admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: cluster, Rules: role.Rules}, opts); err != nil {
		c.t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: cluster, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "reader", Namespace: namespace}}}
	if _, err := c.admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, opts); err != nil {
		c.t.Fatal(err)
	}
	token, err := c.admin.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "reader", &authv1.TokenRequest{}, opts)
	if err != nil {
		c.t.Fatal(err)
	}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	path := filepath.Join(c.dir, "reader.kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		c.t.Fatal(err)
	}
	return path
}
