// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Pod names a container of a pod.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"pod"`
	Container string `json:"container"`
}

const maxName = 253 // the longest name that Kubernetes gives to a pod

// Clean makes the names fit for labels and records: valid UTF-8 of at most 253 bytes each. Names from Kubernetes do not
// change.
func (p Pod) Clean() Pod {
	for _, s := range []*string{&p.Namespace, &p.Name, &p.Container} {
		*s = strings.ToValidUTF8(*s, "\uFFFD")
		if len(*s) > maxName {
			*s = strings.ToValidUTF8((*s)[:maxName], "")
		}
	}
	return p
}

// ends matches the suffixes that Kubernetes gives pods' names: of a Deployment a ReplicaSet's hash and five
// characters, of ReplicaSets, DaemonSets and Jobs five characters, of a StatefulSet a number, of an indexed Job both.
var ends = regexp.MustCompile(`^(?:-[bcdf-hj-np-tv-z2456789]{1,10}|-[0-9]+)?-(?:[bcdf-hj-np-tv-z2456789]{5}|[0-9]+)$`)

// OwnedBy reports whether the pod's name is one that a workload of the given name gives its pods, or the name itself.
func (p Pod) OwnedBy(workload string) bool {
	end, ok := strings.CutPrefix(p.Name, workload)
	return ok && workload != "" && (end == "" || ends.MatchString(end))
}

// Compare orders pods by namespace, name and container.
func (p Pod) Compare(q Pod) int {
	return cmp.Or(cmp.Compare(p.Namespace, q.Namespace), cmp.Compare(p.Name, q.Name),
		cmp.Compare(p.Container, q.Container))
}

// Identity names a process and its pod, as far as they are known.
type Identity struct {
	PID uint32
	// Start is the time at which the process started, in clock ticks since the system did. Together with the PID it
	// identifies the process, since PIDs are reused.
	Start uint64
	// Container is the id of its container, 64 hexadecimal digits; empty outside containers.
	Container string
	// Pod is the process's pod. Ignore it unless Reason is empty.
	Pod    Pod
	Reason Reason // why Pod is not known; empty if it is
}

// Known reports whether the process's pod is known.
func (i Identity) Known() bool { return i.Reason == "" }

// Resolver finds the containers of processes and remembers them. It is safe for concurrent use.
type Resolver struct {
	root fs.FS

	mu    sync.Mutex
	seen  map[uint32]Identity
	names map[string]Pod // by container id
}

// NewResolver returns a resolver that reads proc/PID/stat, proc/PID/cgroup and var/log/containers below root, the
// host's root folder: os.DirFS("/") or its mount point.
func NewResolver(root fs.FS) *Resolver {
	return &Resolver{root: root, seen: map[uint32]Identity{}}
}

// Resolve returns the owners of processes, in their order. Each call checks for reused ids: the first answer for the
// new process is ReasonReused. A process that ended after it was resolved keeps its answer until Keep forgets it.
func (r *Resolver) Resolve(pids ...uint32) []Identity {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Identity, len(pids))
	listed := false // read the names of containers once at most
	for i, pid := range pids {
		id := r.look(pid)
		if id.Reason == reasonNoPod && id.Container != "" {
			pod, ok := r.names[id.Container]
			if !ok && !listed {
				listed = true
				r.names = logNames(r.root)
				pod, ok = r.names[id.Container]
			}
			if ok {
				id.Pod, id.Reason = pod, ""
			}
		}
		before, seen := r.seen[pid]
		if id.Reason == reasonGone && seen {
			out[i] = before
			continue
		}
		r.seen[pid] = id
		other := before.Start != 0 && before.Start != id.Start || before.Reason == reasonGone
		if seen && other && id.Reason != reasonGone {
			id.Pod, id.Reason = Pod{}, ReasonReused
		}
		out[i] = id
	}
	return out
}

// Keep drops every process that is not among pids. Call it when ended processes have been accounted for.
func (r *Resolver) Keep(pids ...uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := make(map[uint32]Identity, len(pids))
	for _, pid := range pids {
		if id, ok := r.seen[pid]; ok && id.Reason != reasonGone {
			kept[pid] = id
		}
	}
	r.seen = kept
}

