// SPDX-License-Identifier: Apache-2.0

package container

import (
	"cmp"
	"regexp"
	"strings"
)

// Ref names the pod and container of a process, as far as its control group has them.
type Ref struct {
	// PodUID is the pod's UID with dashes, or the 32 digits of a static pod. It
	// is empty outside of Kubernetes, and where a cgroup namespace hides it.
	PodUID string
	// ID is the container's id: 64 hexadecimal digits. It is empty for processes
	// of a pod that are in none of its containers.
	ID string
}

var (
	uid       = `[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}`
	podName   = regexp.MustCompile(`^(?:.*-)?pod(` + uid + `)(?:\.slice)?$`)
	idForm    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	unitForm  = regexp.MustCompile(`^(?:cri-containerd|crio|docker|libpod|containerd|nerdctl)-([0-9a-f]{64})(?:\.scope)?$`)
	colonForm = regexp.MustCompile(`^(.*):(?:cri-containerd|crio|docker|containerd):([0-9a-f]{64})$`)
)

// ParseCgroup reads the text of /proc/PID/cgroup, of either version of control groups. ok is false where no line
// names a pod or container: a process of the host, or one whose group is hidden.
//
// A container inside another (Docker in a pod) counts for the outermost one below the pod. Under a private cgroup
// namespace of the reader paths begin with "/.." and may lack the pod's part; the container's id is still there.
// A container's monitor (conmon) runs outside of the container, and belongs to none.
func ParseCgroup(text []byte) (ref Ref, ok bool) {
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimRight(line, "\r\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		r := parsePath(parts[2])
		if better(r, ref) {
			ref = r
		}
	}
	return ref, ref != Ref{}
}

// better reports whether a has more than b. Version 1 controllers can lag behind each other during a move.
func better(a, b Ref) bool {
	worth := func(r Ref) int {
		n := 0
		if r.ID != "" {
			n += 2
		}
		if r.PodUID != "" {
			n++
		}
		return n
	}
	return worth(a) > worth(b)
}

func parsePath(path string) Ref {
	var r Ref
	for s := range strings.SplitSeq(path, "/") {
		if m := colonForm.FindStringSubmatch(s); m != nil {
			if p := podName.FindStringSubmatch(m[1]); p != nil {
				return Ref{PodUID: dashes(p[1]), ID: m[2]}
			}
			r.ID = cmp.Or(r.ID, m[2])
		} else if p := podName.FindStringSubmatch(s); p != nil && r.PodUID == "" {
			// A cluster inside a container (kind): the pod counts.
			r = Ref{PodUID: dashes(p[1])}
		} else if m := unitForm.FindStringSubmatch(s); m != nil {
			r.ID = cmp.Or(r.ID, m[1])
		} else if idForm.MatchString(s) {
			r.ID = cmp.Or(r.ID, s)
		}
	}
	return r
}

// dashes writes a UID as Kubernetes does: systemd's units have underscores.
func dashes(s string) string { return strings.ReplaceAll(s, "_", "-") }
