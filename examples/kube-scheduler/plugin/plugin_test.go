// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

// attempt runs a pod through PreFilter, Filter, Score and NormalizeScore and
// returns the state, each node's status and the scores.
func (f *fixture) attempt(t testing.TB, pod *v1.Pod) (fwk.CycleState, map[string]string, map[string]int64) {
	t.Helper()
	ctx, state := t.Context(), framework.NewCycleState()
	statuses, scores := map[string]string{}, map[string]int64{}
	_, s := f.PreFilter(ctx, state, pod, f.infos)
	if !s.IsSuccess() {
		statuses["*"] = s.Code().String() + ": " + s.Message()
		return state, statuses, scores
	}
	var list fwk.NodeScoreList
	for _, info := range f.infos {
		name := info.Node().Name
		if s := f.Filter(ctx, state, pod, info); !s.IsSuccess() {
			statuses[name] = s.Code().String() + ": " + s.Message()
			continue
		}
		score, s := f.Score(ctx, state, pod, info)
		if !s.IsSuccess() {
			t.Errorf("%s passes the filter and can't be scored: %s", name, s.Message())
		}
		list = append(list, fwk.NodeScore{Name: name, Score: score})
	}
	if s := f.NormalizeScore(ctx, state, pod, list); !s.IsSuccess() {
		t.Error(s.Message())
	}
	for _, n := range list {
		scores[n.Name] = n.Score
	}
	return state, statuses, scores
}

