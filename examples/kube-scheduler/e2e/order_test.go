// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

// gpuPods are n pods that ask for GPUs: what others take of a node's CPU depends
// on where the scheduler's own plugins put them.
func gpuPods(t *testing.T, rng *rand.Rand, prefix string, n int) []*v1.Pod {
	t.Helper()
	var out []*v1.Pod
	for len(out) < n {
		for _, p := range makePods(rng, prefix, 2*n) {
			asked, err := kubegpu.ReadPod(p)
			if err != nil {
				t.Fatal(err)
			}
			if asked != nil && len(out) < n {
				out = append(out, p)
			}
		}
	}
	return out
}

var attempt = regexp.MustCompile(`"Attempting to schedule pod" pod="` + namespace + `/([^"]+)"`)

// inOrder are the names of pods in the order in which the scheduler last took them up, which its output says. It takes
// up one after another, and binds them concurrently.
func (r *run) inOrder(names []string) []string {
	r.t.Helper()
	data, err := os.ReadFile(r.scheduler.log)
	if err != nil {
		r.t.Fatal(err)
	}
	last := map[string]int{}
	for i, m := range attempt.FindAllSubmatch(data, -1) {
		last[string(m[1])] = i + 1
	}
	for _, name := range names {
		if last[name] == 0 {
			r.t.Fatalf("the scheduler's output does not say when it took up %s", name)
		}
	}
	return slices.SortedFunc(slices.Values(names), func(a, b string) int { return cmp.Compare(last[a], last[b]) })
}

// placedInOrder holds that pods that were bound at about the same time are where the library puts one after the other.
func (r *run) placedInOrder(names []string) {
	r.t.Helper()
	for _, name := range r.inOrder(names) {
		r.placedAlike(r.get(name))
	}
}

// createAll creates pods at once and waits until each is bound or refused.
func (r *run) createAll(pods []*v1.Pod) (bound, refused []string) {
	r.t.Helper()
	var wg sync.WaitGroup
	next := make(chan *v1.Pod)
	failed := make([]error, 8)
	for i := range failed {
		wg.Go(func() {
			for p := range next {
				if _, err := r.admin.CoreV1().Pods(namespace).Create(r.t.Context(), p, metav1.CreateOptions{}); err != nil {
					failed[i] = err
				}
			}
		})
	}
	for _, p := range pods {
		next <- p
	}
	close(next)
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			r.t.Fatal(err)
		}
	}
	for _, p := range pods {
		if r.settled(p.Name).Spec.NodeName != "" {
			bound = append(bound, p.Name)
		} else {
			refused = append(refused, p.Name)
		}
	}
	return bound, refused
}

// TestAtOnce creates all pods at once on a control plane of their own, and holds
// that the scheduler decides one after another as the library does.
func TestAtOnce(t *testing.T) {
	r := newRun(t)
	r.forged(t)
	r.nodesChange(t)
	r.library = newLibrary(r.nodes(), r.pods())
	pods := gpuPods(t, rand.New(rand.NewPCG(seed, 2)), "at-once", manyPods)
	start := time.Now()
	bound, refused := r.createAll(pods)
	took := time.Since(start)
	r.placedInOrder(bound)
	for _, name := range refused {
		r.refusedAlike(r.get(name))
	}
	t.Logf("%d pods in %v: %d bound to the node and the GPUs that the library says, in the order in which the scheduler took them up; %d refused where it refuses",
		len(pods), took.Round(time.Millisecond), len(bound), len(refused))
	r.exactReasons(t)
	r.crashes(t)
}

// refusedAlike holds that the library refuses a pod as the scheduler does.
func (r *run) refusedAlike(p *v1.Pod) map[string]kubegpu.Ruling {
	r.t.Helper()
	asked, err := kubegpu.ReadPod(p)
	if err != nil {
		r.t.Fatal(err)
	}
	a, verdicts := r.library.place(asked, r.scorer)
	if a != nil {
		r.library.remove(asked.Name)
		r.t.Errorf("%s waits (%s), and the library puts it on %v", p.Name, refusal(p), a)
	}
	return verdicts
}

// placedAlike holds that a pod is where the library puts it now.
func (r *run) placedAlike(p *v1.Pod) {
	r.t.Helper()
	asked, err := kubegpu.ReadPod(p)
	if err != nil {
		r.t.Fatal(err)
	}
	a, verdicts := r.library.place(asked, r.scorer)
	is := where(p.Spec.NodeName, p.Annotations)
	switch {
	case a == nil:
		r.t.Fatalf("%s is on %q %s, and the library puts it nowhere: %v", p.Name, is, refusal(p), verdicts)
	case is != where(a.Node, a.Annotations()):
		r.t.Fatalf("%s is on %q %s, and the library puts it on %s", p.Name, is, strings.TrimSpace(refusal(p)), where(a.Node, a.Annotations()))
	}
}
