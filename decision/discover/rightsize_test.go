package discover_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/discover"
)

// migCluster is one node of A100s with MIG instances, each with a tenant of a
// single replica: "3g.40gb=4" makes 3g.40gb-0 to -3.
func migCluster(gpus int, instances ...string) string {
	var items, capacity []string
	for _, text := range instances {
		profile, number, _ := strings.Cut(text, "=")
		var n int
		fmt.Sscan(number, &n)
		capacity = append(capacity, fmt.Sprintf(`"nvidia.com/mig-%s":"%d"`, profile, n))
		for i := range n {
			items = append(items, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%[1]s-%[2]d-0","namespace":"t","ownerReferences":[{"kind":"StatefulSet","name":"%[1]s-%[2]d","controller":true}]},
				"spec":{"nodeName":"n","containers":[{"image":"i","resources":{"limits":{"nvidia.com/mig-%[1]s":"1"}}}]},"status":{"phase":"Running"}}`, profile, i))
		}
	}
	items = append(items, fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"nvidia.com/gpu.product":"NVIDIA-A100-SXM4-80GB","nvidia.com/gpu.count":"%d","nvidia.com/mig.strategy":"mixed"}},
		"status":{"capacity":{%s}}}`, gpus, strings.Join(capacity, ",")))
	return `{"kind":"List","items":[` + strings.Join(items, ",") + `]}`
}

// TestRightsize: cases whose optima follow by hand from an A100's seven compute and eight memory slices (1g.10gb 1 and
// 1, 2g.20gb 2 and 2, 3g.40gb 3 and 4, 7g.80gb 7 and 8).
func TestRightsize(t *testing.T) {
	for _, c := range []struct {
		name, cluster, hints string
		want                 []string
		frees                int
	}{
		// 4 x 3g and 3 x 2g have 22 memory slices: 3 GPUs. 4 x 1g and 3 x 2g have 10 compute slices: 2 GPUs.
		{"by hand", migCluster(3, "3g.40gb=4", "2g.20gb=3"), `{"t/3g*": {memory: 8GiB}, "t/2g*": {memory: 19GiB}}`,
			[]string{"t/3g.40gb-0 3g.40gb 1g.10gb", "t/3g.40gb-1 3g.40gb 1g.10gb", "t/3g.40gb-2 3g.40gb 1g.10gb", "t/3g.40gb-3 3g.40gb 1g.10gb"}, 1},
		// Seven whole GPUs for what seven slices of one hold.
		{"seven to one", migCluster(7, "7g.80gb=7"), `{"t/*": {memory: 5GiB}}`,
			[]string{"t/7g.80gb-0 7g.80gb 1g.10gb", "t/7g.80gb-1 7g.80gb 1g.10gb", "t/7g.80gb-2 7g.80gb 1g.10gb", "t/7g.80gb-3 7g.80gb 1g.10gb", "t/7g.80gb-4 7g.80gb 1g.10gb", "t/7g.80gb-5 7g.80gb 1g.10gb", "t/7g.80gb-6 7g.80gb 1g.10gb"}, 6},
		// More memory than a 1g has, and how busy it is not known: 2g, three a GPU.
		{"two to one", migCluster(2, "3g.40gb=3"), `{"t/*": {memory: 15GiB}}`,
			[]string{"t/3g.40gb-0 3g.40gb 2g.20gb", "t/3g.40gb-1 3g.40gb 2g.20gb", "t/3g.40gb-2 3g.40gb 2g.20gb"}, 1},
		// Little memory, and busy with more than one slice does: only memory counts where the slices suffice.
		{"busy", migCluster(1, "3g.40gb=1"), `{"t/*": {memory: 5GiB, gpu_busy: 0.25}}`, []string{"t/3g.40gb-0 3g.40gb 2g.20gb"}, 0},
		{"as large as needed", migCluster(1, "3g.40gb=2"), `{"t/*": {memory: 30GiB}}`, nil, 0},
		{"not known", migCluster(1, "3g.40gb=2"), `{}`, nil, 0},
	} {
		h, err := discover.ParseHints([]byte("workloads: " + c.hints))
		if err != nil {
			t.Fatal(err)
		}
		d, err := read(t, discover.Options{Hints: h}, c.name, c.cluster)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		frees := 0
		for _, r := range d.Rightsize {
			got = append(got, r.Workload+" "+r.From+" "+r.To)
			frees += r.Frees
		}
		if diff := cmp.Diff(c.want, got); diff != "" || frees != c.frees {
			t.Errorf("%s frees %d, want %d (-want +got):\n%s", c.name, frees, c.frees, diff)
		}
	}
}
