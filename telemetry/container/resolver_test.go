// SPDX-License-Identifier: Apache-2.0

package container

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cotenant/cotenant/sharing"
)

// node is a host's files.
type node struct{ fstest.MapFS }

func newNode() node { return node{fstest.MapFS{}} }

func (n node) process(pid, start int, cgroup string) {
	n.MapFS[fmt.Sprintf("proc/%d/stat", pid)] = &fstest.MapFile{Data: []byte(stat(pid, start, "python"))}
	n.MapFS[fmt.Sprintf("proc/%d/cgroup", pid)] = &fstest.MapFile{Data: []byte(cgroup)}
}

func (n node) end(pid int) {
	delete(n.MapFS, fmt.Sprintf("proc/%d/stat", pid))
	delete(n.MapFS, fmt.Sprintf("proc/%d/cgroup", pid))
}

func (n node) pod(p Pod, id string) {
	n.MapFS["var/log/containers/"+p.Name+"_"+p.Namespace+"_"+p.Container+"-"+id+".log"] = &fstest.MapFile{}
}

func stat(pid, start int, comm string) string {
	return fmt.Sprintf("%d (%s) S 1 1 1 0 -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0 %d 2998272 415 0", pid, comm, start)
}

func inPod(id string) string {
	return "0::/kubepods/pod" + pod + "/" + id + "\n"
}

var web = Pod{"shop", "web-0", "server"}

func TestResolve(t *testing.T) {
	n := newNode()
	n.pod(web, cid)
	n.process(10, 500, inPod(cid))
	n.process(11, 501, "0::/system.slice/sshd.service\n")
	n.process(12, 502, inPod(inner))
	n.process(13, 503, "0::/../../..\n")
	n.MapFS["proc/14/stat"] = &fstest.MapFile{Data: []byte("14 (odd")}
	n.process(15, 505, "0::/docker/"+inner)
	r := NewResolver(n)
	want := map[uint32]Reason{10: "", 11: reasonHost, 12: reasonNoPod, 13: reasonHidden, 14: reasonMalformed, 15: reasonNoPod, 16: reasonGone}
	for _, id := range r.Resolve(10, 11, 12, 13, 14, 15, 16) {
		if id.Reason != want[id.PID] || id.Known() != (id.PID == 10) {
			t.Errorf("%d: %v, want %v", id.PID, id.Reason, want[id.PID])
		}
	}
	if id := r.Resolve(10)[0]; id.Pod != web || id.Start != 500 || id.Container != cid {
		t.Errorf("%+v", id)
	}
	// The link comes after the process.
	n.pod(Pod{"shop", "late", "c"}, inner)
	if id := r.Resolve(12)[0]; id.Pod.Name != "late" {
		t.Errorf("%+v", id)
	}
}

// TestAnIDThatIsUsedAgain: counts for an id since the last call may be either process's, so that the first answer names
// neither.
func TestAnIDThatIsUsedAgain(t *testing.T) {
	n := newNode()
	other := Pod{"lab", "train", "c"}
	n.pod(web, cid)
	n.pod(other, inner)
	n.process(10, 500, inPod(cid))
	r := NewResolver(n)
	r.Resolve(10)
	n.process(10, 777, inPod(inner))
	if id := r.Resolve(10)[0]; id.Reason != ReasonReused || id.Pod != (Pod{}) {
		t.Errorf("%+v", id)
	}
	if id := r.Resolve(10)[0]; id.Pod != other {
		t.Errorf("%+v", id)
	}
}

// flip gives the id to another process once its cgroup has been read.
type flip struct{ node }

func (f flip) ReadFile(name string) ([]byte, error) {
	text, err := fs.ReadFile(f.MapFS, name)
	if name == "proc/10/cgroup" {
		f.process(10, 777, inPod(inner))
	}
	return text, err
}

func TestAnIDThatChangesHandsWhileItIsRead(t *testing.T) {
	n := newNode()
	n.pod(web, cid)
	n.process(10, 500, inPod(cid))
	r := NewResolver(flip{n})
	if id := r.Resolve(10)[0]; id.Reason != ReasonReused || id.Known() {
		t.Errorf("%+v", id)
	}
}

func TestAProcessThatEndsKeepsItsAnswerUntilItIsForgotten(t *testing.T) {
	n := newNode()
	n.pod(web, cid)
	n.process(10, 500, inPod(cid))
	r := NewResolver(n)
	r.Resolve(10)
	n.end(10)
	if id := r.Resolve(10)[0]; id.Pod != web {
		t.Errorf("%+v", id)
	}
	r.Keep()
	if id := r.Resolve(10)[0]; id.Reason != reasonGone {
		t.Errorf("%+v", id)
	}
}

// hides refuses to show control groups, as hidepid and other users' files do.
type hides struct{ node }

func (h hides) ReadFile(name string) ([]byte, error) {
	if name == "proc/10/cgroup" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return fs.ReadFile(h.MapFS, name)
}

