// SPDX-License-Identifier: Apache-2.0

package container

import (
	"cmp"
	"regexp"
	"strings"
)

var (
	uid       = `[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}`
	podName   = regexp.MustCompile(`^(?:.*-)?pod(?:` + uid + `)(?:\.slice)?$`)
	idForm    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	unitForm  = regexp.MustCompile(`^(?:cri-containerd|crio|docker|libpod|containerd|nerdctl)-([0-9a-f]{64})(?:\.scope)?$`)
	colonForm = regexp.MustCompile(`^(.*):(?:cri-containerd|crio|docker|containerd):([0-9a-f]{64})$`)
)

// parseCgroup reads the text of /proc/PID/cgroup, of either version of control groups, and returns the container's id
// of 64 hexadecimal digits, "" for a process of a pod that is in none of its containers. ok is false where no line
// names a pod or container: a process of the host, or one whose group is hidden.
//
// A container inside another (Docker in a pod) counts for the outermost one below the pod. Under a private cgroup
// namespace of the reader paths begin with "/.." and may lack the pod's part; the container's id is still there.
// A container's monitor (conmon) runs outside of the container, and belongs to none.
func parseCgroup(text []byte) (id string, ok bool) {
	for line := range strings.Lines(string(text)) {
		if parts := strings.SplitN(strings.TrimRight(line, "\r\n"), ":", 3); len(parts) == 3 {
			one, inPod := parsePath(parts[2])
			id = cmp.Or(id, one) // version 1 controllers can lag behind each other during a move
			ok = ok || inPod || one != ""
		}
	}
	return id, ok
}

func parsePath(path string) (id string, inPod bool) {
	for s := range strings.SplitSeq(path, "/") {
		if m := colonForm.FindStringSubmatch(s); m != nil {
			if podName.MatchString(m[1]) {
				return m[2], true
			}
			id = cmp.Or(id, m[2])
		} else if !inPod && podName.MatchString(s) {
			id, inPod = "", true // a cluster inside a container (kind): the pod counts
		} else if m := unitForm.FindStringSubmatch(s); m != nil {
			id = cmp.Or(id, m[1])
		} else if idForm.MatchString(s) {
			id = cmp.Or(id, s)
		}
	}
	return id, inPod
}
