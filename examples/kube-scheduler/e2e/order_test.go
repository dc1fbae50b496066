//go:build e2e

package e2e

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

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

// decisions watches pods and returns, when called with how many are bound, their
// names in the order in which they were first annotated.
func (r *run) decisions() (stop func(n int) []string) {
	r.t.Helper()
	list, err := r.admin.CoreV1().Pods(namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	// One that goes on where it was: the API server drops watchers that are slow.
	w, err := toolswatch.NewRetryWatcherWithContext(r.t.Context(), list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return r.admin.CoreV1().Pods(namespace).Watch(ctx, o)
		}})
	if err != nil {
		r.t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range list.Items {
		seen[list.Items[i].Name] = true
	}
	annotated := make(chan string, manyPods)
	go func() {
		defer close(annotated)
		for e := range w.ResultChan() {
			switch p := e.Object.(type) {
			case *v1.Pod:
				if !seen[p.Name] && p.Annotations[kubegpu.AnnotationVerdict] != "" {
					seen[p.Name] = true
					annotated <- p.Name
				}
			case *metav1.Status:
				r.t.Errorf("watching pods: %s", p.Message)
			}
		}
	}()
	return func(n int) []string {
		r.t.Helper()
		var names []string
		for late := time.After(patience); len(names) < n; {
			select {
			case name, ok := <-annotated:
				if !ok {
					r.t.Fatalf("the watch ended after %d of %d pods", len(names), n)
				}
				names = append(names, name)
			case <-late:
				r.t.Fatalf("%d of %d pods were seen", len(names), n)
			}
		}
		w.Stop()
		for range annotated {
			r.t.Error("more pods are annotated than bound")
		}
		return names
	}
}

// orderer looks for an order of decisions in which the library decides as the
// scheduler did. Pods are bound concurrently, so that the order in which they
// are seen is only about the one in which they were decided.
type orderer struct {
	r     *run
	pods  map[string]*v1.Pod // bound
	asked map[string]*kubegpu.Pod
	order []string // found so far
	tries int
	stuck string // the pod that was first in line where the search got furthest
	best  int
}

const maxTries = 20000

// find reports whether what is left can be ordered.
func (o *orderer) find(left []string) bool {
	if len(left) == 0 {
		return true
	}
	if len(o.order) > o.best || o.stuck == "" {
		o.best, o.stuck = len(o.order), left[0]
	}
	for i, name := range left {
		if o.tries++; o.tries > maxTries {
			return false
		}
		p := o.pods[name]
		a, _ := o.r.library.Place(o.asked[name], o.r.scorer)
		if a == nil {
			continue
		}
		if where(a.Node, a.Annotations()) == where(p.Spec.NodeName, p.Annotations) {
			rest := append(append([]string(nil), left[:i]...), left[i+1:]...)
			o.order = append(o.order, name)
			if o.find(rest) {
				return true
			}
			o.order = o.order[:len(o.order)-1]
		}
		o.r.library.Remove(o.asked[name].Name)
	}
	return false
}

// explain puts pods that were bound at the same time into the library, in an
// order in which it places each where the scheduler did. hint is the order in
// which they were seen. It reports how many stand elsewhere than in hint.
func (r *run) explain(hint []string) (moved int) {
	r.t.Helper()
	o := &orderer{r: r, pods: map[string]*v1.Pod{}, asked: map[string]*kubegpu.Pod{}}
	for _, name := range hint {
		p := r.get(name)
		asked, err := kubegpu.ReadPod(p)
		if err != nil {
			r.t.Fatal(err)
		}
		o.pods[name], o.asked[name] = p, asked
	}
	if !o.find(hint) {
		p := o.pods[o.stuck]
		a, _ := r.library.Place(o.asked[o.stuck], r.scorer)
		says := "nowhere"
		if a != nil {
			says = a.String()
		}
		r.t.Fatalf("no order of decisions explains where %d pods are: after %d of them the library puts %s %s, and it is on %s", len(hint), o.best,
			o.stuck, says, where(p.Spec.NodeName, p.Annotations))
	}
	for i := range hint {
		if hint[i] != o.order[i] {
			moved++
		}
	}
	return moved
}

// createAll creates pods at once and waits until each is bound or refused.
func (r *run) createAll(pods []*v1.Pod) (bound, refused []*v1.Pod) {
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
		if got := r.settled(p.Name); got.Spec.NodeName != "" {
			bound = append(bound, got)
		} else {
			refused = append(refused, got)
		}
	}
	return bound, refused
}

// TestAtOnce creates all pods at once on a control plane of their own, and holds
// that the scheduler decided one after another as the library does.
func TestAtOnce(t *testing.T) {
	r := newRun(t)
	r.forged(t)
	r.nodesChange(t)
	r.library = kubegpu.NewCluster(r.nodes(), r.pods())
	stop := r.decisions()
	pods := gpuPods(t, rand.New(rand.NewPCG(seed, 2)), "at-once", manyPods)
	start := time.Now()
	bound, refused := r.createAll(pods)
	took := time.Since(start)
	moved := r.explain(stop(len(bound)))
	t.Logf("%d pods in %v: the library explains where all %d are that are bound, %d of them decided in another order than they were annotated",
		len(pods), took.Round(time.Millisecond), len(bound), moved)
	for _, p := range refused {
		r.refusedAlike(p)
	}
	t.Logf("the library refuses the %d that are not", len(refused))
	r.exactReasons(t)
	r.crashes(t)
}

// refusedAlike holds that the library refuses a pod as the scheduler does.
func (r *run) refusedAlike(p *v1.Pod) map[string]kubegpu.Verdict {
	r.t.Helper()
	asked, err := kubegpu.ReadPod(p)
	if err != nil {
		r.t.Fatal(err)
	}
	a, verdicts := r.library.Place(asked, r.scorer)
	if a != nil {
		r.library.Remove(asked.Name)
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
	a, verdicts := r.library.Place(asked, r.scorer)
	is := where(p.Spec.NodeName, p.Annotations)
	switch {
	case a == nil:
		r.t.Fatalf("%s is on %q %s, and the library puts it nowhere: %v", p.Name, is, refusal(p), verdicts)
	case is != where(a.Node, a.Annotations()):
		r.t.Fatalf("%s is on %q %s, and the library puts it on %s", p.Name, is, strings.TrimSpace(refusal(p)), where(a.Node, a.Annotations()))
	}
}
