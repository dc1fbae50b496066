// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/cotenant/cotenant/examples/kube-scheduler/internal/problems"
	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

// usedFixture is a plugin before nodes of eight shared GPUs, on which pods run that an earlier scheduler placed.
func usedFixture(t testing.TB, nodes int, args Args) *fixture {
	rng := rand.New(rand.NewPCG(1, 2))
	f := newFixture(t, args, nil)
	for i := range nodes {
		name := fmt.Sprintf("n%05d", i)
		node := makeNode(name, "nvidia.com/gpu=32", "gpu.product=NVIDIA-A100-SXM4-80GB-SHARED gpu.count=8 gpu.replicas=4 gpu.sharing-strategy=mps")
		info := framework.NewNodeInfo()
		info.SetNode(node)
		for g := range 8 {
			for k := range rng.IntN(5) {
				p := makePod(fmt.Sprintf("%s-%d-%d", name, g, k), fmt.Sprintf("nvidia.com/gpu=1 cpu=%dm", 100+rng.IntN(3000)), fmt.Sprintf("node=%s gpu=%d mechanism=mps share=250m", name, g))
				p.Spec.NodeName = name
				addPod(t, info, p)
			}
		}
		f.infos = append(f.infos, info)
	}
	return f
}

func addPod(t testing.TB, info *framework.NodeInfo, p *v1.Pod) {
	t.Helper()
	pi, err := framework.NewPodInfo(p)
	if err != nil {
		t.Fatal(err)
	}
	info.AddPodInfo(pi)
}

// cycleOnce runs a pod through PreFilter, and through Filter and Score on the nodes that are left to them.
func (f *fixture) cycleOnce(t testing.TB, pod *v1.Pod) (fwk.CycleState, fwk.NodeScoreList) {
	ctx, state := t.Context(), framework.NewCycleState()
	res, s := f.PreFilter(ctx, state, pod, f.infos)
	if !s.IsSuccess() {
		t.Fatal(s.Message())
	}
	nodes := f.infos
	if res != nil {
		nodes = nil
		for _, name := range slices.Sorted(slices.Values(res.NodeNames.UnsortedList())) {
			at, _ := slices.BinarySearchFunc(f.infos, name, func(n fwk.NodeInfo, name string) int { return strings.Compare(n.Node().Name, name) })
			nodes = append(nodes, f.infos[at])
		}
	}
	var list fwk.NodeScoreList
	for _, info := range nodes {
		if f.Filter(ctx, state, pod, info).IsSuccess() {
			score, _ := f.Score(ctx, state, pod, info)
			list = append(list, fwk.NodeScore{Name: info.Node().Name, Score: score})
		}
	}
	f.NormalizeScore(ctx, state, pod, list)
	return state, list
}

// TestHandedOver holds that PreFilter hands over nodes that take the pod, among them the best by a look at each; that
// nodes which the pod may not go to are none of them; and that all are tried where other plugins refused those.
func TestHandedOver(t *testing.T) {
	f := usedFixture(t, 150, Args{})
	for i, info := range f.infos {
		n := info.Node()
		n.Spec.Unschedulable = i%10 == 0
		n.Labels["pool"] = fmt.Sprint(i % 3)
		if i%7 == 0 {
			n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}
		}
	}
	pod := makePod("p", "nvidia.com/gpu=1 cpu=1", "")
	pod.Spec.NodeSelector = map[string]string{"pool": "1"}
	may := func(i int) bool { return i%10 != 0 && i%3 == 1 && i%7 != 0 }
	res, s := f.PreFilter(t.Context(), framework.NewCycleState(), pod, f.infos)
	if !s.IsSuccess() || res == nil || res.NodeNames.Len() != handedOver {
		t.Fatalf("%v, %v", res, s)
	}
	asked, err := kubegpu.ReadPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	best, where := -1.0, ""
	for i, info := range f.infos {
		name := info.Node().Name
		score, v := f.state(info).Score(asked, f.scorer)
		if v.Code == "fits" && may(i) && score > best {
			best, where = score, name
		}
		if res.NodeNames.Has(name) && (v.Code != "fits" || !may(i)) {
			t.Errorf("%s is handed over: %v", name, v)
		}
	}
	if !res.NodeNames.Has(where) {
		t.Errorf("the best node, %s, is not handed over", where)
	}

	// Other plugins refuse them: all are tried, once.
	state, _ := f.cycleOnce(t, pod)
	f.PostFilter(t.Context(), state, pod, nil)
	res, _ = f.PreFilter(t.Context(), framework.NewCycleState(), pod, f.infos)
	again, _ := f.PreFilter(t.Context(), framework.NewCycleState(), pod, f.infos)
	if res != nil || again == nil || f.activated != 1 {
		t.Errorf("%v, then %v; activated %d times", res, again, f.activated)
	}

	// A pod that no node takes is left to Filter, which says why.
	if res, s := f.PreFilter(t.Context(), framework.NewCycleState(), makePod("q", "nvidia.com/gpu=1 cpu=99", ""), f.infos); res != nil || !s.IsSuccess() {
		t.Errorf("%v, %v", res, s)
	}
	// Nodes that vanish, and pods that come, are seen in the next cycle.
	f.infos = slices.Delete(f.infos, 0, 20)
	for _, info := range f.infos[:100] {
		for g := range 8 {
			p := makePod(fmt.Sprint("late", g), "nvidia.com/gpu=1 cpu=7900m", fmt.Sprintf("node=%s gpu=%d mechanism=mps share=250m", info.Node().Name, g))
			p.Spec.NodeName = info.Node().Name
			addPod(t, info.(*framework.NodeInfo), p)
		}
	}
	res, _ = f.PreFilter(t.Context(), framework.NewCycleState(), makePod("r", "nvidia.com/gpu=1 cpu=1", ""), f.infos)
	for _, info := range f.infos[:100] {
		if res == nil || res.NodeNames.Has(info.Node().Name) {
			t.Fatalf("%s is full: %v", info.Node().Name, res)
		}
	}
	if res.NodeNames.HasAny("n00001", "n00004") {
		t.Errorf("gone: %v", res)
	}
}