func TestFilter(t *testing.T) {
	const never, now = "UnschedulableAndUnresolvable: ", "Unschedulable: "
	busy := makePod("busy", "nvidia.com/gpu=1", "node=slices gpu=0 mechanism=time-slicing share=500m tenant=other")
	busy.Spec.NodeName = "slices"
	nodes := []*v1.Node{
		makeNode("cpu", "", ""),
		makeNode("whole", "nvidia.com/gpu=1", "gpu.product=NVIDIA-L4 gpu.count=1"),
		makeNode("slices", "nvidia.com/gpu=2", "gpu.product=Tesla-T4-SHARED gpu.count=1 gpu.replicas=2 gpu.sharing-strategy=time-slicing"),
		makeNode("liar", "nvidia.com/gpu=3", "gpu.product=NVIDIA-L4-SHARED gpu.count=2 gpu.replicas=2"),
	}
	for _, tc := range []struct {
		name string
		pod  *v1.Pod
		want map[string]string
	}{
		{"no GPU asked for", makePod("p", "cpu=1", "kind=nonsense"), map[string]string{"*": "Skip: "}},
		{"one GPU", makePod("p", "nvidia.com/gpu=1", ""), map[string]string{
			"cpu": never + "gpu no-gpu: no GPU", "liar": never + "gpu labels: labels contradict the capacity",
			"slices": now + "gpu trust: a tenant is not trusted and the mechanism does not isolate"}},
		{"trusting", makePod("p", "nvidia.com/gpu=1", "tenant=other"), map[string]string{
			"cpu": never + "gpu no-gpu: no GPU", "liar": never + "gpu labels: labels contradict the capacity"}},
		{"a model", makePod("p", "nvidia.com/gpu=1", "models=T4 tenant=other"), map[string]string{
			"cpu": never + "gpu no-gpu: no GPU", "liar": never + "gpu labels: labels contradict the capacity",
			"whole": never + "gpu model: another GPU model than asked for"}},
		{"two GPUs", makePod("p", "nvidia.com/gpu=2", "tenant=other"), map[string]string{
			"cpu": never + "gpu no-gpu: no GPU", "liar": never + "gpu labels: labels contradict the capacity",
			"whole": now + "gpu gpu-count: too few GPUs that are alike", "slices": now + "gpu gpu-count: too few GPUs that are alike"}},
		{"invalid", makePod("p", "nvidia.com/gpu=1", "max-slowdown=fast kind=mining"), map[string]string{
			"*": never + `kubegpu: invalid: metadata.annotations[cotenant.dev/kind]: sharing: unknown name: kind "mining"; known: distributed-training, training, ` +
				`online-inference, offline-inference, batch, notebook, ci, hpc metadata.annotations[cotenant.dev/max-slowdown]: "fast" is no slowdown: 1 is as fast as isolated`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, Args{}, nodes, busy)
			_, statuses, _ := f.attempt(t, tc.pod)
			if d := cmp.Diff(tc.want, statuses); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestScore holds that the policy's node alone has the highest score, and that equal nodes go by name.
func TestScore(t *testing.T) {
	node := func(name string, cpu string) *v1.Node {
		n := makeNode(name, "nvidia.com/gpu=2", "gpu.product=NVIDIA-L4 gpu.count=2")
		n.Status.Allocatable[v1.ResourceCPU] = resource.MustParse(cpu)
		return n
	}
	nodes := []*v1.Node{node("c", "8"), node("b", "8"), node("a", "64"), makeNode("none", "", "")}
	f := newFixture(t, Args{}, nodes)
	_, _, scores := f.attempt(t, makePod("p", "nvidia.com/gpu=1 cpu=2", ""))
	if d := cmp.Diff(map[string]int64{"a": 0, "b": 100, "c": 99}, scores); d != "" {
		t.Error(d)
	}
}

// TestReserve reserves, reserves again, gives back twice, and holds that what is
// reserved counts from the next cycle on, before its annotations are seen.
func TestReserve(t *testing.T) {
	f := newFixture(t, Args{}, []*v1.Node{makeNode("a", "nvidia.com/gpu=2", "gpu.product=NVIDIA-L4 gpu.count=2")})
	ctx, pod := t.Context(), makePod("p", "nvidia.com/gpu=1", "")
	state, _, _ := f.attempt(t, pod)
	for range 2 {
		if s := f.Reserve(ctx, state, pod, "a"); !s.IsSuccess() {
			t.Fatal(s.Message())
		}
		if got := f.reservation(pod).String(); got != "GPU 0 as 1000m of exclusive on a" {
			t.Error(got)
		}
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = "a"
	info, err := framework.NewPodInfo(assumed)
	if err != nil {
		t.Fatal(err)
	}
	f.infos[0].AddPodInfo(info)
	for range 2 {
		next := makePod("q", "nvidia.com/gpu=1", "")
		state, statuses, _ := f.attempt(t, next)
		if len(statuses) > 0 {
			t.Fatal(statuses)
		}
		if s := f.Reserve(ctx, state, next, "a"); !s.IsSuccess() {
			t.Fatal(s.Message())
		}
		if got := f.reservation(next).String(); got != "GPU 1 as 1000m of exclusive on a" {
			t.Error(got)
		}
		f.Unreserve(ctx, state, next, "a")
		f.Unreserve(ctx, state, next, "a")
		if f.reservation(next) != nil {
			t.Error("still reserved")
		}
	}
	if _, statuses, _ := f.attempt(t, makePod("r", "nvidia.com/gpu=2", "")); !strings.Contains(statuses["a"], "gpu-count") {
		t.Error(statuses)
	}
	f.Unreserve(ctx, framework.NewCycleState(), makePod("never", "", ""), "a")
	if s := f.Reserve(ctx, state, pod, "gone"); s.Code() != fwk.Error {
		t.Errorf("reserved on a node that is not there: %v", s)
	}
	if s := f.Reserve(ctx, framework.NewCycleState(), pod, "a"); !s.IsSuccess() {
		t.Errorf("a pod that asks for no GPU: %v", s)
	}
}

// TestRecovery starts afresh on pods that an earlier scheduler placed.
func TestRecovery(t *testing.T) {
	nodes := []*v1.Node{makeNode("a", "nvidia.com/gpu=8", "gpu.product=NVIDIA-A100-SXM4-80GB-SHARED gpu.count=2 gpu.replicas=4 gpu.sharing-strategy=mps")}
	bound := func(name, where string) *v1.Pod {
		p := makePod(name, "nvidia.com/gpu=1", where)
		p.Spec.NodeName = "a"
		return p
	}
	f := newFixture(t, Args{}, nodes, bound("x", "node=a gpu=1 mechanism=mps share=250m tenant=t"), bound("y", "node=a gpu=1 mechanism=mps share=250m tenant=t"))
	pod := makePod("p", "nvidia.com/gpu=1 cotenant.dev/gpu-milli=600", "tenant=t")
	state, _, _ := f.attempt(t, pod)
	if s := f.Reserve(t.Context(), state, pod, "a"); !s.IsSuccess() {
		t.Fatal(s.Message())
	}
	if got := f.reservation(pod).String(); got != "GPU 0 as 600m of mps on a" {
		t.Error(got)
	}
	if e := f.events.of(reasonAssumed, "a"); len(e) > 0 {
		t.Errorf("%q", e)
	}
	f = newFixture(t, Args{}, nodes, bound("x", ""))
	f.attempt(t, pod)
	if d := cmp.Diff([]string{"ns/x was bound by somebody else: which GPU it has is assumed"}, f.events.of(reasonAssumed, "a")); d != "" {
		t.Error(d)
	}
}

// TestPreBind annotates through conflicts, and fails where the pod is another.
func TestPreBind(t *testing.T) {
	pod := makePod("p", "nvidia.com/gpu=1", "tenant=x")
	node := makeNode("a", "nvidia.com/gpu=1", "gpu.product=NVIDIA-L4 gpu.count=1")
	f := newFixture(t, Args{}, []*v1.Node{node}, pod)
	ctx := t.Context()
	conflicts := 3
	f.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if conflicts--; conflicts >= 0 {
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("changed"))
		}
		return false, nil, nil
	})
	state, _, _ := f.attempt(t, pod)
	if _, s := f.PreBindPreFlight(ctx, state, pod, "a"); !s.IsSkip() {
		t.Errorf("before Reserve: %v", s)
	}
	if s := f.Reserve(ctx, state, pod, "a"); !s.IsSuccess() {
		t.Fatal(s.Message())
	}
	if _, s := f.PreBindPreFlight(ctx, state, pod, "a"); !s.IsSuccess() {
		t.Errorf("after Reserve: %v", s)
	}
	if s := f.PreBind(ctx, state, pod, "a"); !s.IsSuccess() {
		t.Fatal(s.Message())
	}
	got, err := f.client.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"cotenant.dev/tenant": "x", "cotenant.dev/node": "a", "cotenant.dev/gpu": "0", "cotenant.dev/mechanism": "exclusive",
		"cotenant.dev/share":   "1000m",
		"cotenant.dev/verdict": quotedPlaced}
	if d := cmp.Diff(want, got.Annotations); d != "" {
		t.Error(d)
	}
	f.PostBind(ctx, state, pod, "a")
	if d := cmp.Diff([]string{want["cotenant.dev/verdict"]}, f.events.of(reasonPlaced, "p")); d != "" {
		t.Error(d)
	}

	conflicts = math.MaxInt
	if s := f.PreBind(ctx, state, pod, "a"); s.Code() != fwk.Error || !apierrors.IsConflict(s.AsError()) {
		t.Errorf("conflicts without end: %v", s)
	}
	conflicts = 0
	if err := f.client.CoreV1().Pods("ns").Delete(ctx, "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if s := f.PreBind(ctx, state, pod, "a"); !s.IsSuccess() && !apierrors.IsNotFound(s.AsError()) {
		t.Errorf("a pod that is gone: %v", s)
	}
	other, cancel := context.WithCancel(ctx)
	cancel()
	if s := f.PreBind(other, state, makePod("q", "", ""), "a"); !s.IsSuccess() {
		t.Errorf("a pod without a reservation: %v", s)
	}
}

