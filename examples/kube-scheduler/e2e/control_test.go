// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/cotenant/cotenant/examples/kube-scheduler/plugin"
)

var (
	etcdPath      = flag.String("etcd", "etcd", "path of etcd")
	apiserverPath = flag.String("apiserver", "kube-apiserver", "path of kube-apiserver")
	schedulerPath = flag.String("scheduler", "kube-scheduler", "path of this example's kube-scheduler")
)

// control is a control plane on loopback, everything of which is in one folder.
type control struct {
	t         *testing.T // of the part that runs
	root      *testing.T // of all parts
	dir       string
	admin     *kubernetes.Clientset
	access    *rest.Config // admin's
	config    string       // the scheduler's configuration file
	kube      string       // its kubeconfig
	scheduler *process
}

// process is a program of the control plane, its output in a file.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	log  string
}

func (c *control) start(name, path string, args ...string) *process {
	c.t.Helper()
	p := &process{name: name, cmd: exec.Command(path, args...), done: make(chan struct{}), log: filepath.Join(c.dir, name+".log")}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // killed, or its output says why it ended
		_ = out.Close()
		close(p.done)
	}()
	c.root.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// tail is the end of a program's output.
func (p *process) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// wait waits until done, and fails when a program dies before.
func (c *control) wait(p *process, what string, limit time.Duration, done func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(20 * time.Millisecond) {
		if p.ended() {
			c.t.Fatalf("%s died:\n%s", p.name, p.tail())
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("waited %v in vain for %s; the end of %s's output:\n%s", limit, what, p.name, p.tail())
		}
	}
}

// ports are ports of loopback that are free now.
func ports(t *testing.T, n int) []int {
	t.Helper()
	var out []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out
}

func version(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command(path, "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", path, err, out)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return first
}

// newControl starts etcd and the API server, makes the scheduler's account and rights of the manifests that it is
// deployed with, and its configuration of the one that is deployed, without starting it.
func newControl(t *testing.T) *control {
	t.Helper()
	c := &control{t: t, root: t, dir: t.TempDir()}
	t.Logf("%s; %s", version(t, *etcdPath), version(t, *apiserverPath))
	port := ports(t, 4)
	client := fmt.Sprintf("http://127.0.0.1:%d", port[0])
	peer := fmt.Sprintf("http://127.0.0.1:%d", port[1])
	etcd := c.start("etcd", *etcdPath, "--data-dir="+filepath.Join(c.dir, "etcd"), "--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	c.wait(etcd, "etcd to be healthy", time.Minute, func() bool { return healthy(client + "/health") })

	key, ca := c.keys()
	token := rand.Text()
	c.write("tokens.csv", token+",admin,admin,system:masters\n")
	certs := filepath.Join(c.dir, "certs")
	// The admission plugins that are off want a controller that makes a default
	// service account, and a node controller that takes the taint off new nodes.
	api := c.start("kube-apiserver", *apiserverPath, "--etcd-servers="+client, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port[2]),
		"--cert-dir="+certs, "--service-account-key-file="+key, "--service-account-signing-key-file="+key,
		"--service-account-issuer=https://kubernetes.default.svc", "--api-audiences=https://kubernetes.default.svc", "--authorization-mode=RBAC",
		"--token-auth-file="+filepath.Join(c.dir, "tokens.csv"), "--client-ca-file="+ca, "--requestheader-client-ca-file="+ca, "--requestheader-allowed-names=nobody", "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		"--service-cluster-ip-range=10.96.0.0/16", "--event-ttl=2h")
	host := fmt.Sprintf("https://127.0.0.1:%d", port[2])
	config := &rest.Config{Host: host, BearerToken: token, QPS: 500, Burst: 500,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(certs, "apiserver.crt")}}
	c.wait(api, "the API server to be ready", 3*time.Minute, func() bool {
		if _, err := os.Stat(config.CAFile); err != nil {
			return false
		}
		admin, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		c.admin, c.access = admin, config
		_, err = admin.RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
		return err == nil
	})
	c.rights()
	c.kube = c.kubeconfig(host, config.CAFile)
	c.config = c.schedulerConfig()
	return c
}

func healthy(url string) bool {
	r, err := http.Get(url)
	if err != nil {
		return false
	}
	defer r.Body.Close()
	return r.StatusCode == http.StatusOK
}