// BenchmarkCycle finds a node for a pod among used ones, of which one changed.
func BenchmarkCycle(b *testing.B) {
	mix := []MixEntry{{CPUMilli: 500, GPUMilli: 250}, {CPUMilli: 2500, GPUMilli: 250}, {CPUMilli: 6000, GPUMilli: 500}, {CPUMilli: 8000}}
	for _, c := range []struct {
		args  Args
		nodes int
	}{{Args{}, 1000}, {Args{}, 10_000}, {Args{Mix: mix}, 1000}, {Args{Mix: mix}, 10_000}} {
		policy := c.args.policy(&problems.List{}).Name()
		b.Run(fmt.Sprint(policy, "/", c.nodes), func(b *testing.B) {
			nodes := c.nodes
			f := usedFixture(b, nodes, c.args)
			rng := rand.New(rand.NewPCG(3, 4))
			f.cycleOnce(b, makePod("first", "nvidia.com/gpu=1 cpu=1", ""))
			for b.Loop() {
				pod := makePod("p", fmt.Sprintf("nvidia.com/gpu=1 cpu=%dm", 100+rng.IntN(3000)), "")
				_, list := f.cycleOnce(b, pod)
				if len(list) == 0 {
					b.Fatal("no node takes it")
				}
				info := f.infos[rng.IntN(nodes)].(*framework.NodeInfo)
				pods := info.GetPods()
				if len(pods) > 0 {
					gone := pods[0].GetPod()
					if err := info.RemovePod(klog.Background(), gone); err != nil {
						b.Fatal(err)
					}
					addPod(b, info, gone)
				}
			}
		})
	}
}

// TestVanishesAndForged reserves on a node that is gone since PreFilter, and has a
// node among many forge its labels: neither is placed on, and the scheduler goes on.
func TestVanishesAndForged(t *testing.T) {
	f := usedFixture(t, 100, Args{})
	pod := makePod("p", "nvidia.com/gpu=1 cpu=1", "")
	state := framework.NewCycleState()
	res, _ := f.PreFilter(t.Context(), state, pod, f.infos)
	if res == nil {
		t.Fatal("no node is handed over")
	}
	for _, name := range res.NodeNames.UnsortedList() { // the fixture's snapshot has no node
		if s := f.Reserve(t.Context(), state, pod, name); s.IsSuccess() || f.reservation(pod) != nil {
			t.Errorf("%s is gone: %v", name, s)
		}
	}
	for _, info := range f.infos {
		if n := info.Node(); res.NodeNames.Has(n.Name) {
			forged := n.DeepCopy()
			forged.Labels["nvidia.com/gpu.count"], forged.Labels["nvidia.com/gpu.replicas"] = "9999", "many"
			info.(*framework.NodeInfo).SetNode(forged)
		}
	}
	again, _ := f.PreFilter(t.Context(), framework.NewCycleState(), pod, f.infos)
	if again == nil || again.NodeNames.Intersection(res.NodeNames).Len() > 0 {
		t.Errorf("%v are handed over after %v forged their labels", again, res)
	}
}