// TestConcurrency filters, scores, reserves and gives back from many sides at once; the race detector watches.
func TestConcurrency(t *testing.T) {
	f := newFixture(t, Args{}, someNodes())
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			ctx := context.Background()
			for j := range 20 {
				pod := makePod(fmt.Sprintf("p%d-%d", i, j), "nvidia.com/gpu=1 cpu=1", "tenant=t")
				state := framework.NewCycleState()
				if _, s := f.PreFilter(ctx, state, pod, nil); !s.IsSuccess() {
					t.Error(s.Message())
					return
				}
				var list fwk.NodeScoreList
				for _, info := range f.infos {
					if f.Filter(ctx, state, pod, info).IsSuccess() {
						score, _ := f.Score(ctx, state, pod, info)
						list = append(list, fwk.NodeScore{Name: info.Node().Name, Score: score})
					}
				}
				f.NormalizeScore(ctx, state, pod, list)
				for _, n := range list {
					if n.Score == fwk.MaxScore {
						if s := f.Reserve(ctx, state, pod, n.Name); !s.IsSuccess() {
							t.Error(s.Message())
						}
						if j%2 == 0 {
							f.Unreserve(ctx, state, pod, n.Name)
						}
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestDeletedPod forgets the reservation of a pod that is gone.
func TestDeletedPod(t *testing.T) {
	pod := makePod("p", "nvidia.com/gpu=1", "")
	f := newFixture(t, Args{}, []*v1.Node{makeNode("a", "nvidia.com/gpu=1", "")}, pod)
	state, _, _ := f.attempt(t, pod)
	f.Reserve(t.Context(), state, pod, "a")
	if f.reservation(pod) == nil {
		t.Fatal("not reserved")
	}
	if err := f.client.CoreV1().Pods("ns").Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, events: f.events}
	c.wait("the reservation to go", func() bool { return f.reservation(pod) == nil })
}

func TestHints(t *testing.T) {
	cpuless := makePod("cpuless", "nvidia.com/gpu=1 cpu=64", "")
	p := &Plugin{lacksOther: map[types.UID]bool{cpuless.UID: true}}
	events, err := p.EventsToRegister(t.Context())
	if err != nil || len(events) != 3 {
		t.Fatal(events, err)
	}
	node := func(resources, labels string) *v1.Node { return makeNode("n", resources, labels) }
	gpu := node("nvidia.com/gpu=1", "gpu.product=NVIDIA-L4")
	heartbeat := gpu.DeepCopy()
	heartbeat.Annotations = map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
	bound := func(resources string) *v1.Pod {
		p := makePod("gone", resources, "")
		p.Spec.NodeName = "n"
		return p
	}
	pod, wrong := makePod("p", "nvidia.com/gpu=1", ""), makePod("p", "nvidia.com/gpu=1", "kind=mining")
	for _, tc := range []struct {
		name     string
		event    int
		pod      *v1.Pod
		old, new any
		want     fwk.QueueingHint
	}{
		{"a GPU node comes", 0, pod, nil, gpu, fwk.Queue},
		{"a GPU node comes for a wrong pod", 0, wrong, nil, gpu, fwk.QueueSkip},
		{"another node comes", 0, pod, nil, node("", ""), fwk.QueueSkip},
		{"a heartbeat", 0, pod, gpu, heartbeat, fwk.QueueSkip},
		{"more GPUs", 0, pod, gpu, node("nvidia.com/gpu=2", "gpu.product=NVIDIA-L4"), fwk.Queue},
		{"another label", 0, pod, gpu, node("nvidia.com/gpu=1", "gpu.product=NVIDIA-L40S"), fwk.Queue},
		{"a pod leaves a GPU", 1, pod, bound("nvidia.com/gpu=1"), nil, fwk.Queue},
		{"a pod leaves a MIG instance", 1, pod, bound("nvidia.com/mig-1g.10gb=1"), nil, fwk.Queue},
		{"a pod leaves that asks in vain", 1, pod, bound("nvidia.com/gpu=1 nvidia.com/gpu.shared=1"), nil, fwk.Queue},
		{"a pod leaves CPU", 1, pod, bound("cpu=1"), nil, fwk.QueueSkip},
		{"a pod leaves CPU that lacks", 1, cpuless, bound("cpu=1"), nil, fwk.Queue},
		{"a pod takes less CPU", 1, pod, bound("nvidia.com/gpu=1 cpu=2"), bound("nvidia.com/gpu=1 cpu=1"), fwk.QueueSkip},
		{"a pod takes less CPU that lacks", 1, cpuless, bound("nvidia.com/gpu=1 cpu=2"), bound("nvidia.com/gpu=1 cpu=1"), fwk.Queue},
		{"a pod takes fewer GPUs", 1, pod, bound("nvidia.com/gpu=2"), bound("nvidia.com/gpu=1"), fwk.Queue},
		{"a waiting pod leaves", 1, pod, makePod("w", "nvidia.com/gpu=1", ""), nil, fwk.QueueSkip},
		{"nonsense leaves", 1, pod, "text", nil, fwk.QueueSkip},
		{"asks for the same", 2, pod, pod, makePod("p", "nvidia.com/gpu=1", "gpu=0 verdict=x"), fwk.QueueSkip},
		{"asks for less", 2, pod, wrong, pod, fwk.Queue},
	} {
		got, err := events[tc.event].QueueingHintFn(klog.Background(), tc.pod, tc.old, tc.new)
		if err != nil || got != tc.want {
			t.Errorf("%s: %v, %v", tc.name, got, err)
		}
	}
}

// TestLacksOther remembers who was refused for want of CPU, as long as it waits.
func TestLacksOther(t *testing.T) {
	pod, other := makePod("p", "nvidia.com/gpu=1 cpu=65", ""), makePod("q", "nvidia.com/gpu=9", "")
	f := newFixture(t, Args{}, []*v1.Node{makeNode("a", "nvidia.com/gpu=1", "")}, pod, other)
	for _, p := range []*v1.Pod{pod, other} {
		state, _, _ := f.attempt(t, p)
		f.PostFilter(t.Context(), state, p, nil)
	}
	lacks := func() (n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.lacksOther[other.UID] {
			t.Error("a pod that lacks GPUs is taken for one that lacks CPU")
		}
		return len(f.lacksOther)
	}
	if lacks() != 1 {
		t.Error("it is not known that CPU lacks")
	}
	if err := f.client.CoreV1().Pods("ns").Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, events: f.events}
	c.wait("the pod to be forgotten", func() bool { return lacks() == 0 })
}

// TestNominated is about a pod that the framework puts on a node because it is to
// come there: nobody has bound it, and it is counted all the same.
func TestNominated(t *testing.T) {
	f := newFixture(t, Args{}, []*v1.Node{makeNode("a", "nvidia.com/gpu=1", "")})
	nominated := makePod("nominated", "nvidia.com/gpu=1", "")
	nominated.Status.NominatedNodeName = "a"
	pi, err := framework.NewPodInfo(nominated)
	if err != nil {
		t.Fatal(err)
	}
	with := f.infos[0].Snapshot()
	with.AddPodInfo(pi)
	pod, state := makePod("p", "nvidia.com/gpu=1", ""), framework.NewCycleState()
	f.PreFilter(t.Context(), state, pod, nil)
	if s := f.Filter(t.Context(), state, pod, with); s.IsSuccess() {
		t.Error("the nominated pod is not counted")
	}
	if s := f.Filter(t.Context(), state, pod, f.infos[0]); !s.IsSuccess() {
		t.Errorf("without the nominated pod: %v", s)
	}
	bound := makePod("bound", "nvidia.com/gpu=1", "")
	bound.Spec.NodeName = "a"
	if pi, err = framework.NewPodInfo(bound); err != nil {
		t.Fatal(err)
	}
	if e := f.events.of(reasonAssumed, "a"); len(e) > 0 {
		t.Errorf("said of the nominated pod: %q", e)
	}
	with.AddPodInfo(pi)
	f.Filter(t.Context(), state, pod, with)
	if e := f.events.of(reasonAssumed, "a"); len(e) != 1 || !strings.Contains(e[0], "ns/bound was bound by somebody else") {
		t.Errorf("said of the pod that is bound: %q", e)
	}
}

// counting counts how often a policy weighs nodes.
type counting struct {
	placement.Policy
	calls *atomic.Int64
}

func (c counting) Score(o *placement.Option) float64 {
	c.calls.Add(1)
	return c.Policy.Score(o)
}

// TestPlanOnce weighs a pod once for each node from Filter to Score, and Reserve plans it on the one that was chosen.
func TestPlanOnce(t *testing.T) {
	f := newFixture(t, Args{}, someNodes())
	var calls atomic.Int64
	f.scorer = placement.NewScorer(counting{placement.BestFit, &calls}, nil)
	pod := makePod("p", "nvidia.com/gpu=1 cpu=2", "")
	ctx, state := t.Context(), framework.NewCycleState()
	f.PreFilter(ctx, state, pod, nil)
	var took []fwk.NodeInfo
	for _, info := range f.infos {
		if f.Filter(ctx, state, pod, info).IsSuccess() {
			took = append(took, info)
		}
	}
	filtered := calls.Load()
	for _, info := range took {
		f.Score(ctx, state, pod, info)
	}
	if got := calls.Load(); filtered == 0 || got != filtered {
		t.Errorf("%d options were weighed in Filter, %d until Score", filtered, got)
	}
	if s := f.Reserve(ctx, state, pod, took[0].Node().Name); !s.IsSuccess() {
		t.Error(s)
	}
	if got := calls.Load() - filtered; got > 2 {
		t.Errorf("%d options were weighed in Reserve", got)
	}
}

func TestLongEvent(t *testing.T) {
	f := newFixture(t, Args{}, nil)
	f.event(makePod("p", "", ""), v1.EventTypeNormal, reasonPlaced, strings.Repeat("x", 5000))
	if e := f.events.of(reasonPlaced, "p"); len(e[0]) != maxNote || !strings.HasSuffix(e[0], " ...") {
		t.Errorf("%d bytes", len(e[0]))
	}
}

// measuredProfiles is a file of what was measured on an H200.
func measuredProfiles(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../../decision/predict/testdata/h200-colocation.json")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := profile.ParseRows(data)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = json.Marshal(rows.Profiles()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "profiles.json")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestPredicted keeps a pod's objective by what decision's models predict, and says so.
func TestPredicted(t *testing.T) {
	w := func(model string, clients int) profile.ProfileRef {
		return profile.ProfileRef{Server: profile.Server{Model: model}, Load: profile.Load{Concurrency: clients, Prompt: 128, Output: 64}}
	}
	args := Args{Measured: []Measured{{Model: "NVIDIA H200", ProfilesFile: measuredProfiles(t)}}, Workloads: map[string]profile.ProfileRef{"chat": w("8b", 4), "tags": w("1b", 4)}}
	busy := makePod("busy", "nvidia.com/gpu=1", "node=a gpu=0 mechanism=mps share=500m workload=chat")
	busy.Spec.NodeName = "a"
	label := "gpu.product=NVIDIA-H200-SHARED gpu.count=1 gpu.replicas=2 gpu.sharing-strategy=mps"
	f := newFixture(t, args, []*v1.Node{makeNode("a", "nvidia.com/gpu=2", label), makeNode("b", "nvidia.com/gpu=2", label)}, busy)
	for _, tc := range []struct {
		pod  *v1.Pod
		want string
	}{
		{makePod("p", "nvidia.com/gpu=1", "workload=tags max-slowdown=1.01"), "Unschedulable: gpu slowdown: a slowdown beyond the objective is predicted"},
		{makePod("p", "nvidia.com/gpu=1", "workload=tags tpot-p99=1ms"), "Unschedulable: gpu tpot: a TPOT beyond the objective is predicted"},
		{makePod("p", "nvidia.com/gpu=1", "workload=stranger max-slowdown=2"), "Unschedulable: gpu slowdown-unknown: what neighbours do to an objective is not known"},
		{makePod("p", "nvidia.com/gpu=1", "workload=tags max-slowdown=9"), ""},
	} {
		state, statuses, _ := f.attempt(t, tc.pod)
		if got := statuses["a"]; got != tc.want {
			t.Errorf("%v: %s", tc.pod.Annotations, got)
		}
		if tc.want == "" {
			f.Reserve(t.Context(), state, tc.pod, "a")
			if text := f.verdictText(cycleOf(state), f.reservation(tc.pod)); !strings.Contains(text, "the worst slowdown among the neighbours is predicted as ") {
				t.Error(text)
			}
		}
	}
}

func TestArgs(t *testing.T) {
	profiles := measuredProfiles(t)
	for _, tc := range []struct{ args, want string }{
		{``, ""},
		{`{}`, ""},
		{mixArgs, ""},
		{`{"measured":[{"model":"H200","profilesFile":"` + profiles + `"}],"workloads":{"chat":{"server":{"model":"8b"},"load":{"concurrency":4,"prompt":128,"output":64}}}}`, ""},
		{`{"mixx":[],"mix":[{"wait":1}]}`, `unknown field "mix[0].wait"` + "\n" + `unknown field "mixx"`},
		{`{"mix":[{"weight":"much"}]}`, "cannot unmarshal string into Go struct field MixEntry.mix.weight of type float64"},
		{"mix: []\nmix: []", `key "mix" already set`},
		{`{"measured":[{"predictorFile":"x"}]}`, "measured[0].model: is missing (name a GPU model)\nmeasured[0].profilesFile: is missing (name the file)"},
		{`{"measured":[{"model":"H200","profilesFile":"` + profiles + `"}],"workloads":{"chat":{"load":{}}}}`, `workloads.chat.server: is empty (say at least {"model": ...})`},
		{`{"measured":[{"model":"H200","profilesFile":"` + profiles + `"}],"workloads":{"chat":{"load":{}}}}`, "workloads.chat.load"},
		{`{"mix":[{"memory":"1G"}]}`, `"1G" is not an amount of memory`},
		{`{"mix":[{"gpuMilli":5000},{"weight":-1}]}`, "mix[0].gpuMilli: 5000 is out of range (thousandths of each GPU: 1 to 1000)\nmix[1].weight: -1 is no weight"},
		{`{"workloads":{"chat":{"server":{},"load":{"prompt":1,"output":1}}}}`, "measured: workloads are named, and nothing was measured"},
		{`{"measured":[{"model":"A100","profilesFile":"` + profiles + `.gone"}]}`, "measured[0].model: A100 may be any of"},
		{`[1]`, "cotenant: invalid arguments"},
	} {
		args, err := ParseArgs([]byte(tc.args))
		if err == nil {
			_, err = args.Scorer()
		}
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.args, err)
		case tc.want != "" && (err == nil || !errors.Is(err, ErrArgs) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want %s", tc.args, err, tc.want)
		}
	}
	if _, err := New(t.Context(), &v1.Pod{}, nil); !errors.Is(err, ErrArgs) {
		t.Error(err)
	}
}

// FuzzPlugin holds that no pod and no node make the plugin panic.
func FuzzPlugin(f *testing.F) {
	f.Add("nvidia.com/gpu", int64(1), "kind", "notebook", int64(8), "NVIDIA-L4-SHARED", "4", "2", "")
	f.Add("nvidia.com/mig-1g.10gb", int64(2), "gpu", "0;1", int64(7), "NVIDIA-A100-SXM4-80GB", "1", "1", "")
	f.Add("nvidia.com/gpumem", int64(-5), "share", "9999m", int64(10), "", "", "", `[{"id":"a","count":10,"devmem":1}]`)
	fx := &fixture{}
	f.Fuzz(func(t *testing.T, name string, asks int64, key, value string, offers int64, product, replicas, count, register string) {
		if fx.Plugin == nil {
			fx = newFixture(t, Args{}, nil)
		}
		n := makeNode("n", "", "")
		n.Labels = map[string]string{"nvidia.com/gpu.product": product, "nvidia.com/gpu.replicas": replicas, "nvidia.com/gpu.count": count}
		n.Status.Allocatable[v1.ResourceName(name)] = *resource.NewQuantity(offers, resource.DecimalSI)
		n.Status.Allocatable[kubegpu.ResourceGPU] = *resource.NewQuantity(offers, resource.DecimalSI)
		if register != "" {
			n.Annotations = map[string]string{kubegpu.AnnotationHAMiRegister: register}
		}
		pod := makePod("p", "nvidia.com/gpu=1", "")
		pod.Annotations = map[string]string{"cotenant.dev/" + key: value, kubegpu.AnnotationNode: "n"}
		pod.Spec.Containers[0].Resources.Requests[v1.ResourceName(name)] = *resource.NewQuantity(asks, resource.DecimalSI)
		bound := pod.DeepCopy()
		bound.Spec.NodeName, bound.UID = "n", "bound"
		info, err := framework.NewPodInfo(bound)
		if err != nil {
			t.Skip()
		}
		ni := framework.NewNodeInfo()
		ni.SetNode(n)
		ni.AddPodInfo(info)
		ctx, state := context.Background(), framework.NewCycleState()
		if _, s := fx.PreFilter(ctx, state, pod, nil); s.IsRejected() && s.Message() == "" {
			t.Fatal("refused without a reason")
		}
		s := fx.Filter(ctx, state, pod, ni)
		if s.IsRejected() && s.Message() == "" {
			t.Fatal("refused without a reason")
		}
		if s.IsSuccess() {
			if _, s := fx.Score(ctx, state, pod, ni); !s.IsSuccess() {
				t.Fatal(s.Message())
			}
		}
		fx.PostFilter(ctx, state, pod, nil)
		for _, hint := range []func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error){nodeHint, fx.leavingHint, askingHint} {
			hint(klog.Background(), pod, nil, n)
			hint(klog.Background(), pod, bound, pod)
		}
	})
}