func TestAHiddenGroup(t *testing.T) {
	n := newNode()
	n.process(10, 500, inPod(cid))
	if id := NewResolver(hides{n}).Resolve(10)[0]; id.Reason != reasonHidden {
		t.Errorf("%+v", id)
	}
}

func TestAProgramMayBeCalledAnything(t *testing.T) {
	for _, comm := range []string{"python", ") S 1 1 1 0", "a b (c) d", "x\n) R 2", "", "((("} {
		if got, ok := parseStart([]byte(stat(7, 4242, comm))); !ok || got != 4242 {
			t.Errorf("%q: %d, %v", comm, got, ok)
		}
	}
}

func TestAThousandProcesses(t *testing.T) {
	n := newNode()
	var pids []uint32
	for i := range 1000 {
		id := fmt.Sprintf("%064x", i)
		n.pod(Pod{"ns", fmt.Sprint("p", i), "c"}, id)
		n.process(1000+i, i+1, inPod(id))
		pids = append(pids, uint32(1000+i))
	}
	r := NewResolver(n)
	for i, id := range r.Resolve(pids...) {
		if id.Pod.Name != fmt.Sprint("p", i) {
			t.Fatalf("%+v", id)
		}
	}
}

func TestParseDevice(t *testing.T) {
	const uuid = "GPU-8f2b1c3d-0000-1111-2222-333344445555"
	for id, want := range map[string]Device{
		uuid:                        {UUID: uuid},
		uuid + "::3":                {UUID: uuid, Replica: sharing.Some(3)},
		uuid + "-3":                 {UUID: uuid, Replica: sharing.Some(3)},
		"MIG-" + uuid[4:]:           {UUID: "MIG-" + uuid[4:]},
		"MIG-" + uuid[4:] + "::0":   {UUID: "MIG-" + uuid[4:], Replica: sharing.Some(0)},
		"MIG-" + uuid + "/3/0":      {UUID: uuid, GPUInstance: sharing.Some(3)},
		"MIG-" + uuid + "/13/0::12": {UUID: uuid, GPUInstance: sharing.Some(13), Replica: sharing.Some(12)},
		"2":                         {Index: sharing.Some(2)},
		"0:1":                       {Index: sharing.Some(0)},
		"2::1":                      {Index: sharing.Some(2), Replica: sharing.Some(1)},
		"nvidia1":                   {Minor: sharing.Some(1)},
		"nvidia1/gi3":               {Minor: sharing.Some(1), GPUInstance: sharing.Some(3)},
		"nvidia0/vgpu1":             {Minor: sharing.Some(0), Replica: sharing.Some(1)},
		"gpu-5":                     {Minor: sharing.Some(5)},
		"gpu-0-mig-9-4-1":           {Minor: sharing.Some(0), Start: sharing.Some(4)},
		"gpu-1-mig-1g10gb-19-2":     {Minor: sharing.Some(1), Start: sharing.Some(2)},
		"gpu-1-mig-1g.10gb+me-20-6": {Minor: sharing.Some(1), Start: sharing.Some(6)},
	} {
		if got, err := ParseDevice(id); err != nil || got != want {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
	}
	for _, id := range []string{"", "GPU-1", uuid + "::", uuid + "::x", "99999999999", "nvidia", "MIG-" + uuid, "gpu-x", "gpu-0-mig-", "gpu-vfio-0", "eth0"} {
		if got, err := ParseDevice(id); err == nil {
			t.Errorf("%q: %+v", id, got)
		}
	}
}

// TestOwnedBy: every rollout names a workload's pods anew.
func TestOwnedBy(t *testing.T) {
	for pod, want := range map[string]bool{
		"chat": true, "chat-6d4f9c5b7-x2x7k": true, "chat-x2x7k": true, "chat-0": true, "chat-12": true, "chat-3-x2x7k": true,
		"chat-ui": false, "chat-ui-x2x7k": false, "chatty-0": false, "chat-": false, "chat-abcde-fghij-klmno": false, "": false,
	} {
		if got := (Pod{Name: pod}).OwnedBy("chat"); got != want {
			t.Errorf("%q: %v", pod, got)
		}
	}
}

func TestDeviceForm(t *testing.T) {
	for id, want := range map[string]string{
		"gpu-vfio-12": "gpu-vfio-N", "GPU-8f2b1c3d-0000-1111-2222-333344445555+x7": "GPU-UUID+xN", "a\"b\n": "a?b?",
		strings.Repeat("x", 300): strings.Repeat("x", 40),
	} {
		if got := DeviceForm(id); got != want {
			t.Errorf("%q: %q", id, got)
		}
	}
}

func TestBadNames(t *testing.T) {
	for _, name := range []string{"", "x.log", "a_b_c.log", "a_b_c-" + cid, "a_b_-" + cid + ".log", "_b_c-" + cid + ".log", "a_b_c_d-" + cid + ".log"} {
		if id, p, ok := parseLogName(name); ok {
			t.Errorf("%q: %s %+v", name, id, p)
		}
	}
}