func (c *control) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// keys are a key that signs the tokens of service accounts, and the certificate of an authority by it, which the API
// server wants before it publishes how others are to authenticate.
func (c *control) keys() (key, ca string) {
	c.t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		c.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "made-up"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		c.t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return c.write("service-accounts.key", block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k))), c.write("ca.crt", block("CERTIFICATE", cert))
}

// rights makes what deploy/rbac.yaml has.
func (c *control) rights() {
	c.t.Helper()
	data, err := os.ReadFile("../deploy/rbac.yaml")
	if err != nil {
		c.t.Fatal(err)
	}
	ctx := c.t.Context()
	for _, doc := range bytes.Split(data, []byte("\n---\n")) {
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(doc, nil, nil)
		if err != nil {
			c.t.Fatal(err)
		}
		var made error
		opts := metav1.CreateOptions{}
		switch o := obj.(type) {
		case *v1.ServiceAccount:
			_, made = c.admin.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, o, opts)
		case *rbacv1.ClusterRole:
			_, made = c.admin.RbacV1().ClusterRoles().Create(ctx, o, opts)
		case *rbacv1.ClusterRoleBinding:
			_, made = c.admin.RbacV1().ClusterRoleBindings().Create(ctx, o, opts)
		case *rbacv1.Role:
			_, made = c.admin.RbacV1().Roles(o.Namespace).Create(ctx, o, opts)
		case *rbacv1.RoleBinding:
			_, made = c.admin.RbacV1().RoleBindings(o.Namespace).Create(ctx, o, opts)
		default:
			made = fmt.Errorf("a %T that the test does not make", o)
		}
		if made != nil {
			c.t.Fatal(made)
		}
	}
}

// kubeconfig is one with a token of the scheduler's service account, so that it
// may do what its manifests grant and no more.
func (c *control) kubeconfig(host, ca string) string {
	c.t.Helper()
	hours := int64(2 * 3600)
	t, err := c.admin.CoreV1().ServiceAccounts("kube-system").CreateToken(c.t.Context(), "cotenant-scheduler",
		&authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &hours}}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	k := clientcmdapi.NewConfig()
	k.Clusters["c"] = &clientcmdapi.Cluster{Server: host, CertificateAuthority: ca}
	k.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: t.Status.Token}
	k.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	k.CurrentContext = "x"
	path := filepath.Join(c.dir, "scheduler.kubeconfig")
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// deployed is the scheduler's configuration as it is deployed.
func deployed(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile("../deploy/scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	return config
}

// schedulerConfig is the deployed one, with the kubeconfig of this run.
func (c *control) schedulerConfig() string {
	c.t.Helper()
	config := deployed(c.t)
	config["clientConnection"] = map[string]any{"kubeconfig": c.kube}
	data, err := yaml.Marshal(config)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.write("scheduler-config.yaml", string(data))
}

// pluginArgs are the arguments of the plugin in the deployed configuration.
func pluginArgs(t *testing.T) plugin.Args {
	t.Helper()
	for _, profile := range deployed(t)["profiles"].([]any) {
		for _, pc := range profile.(map[string]any)["pluginConfig"].([]any) {
			if pc := pc.(map[string]any); pc["name"] == "Cotenant" {
				raw, err := yaml.Marshal(pc["args"])
				if err != nil {
					t.Fatal(err)
				}
				args, err := plugin.ParseArgs(raw)
				if err != nil {
					t.Fatal(err)
				}
				return args
			}
		}
	}
	t.Fatal("the deployed configuration has no arguments for the plugin")
	return plugin.Args{}
}

// schedule starts the scheduler, again after it was killed: it takes over when the lease of the one before has run out.
func (c *control) schedule() {
	c.t.Helper()
	port := ports(c.t, 1)[0]
	c.t.Logf("scheduler %s", version(c.t, *schedulerPath))
	// From -v=3 on it says which pod it takes up when.
	c.scheduler = c.start("kube-scheduler", *schedulerPath, "-v=3", "--config="+c.config, "--authentication-kubeconfig="+c.kube,
		"--authorization-kubeconfig="+c.kube, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--cert-dir="+filepath.Join(c.dir, "scheduler-certs"))
	since := time.Now()
	c.wait(c.scheduler, "the scheduler to hold its lease", time.Minute, func() bool {
		lease, err := c.admin.CoordinationV1().Leases("kube-system").Get(c.t.Context(), "cotenant-scheduler", metav1.GetOptions{})
		return err == nil && lease.Spec.AcquireTime != nil && lease.Spec.AcquireTime.After(since)
	})
}
