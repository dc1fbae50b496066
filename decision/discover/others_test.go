package discover_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/discover"
)

// TestOthersClusters: the answers to clusters that others wrote down, beside what was read by hand
// (testdata/others/README.md has the sources).
func TestOthersClusters(t *testing.T) {
	for file, want := range map[string]struct{ rows, findings []string }{
		"gpu-operator-time-slicing": {
			[]string{"tesla-t4 Tesla T4 4", "time-slicing 4 5", "default/time-slicing-verification 1 - time-slicing  4"},
			[]string{"trap-replicas-share-memory", "trap-time-slicing-takes-turns"}},
		"prem-operator-39": {
			[]string{"a100-sxm4-40gb A100-SXM4-40GB 4", "mig 4 0", "premai/hermes 1 -"},
			[]string{"gpus-not-held"}},
		"dra-driver-719": {
			[]string{"gpupool A100 80GB PCIe 1", "migpool A100 80GB PCIe 1", "exclusive 1 0", "mig 1 0"}, nil},
	} {
		data, err := os.ReadFile("testdata/others/" + file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		d, err := read(t, discover.Options{}, file, string(data))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if diff := cmp.Diff(want.rows, rows(d)); diff != "" {
			t.Errorf("%s (-read by hand +answer):\n%s", file, diff)
		}
		var codes []string
		for _, f := range d.Findings {
			codes = append(codes, f.Code)
		}
		if diff := cmp.Diff(want.findings, codes); diff != "" {
			t.Errorf("%s: findings (-read by hand +answer):\n%s", file, diff)
		}
	}
}

// TestHalfAClusters: what is missing is said, and nothing is made up of it.
func TestHalfAClusters(t *testing.T) {
	for name, c := range map[string]struct {
		items   string
		rows    []string
		unknown string
	}{
		"nodes without pods": {aNode("n", l4, "", "nvidia.com/gpu=2"), []string{"l4 L4 2", "exclusive 2 0"}, "no pod that asks for GPUs is among the input"},
		"pods without nodes": {aPod("p", "n", "x=1"), []string{"t/p 1 -"}, "no node with GPUs is among the input"},
		"objects of unknown kinds": {`{"apiVersion":"example.com/v9","kind":"Gizmo","metadata":{"name":"g"},"spec":{"gpus":8}},{"apiVersion":"other.io/v1","kind":"Job","metadata":{"name":"j"},"spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"4"}}}]}}}},` +
			aNode("n", l4, "", "nvidia.com/gpu=2"), []string{"l4 L4 2", "exclusive 2 0"}, "no pod that asks for GPUs"},
	} {
		d, err := read(t, discover.Options{}, name, list(c.items))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.rows, rows(d)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		ok := false
		for _, u := range d.Unknown {
			ok = ok || len(u.Why) >= len(c.unknown) && u.Why[:len(c.unknown)] == c.unknown
		}
		if !ok {
			t.Errorf("%s: %+v", name, d.Unknown)
		}
		if found(d, "gpus-not-held") != nil {
			t.Errorf("%s: nobody knows who holds them: %+v", name, d.Findings)
		}
	}
}