// look reads the system's data on a process; its pod is known only as far as it was known before.
func (r *Resolver) look(pid uint32) Identity {
	start, why := r.start(pid)
	if why != "" {
		return Identity{PID: pid, Reason: why}
	}
	if before, ok := r.seen[pid]; ok && before.Start == start && before.Container != "" {
		return before
	}
	id := Identity{PID: pid, Start: start}
	text, err := fs.ReadFile(r.root, procFile(pid, "cgroup"))
	// The id may have changed hands between the two files.
	again, whyAgain := r.start(pid)
	switch {
	case whyAgain != "":
		return Identity{PID: pid, Reason: whyAgain}
	case again != start:
		return Identity{PID: pid, Start: again, Reason: ReasonReused}
	case err != nil:
		id.Reason = unreadable(err)
		return id
	}
	var ok bool
	id.Container, ok = parseCgroup(text)
	id.Reason = reasonNoPod
	if !ok {
		id.Reason = reasonHost
		if hidden(text) {
			id.Reason = reasonHidden
		}
	}
	return id
}

// hidden reports whether a control group's text shows only the root of a
// namespace, which is how a container sees itself and its like.
func hidden(text []byte) bool {
	for line := range bytes.Lines(text) {
		parts := bytes.SplitN(bytes.TrimSpace(line), []byte(":"), 3)
		if len(parts) == 3 && len(bytes.Trim(parts[2], "/.")) > 0 {
			return false
		}
	}
	return true
}

func unreadable(err error) Reason {
	if errors.Is(err, fs.ErrNotExist) {
		return reasonGone
	}
	return reasonHidden
}

func procFile(pid uint32, name string) string {
	return "proc/" + strconv.FormatUint(uint64(pid), 10) + "/" + name
}

// start reads when a process started. A zombie has ended.
func (r *Resolver) start(pid uint32) (uint64, Reason) {
	text, err := fs.ReadFile(r.root, procFile(pid, "stat"))
	if err != nil {
		return 0, unreadable(err)
	}
	start, ok := parseStart(text)
	if !ok {
		return 0, reasonMalformed
	}
	return start, ""
}

// parseStart reads the 22nd field of /proc/PID/stat (proc(5)). The second is the program's name in parentheses,
// which its owner chooses: it may hold spaces, parentheses and newlines, so that fields count from the last ")".
func parseStart(text []byte) (uint64, bool) {
	i := bytes.LastIndexByte(text, ')')
	if i < 0 {
		return 0, false
	}
	fields := bytes.Fields(text[i+1:])
	const start = 22 - 3 // the first after the name is the third
	if len(fields) <= start {
		return 0, false
	}
	n, err := strconv.ParseUint(string(fields[start]), 10, 64)
	return n, err == nil
}

const logFolder = "var/log/containers" // the folder in which the kubelet keeps a link to each container's log

// logNames lists the containers of the node's pods by id. What cannot be read is not there.
func logNames(root fs.FS) map[string]Pod {
	entries, _ := fs.ReadDir(root, logFolder) // entries read before an error count
	names := make(map[string]Pod, len(entries))
	for _, e := range entries {
		if id, pod, ok := parseLogName(e.Name()); ok {
			names[id] = pod
		}
	}
	return names
}

// parseLogName reads the name of a link in /var/log/containers, which the kubelet gives to the log of each
// container: POD_NAMESPACE_CONTAINER-ID.log. None of the three names may hold an underscore.
func parseLogName(name string) (id string, pod Pod, ok bool) {
	rest, isLog := strings.CutSuffix(name, ".log")
	parts := strings.Split(rest, "_")
	if !isLog || len(parts) != 3 {
		return "", Pod{}, false
	}
	i := strings.LastIndexByte(parts[2], '-')
	if i < 0 || !idForm.MatchString(parts[2][i+1:]) {
		return "", Pod{}, false
	}
	pod = Pod{Namespace: parts[1], Name: parts[0], Container: parts[2][:i]}
	if pod.Namespace == "" || pod.Name == "" || pod.Container == "" {
		return "", Pod{}, false
	}
	return parts[2][i+1:], pod, true
}

// Reason is the cause of an unknown pod of a process; it is empty where the pod is known.
type Reason string

// The reasons.
const (
	reasonGone      Reason = "gone"      // the process ended before it was read
	reasonHidden    Reason = "hidden"    // its control group cannot be read, or a namespace hides it
	reasonHost      Reason = "host"      // it runs in no container
	reasonNoPod     Reason = "no-pod"    // its container belongs to no pod that the node knows
	ReasonReused    Reason = "reused"    // another process had its id until now: recent counts for the id have no owner
	reasonMalformed Reason = "malformed" // the system's data on it cannot be parsed
)

// Reasons lists every reason, for metrics with one series each.
func Reasons() []Reason {
	return []Reason{reasonGone, reasonHidden, reasonHost, reasonNoPod, ReasonReused, reasonMalformed}
}
