package kube_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/discover/kube"
)

// write makes a kubeconfig for the time of an example and returns its folder.
func write(config string) (folder string, remove func()) {
	folder, err := os.MkdirTemp("", "kube")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "config"), []byte(config), 0o600)
	}
	if err == nil {
		err = os.Setenv("KUBECONFIG", filepath.Join(folder, "config"))
	}
	if err != nil {
		log.Fatal(err)
	}
	return folder, func() { os.RemoveAll(folder); os.Unsetenv("KUBECONFIG") }
}

// objects stands for an API server: of one node with GPUs, whose pods the user may not list.
func objects(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/apis":
		fmt.Fprint(w, `{"kind": "APIGroupList", "groups": []}`)
	case "/api/v1/nodes":
		fmt.Fprint(w, `{"kind": "NodeList", "items": [{"metadata": {"name": "gpu-1", "labels": {"nvidia.com/gpu.product": "NVIDIA-L40S",
			"nvidia.com/gpu.count": "2"}}, "status": {"allocatable": {"nvidia.com/gpu": "2"}, "conditions": [{"type": "Ready", "status": "True"}]}}]}`)
	case "/api/v1/pods":
		w.WriteHeader(http.StatusForbidden)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// The cluster of the current context becomes a fleet, beside what its user was not allowed to see.
func ExampleRead() {
	api := httptest.NewTLSServer(http.HandlerFunc(objects))
	defer api.Close()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}))
	_, remove := write(fmt.Sprintf(`{current-context: lab, contexts: [{name: lab, context: {cluster: lab, user: ada}}],
		clusters: [{name: lab, cluster: {server: %q, certificate-authority-data: %s}}], users: [{name: ada, user: {token: t}}]}`, api.URL, ca))
	defer remove()
	c := discover.New(discover.Options{})
	part, err := kube.Read(context.Background(), c.Read, kube.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("left out:", part)
	for _, p := range c.Discover().Fleet.Pools {
		fmt.Println(p.Name, p.GPU, p.Count)
	}
	// Output:
	// left out: kube: api/v1/pods: not allowed (403): grant get and list on it; the rest is used
	// l40s L40S 2
}

// A kubeconfig that can't be used is told apart from a cluster that can't be reached, with what to change.
func ExampleRead_config() {
	folder, remove := write("{current-context: lab, contexts: [{name: prod, context: {cluster: prod, user: ada}}]}")
	defer remove()
	_, err := kube.Read(context.Background(), discover.New(discover.Options{}).Read, kube.Options{})
	fmt.Println(errors.Is(err, kube.ErrConfig))
	fmt.Println(strings.ReplaceAll(err.Error(), folder, "~/.kube"))
	// Output:
	// true
	// kube: no usable kubeconfig: ~/.kube/config: current-context "lab" has no cluster: choose one with kubectl config use-context
}

// Objects of a cluster that can't be reached directly come through kubectl.
func ExampleResources() {
	fmt.Println("kubectl get " + kube.Resources() + " -A -o json")
	// Output:
	// kubectl get nodes,pods,deployments,statefulsets,replicasets,daemonsets,poddisruptionbudgets,resourcequotas,jobs,horizontalpodautoscalers -A -o json
}
