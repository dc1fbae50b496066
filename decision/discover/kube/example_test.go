// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/discover/kube"
)

// onPath has a folder with a kubectl that is this script, or with none, be the whole PATH for the time of an example.
func onPath(script string) (undo func()) {
	path := os.Getenv("PATH")
	folder, err := os.MkdirTemp("", "kube")
	if err == nil && script != "" {
		err = os.WriteFile(filepath.Join(folder, "kubectl"), []byte(script), 0o700)
	}
	if err == nil {
		err = os.Setenv("PATH", folder)
	}
	if err != nil {
		log.Fatal(err)
	}
	return func() { os.RemoveAll(folder); os.Setenv("PATH", path) }
}

// oneNode replaces kubectl and a cluster of one node with GPUs that knows no extension, and pods that the user may not
// list.
const oneNode = `#!/bin/sh
case "$*" in
"get nodes,"*" --all-namespaces -o json")
	echo '{"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "gpu-1", "labels": {"nvidia.com/gpu.product": "NVIDIA-L40S",
		"nvidia.com/gpu.count": "2"}}, "status": {"allocatable": {"nvidia.com/gpu": "2"}, "conditions": [{"type": "Ready", "status": "True"}]}}]}'
	echo 'Error from server (Forbidden): pods is forbidden' >&2 ;;
*) echo "error: the server doesn't have a resource type" >&2 ;;
esac
exit 1
`

// The cluster of kubectl's context becomes a fleet, and the resources that its user may not list are errors.
func ExampleRead() {
	defer onPath(oneNode)()
	c := discover.New(discover.Options{})
	part, err := kube.Read(context.Background(), c.Read, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("left out:", part)
	for _, p := range c.Discover().Fleet.Pools {
		fmt.Println(p.Name, p.GPU, p.Count)
	}
	// Output:
	// left out: kube: kubectl get nodes,pods,deploy,sts,rs,ds,jobs,hpa,pdb,quota: exit status 1: Error from server (Forbidden): pods is forbidden
	// l40s L40S 2
}

// A machine without kubectl is distinguished from a cluster that kubectl can't reach.
func ExampleRead_withoutKubectl() {
	defer onPath("")()
	_, err := kube.Read(context.Background(), discover.New(discover.Options{}).Read, nil)
	fmt.Println(errors.Is(err, exec.ErrNotFound))
	fmt.Println(err)
	// Output:
	// true
	// kube: exec: "kubectl": executable file not found in $PATH
}
