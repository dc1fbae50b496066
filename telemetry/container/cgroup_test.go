// SPDX-License-Identifier: Apache-2.0

package container

import (
	"strings"
	"testing"
)

const (
	cid   = "397529d07efebd566f15dbc7e8af9f3ef586033f5e753adfa96b2bf730102c64"
	inner = "0ecc7949cbaf17e883264ea1055f60b184a7cb264fd759c4a692e1155086fe2d"
	pod   = "fecd2321-17b5-49b9-9f75-8c5be777fbfb"
	podU  = "fecd2321_17b5_49b9_9f75_8c5be777fbfb"
	hash  = "d6c5e7f3a1b24c5d6e7f8091a2b3c4d5" // a static pod's UID is a hash of its file
)

func TestParseCgroup(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string
		ok   bool
	}{
		"v2 systemd containerd":       {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + podU + ".slice/cri-containerd-" + cid + ".scope\n", cid, true},
		"v2 systemd guaranteed":       {"0::/kubepods.slice/kubepods-pod" + podU + ".slice/cri-containerd-" + cid + ".scope\n", cid, true},
		"v2 cgroupfs":                 {"0::/kubepods/besteffort/pod" + pod + "/" + cid + "\n", cid, true},
		"v2 crio, nested":             {"0::/kubepods.slice/kubepods-pod" + podU + ".slice/crio-" + cid + ".scope/container\n", cid, true},
		"v2 crio cgroupfs":            {"0::/kubepods/burstable/pod" + pod + "/crio-" + cid + "\n", cid, true},
		"conmon":                      {"0::/kubepods.slice/kubepods-pod" + podU + ".slice/crio-conmon-" + cid + ".scope\n", "", true},
		"v2 docker systemd":           {"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + podU + ".slice/docker-" + cid + ".scope\n", cid, true},
		"private namespace":           {"0::/../../kubepods-besteffort-pod" + podU + ".slice/cri-containerd-" + cid + ".scope\n", cid, true},
		"private namespace, cgroupfs": {"0::/../../../burstable/pod" + pod + "/" + cid + "\n", cid, true},
		"private, same pod":           {"0::/../cri-containerd-" + cid + ".scope\n", cid, true},
		"v1 many controllers": {"12:memory:/kubepods/burstable/pod" + pod + "/" + cid + "\n11:devices:/kubepods/burstable/pod" + pod + "/" + cid +
			"\n1:name=systemd:/kubepods/burstable/pod" + pod + "/" + cid + "\n0::/\n", cid, true},
		"v1, one controller behind": {"3:cpu,cpuacct:/kubepods.slice\n2:pids:/kubepods.slice/kubepods-pod" + podU + ".slice\n1:memory:/kubepods.slice/kubepods-pod" + podU + ".slice/docker-" + cid + ".scope\n", cid, true},
		"v1 docker":                 {"4:memory:/docker/" + cid + "\n", cid, true},
		"docker systemd":            {"0::/system.slice/docker-" + cid + ".scope\n", cid, true},
		"podman":                    {"0::/machine.slice/libpod-" + cid + ".scope/container\n", cid, true},
		"containerd, colons":        {"0::/system.slice/containerd.service/kubepods-burstable-pod" + podU + ".slice:cri-containerd:" + cid + "\n", cid, true},
		"static pod":                {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + hash + ".slice/cri-containerd-" + cid + ".scope\n", cid, true},
		"docker in a pod":           {"0::/kubepods/pod" + pod + "/" + cid + "/docker/" + inner + "\n", cid, true},
		"kind":                      {"0::/docker/" + inner + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + podU + ".slice/cri-containerd-" + cid + ".scope\n", cid, true},
		"host service":              {"0::/system.slice/sshd.service\n", "", false},
		"session":                   {"0::/user.slice/user-1000.slice/session-3.scope\n", "", false},
		"root":                      {"0::/\n", "", false},
		"short id":                  {"0::/docker/" + cid[:12] + "\n", "", false},
		"not a group":               {"hello\n\n:::\n", "", false},
		"empty":                     {"", "", false},
	} {
		got, ok := parseCgroup([]byte(c.text))
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, ok, c.want, c.ok)
		}
	}
}

func FuzzParseCgroup(f *testing.F) {
	f.Add([]byte("0::/../../kubepods-besteffort-pod" + podU + ".slice/cri-containerd-" + cid + ".scope\n"))
	f.Add([]byte("4:memory:/docker/" + cid + "/kubepods/pod" + pod))
	f.Fuzz(func(t *testing.T, text []byte) {
		id, ok := parseCgroup(text)
		if id != "" && (!ok || len(id) != 64 || strings.Trim(id, "0123456789abcdef") != "") {
			t.Fatalf("%q is no id, %v", id, ok)
		}
	})
}

func FuzzParseStart(f *testing.F) {
	f.Add([]byte("19033 (head) R 18647 18647 9085 0 -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0 2318038 2998272 415"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if n, ok := parseStart(text); !ok && n != 0 {
			t.Fatalf("%d without an answer", n)
		}
	})
}

func FuzzParseLogName(f *testing.F) {
	f.Add("web-0_shop_server-" + cid + ".log")
	f.Fuzz(func(t *testing.T, name string) {
		id, p, ok := parseLogName(name)
		if ok && p.Name+"_"+p.Namespace+"_"+p.Container+"-"+id+".log" != name {
			t.Fatalf("%q became %+v of %s", name, p, id)
		}
		if !ok && (id != "" || p != Pod{}) {
			t.Fatalf("%q: %+v without an answer", name, p)
		}
	})
}

func FuzzParseDevice(f *testing.F) {
	f.Add("GPU-8f2b1c3d-0000-1111-2222-333344445555::3")
	f.Add("nvidia0/gi3/vgpu1")
	f.Fuzz(func(t *testing.T, id string) {
		d, err := ParseDevice(id)
		if (err == nil) == (d == Device{}) {
			t.Fatalf("%q: %+v, %v", id, d, err)
		}
		if n := (Device{UUID: d.UUID, Index: d.Index, Minor: d.Minor}); err == nil && n != (Device{UUID: d.UUID}) && n != (Device{Index: d.Index}) && n != (Device{Minor: d.Minor}) {
			t.Fatalf("%q: %+v names a GPU not once", id, d)
		}
	})
}
