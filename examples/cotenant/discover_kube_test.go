// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// kubectl plays kubectl: get prints the built-in cluster, and cotenant starts the plugin that it finds on PATH.
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
// cluster through kubectl, as -kube does.
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
	if code, got, stderr := program(t, "", "discover", "-kube", "-json"); code != exitDone || got != want {
		t.Errorf("-kube: exit %d, %s\n%s", code, stderr, got)
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
	t.Setenv("PATH", t.TempDir())
	if code, _, stderr := program(t, "", "discover", "-kube"); code != exitBadInput || !strings.Contains(stderr, "\"kubectl\": executable file not found") {
		t.Errorf("no kubectl: exit %d, %s", code, stderr)
	}
}
