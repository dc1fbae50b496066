// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"
)

const (
	simulatedNodes = 1000
	scalePods      = 5000
	// leaseSeconds and renewEvery are the kubelet's defaults.
	leaseSeconds = 40
	renewEvery   = 10 * time.Second
	// A kubelet renews statusEvery leases for one status: every five minutes.
	statusEvery = 30
)

// simulatedNode is one of four kinds of node.
func simulatedNode(i int) *v1.Node {
	name := fmt.Sprintf("sim-%04d", i)
	switch i % 4 {
	case 0:
		return makeNode(name, "nvidia.com/gpu=8", "gpu.product=NVIDIA-A100-SXM4-80GB gpu.memory=81920 gpu.count=8 gpu.replicas=1")
	case 1:
		return makeNode(name, "nvidia.com/gpu=32", "gpu.product=NVIDIA-A100-SXM4-80GB-SHARED gpu.memory=81920 gpu.count=8 gpu.replicas=4 gpu.sharing-strategy=mps mps.capable=true")
	case 2:
		return makeNode(name, "nvidia.com/gpu=16", "gpu.product=Tesla-T4-SHARED gpu.memory=15360 gpu.count=4 gpu.replicas=4 gpu.sharing-strategy=time-slicing")
	}
	return makeNode(name, "cotenant.dev/gpu-milli=8000", "gpu.product=NVIDIA-L4 cotenant.dev/mechanism=mps")
}

// scalePod is one of a few hundred shapes.
func scalePod(i int) *v1.Pod {
	asks := []string{"nvidia.com/gpu=1", "nvidia.com/gpu=1", "cotenant.dev/gpu-milli=250", "cotenant.dev/gpu-milli=600", "nvidia.com/gpu=2"}[i%5]
	says := []string{"tenant=a trusts=b", "tenant=b trusts=a"}[i/5%2]
	return makePod(fmt.Sprintf("scale-%04d", i), fmt.Sprintf("%s cpu=%dm memory=%dGi", asks, 500*(1+i/10%7), 1+i/70%8), says)
}

// each calls do for 0 to n-1, sixteen at a time.
func each(n int, do func(i int) error) error {
	var wg sync.WaitGroup
	next, errs := make(chan int), make(chan error, n)
	for range 16 {
		wg.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					errs <- err
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	close(errs)
	return <-errs // nil where there is none
}

// keepAlive does the work of simulated nodes' kubelets: it renews their leases, each every ten seconds, and says in
// their status that they are ready. It returns how many renewals there were.
func (c *control) keepAlive(ctx context.Context, t *testing.T) (renewed func() int64) {
	seconds := int32(leaseSeconds)
	leases := c.admin.CoordinationV1().Leases("kube-node-lease")
	err := each(simulatedNodes, func(i int) error {
		name, now := simulatedNode(i).Name, metav1.NowMicro()
		_, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now}}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	own, err := kubernetes.NewForConfig(c.access) // with a limit of its own
	if err != nil {
		t.Fatal(err)
	}
	renew := func(k int) error {
		name, now := fmt.Sprintf("sim-%04d", k), time.Now().UTC()
		patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, now.Format("2006-01-02T15:04:05.000000Z"))
		_, err := own.CoordinationV1().Leases("kube-node-lease").Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err == nil && n.Add(1)%statusEvery == 0 {
			beat := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"MadeUp","lastHeartbeatTime":%q}]}}`, now.Format(time.RFC3339))
			_, err = own.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(beat), metav1.PatchOptions{}, "status")
		}
		return err
	}
	const keepers = 8
	for k := range keepers {
		go func() {
			for last := time.Now(); ; {
				for i := k; i < simulatedNodes; i += keepers {
					if err := renew(i); err != nil && ctx.Err() == nil {
						t.Errorf("keeping node %d alive: %v", i, err)
					}
				}
				took := time.Since(last)
				if took > leaseSeconds*time.Second {
					t.Errorf("nodes were not kept alive for %v", took)
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(renewEvery - took):
				}
				last = time.Now()
			}
		}()
	}
	return n.Load
}

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// used is the peak of memory and the CPU time of a process.
func (p *process) used(t *testing.T) (mib int, cpu time.Duration) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		t.Fatal(err)
	}
	if m := peak.FindSubmatch(status); m != nil {
		kb, _ := strconv.Atoi(string(m[1]))
		mib = kb / 1024
	}
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	f := strings.Fields(string(rest))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return mib, time.Duration(user+system) * 10 * time.Millisecond // of USER_HZ
}

// TestThousandNodes places 5,000 pods on 1,000 simulated nodes, kills the scheduler
// in the middle, and holds that all are bound and no GPU is given twice.
func TestThousandNodes(t *testing.T) {
	c := newControl(t)
	args := pluginArgs(t)
	scorer, err := args.Scorer()
	if err != nil {
		t.Fatal(err)
	}
	r := &run{control: c, scorer: scorer, policy: scorer.Policy.Name()}
	t.Cleanup(r.quiet)
	// The scheduler's own limit of 50 requests a second would be what is measured.
	var config map[string]any
	data, err := os.ReadFile(c.config)
	if err == nil {
		err = yaml.Unmarshal(data, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	config["clientConnection"] = map[string]any{"kubeconfig": c.kube, "qps": 1000, "burst": 2000}
	if data, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	c.config = c.write("scheduler-config.yaml", string(data))
	err = each(simulatedNodes, func(i int) error {
		_, err := c.admin.CoreV1().Nodes().Create(t.Context(), simulatedNode(i), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	renewed := c.keepAlive(t.Context(), t)
	c.schedule()

	var mu sync.Mutex
	created, bound := map[string]time.Time{}, map[string]time.Time{}
	factory := informers.NewSharedInformerFactory(c.admin, 0)
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, obj any) {
			if p := obj.(*v1.Pod); p.Spec.NodeName != "" {
				mu.Lock()
				defer mu.Unlock()
				if bound[p.Name].IsZero() {
					bound[p.Name] = time.Now()
				}
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(bound)
	}
	start := time.Now()
	create := func(from, to int) error {
		return each(to-from, func(i int) error {
			p := scalePod(from + i)
			mu.Lock()
			created[p.Name] = time.Now()
			mu.Unlock()
			_, err := c.admin.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
			return err
		})
	}
	all := make(chan error, 1)
	go func() { all <- create(0, scalePods) }()
	r.wait(c.scheduler, "half of the pods", 15*time.Minute, func() bool { return count() >= scalePods/2 })
	killedAt, before := time.Since(start), count()
	mib, cpu := c.scheduler.used(t)
	c.scheduler.kill()
	t.Logf("killed the scheduler after %v with %d pods bound: %.1f a second; it had used %v of CPU, %.2f ms a pod, and %d MiB", killedAt.Round(time.Second),
		before, float64(before)/killedAt.Seconds(), cpu, 1000*cpu.Seconds()/float64(before), mib)
	c.schedule()
	again := time.Now()
	t.Logf("another one had the lease after %v", (time.Since(start) - killedAt).Round(time.Second))
	from := count()
	if err := <-all; err != nil {
		t.Fatal(err)
	}
	t.Logf("all pods were there after %v", time.Since(start).Round(time.Second))
	r.wait(c.scheduler, "all pods", 15*time.Minute, func() bool { return count() == scalePods })
	took := time.Since(again)
	mib, cpu = c.scheduler.used(t)
	t.Logf("it bound the other %d in %v: %.1f a second; %v of CPU, %.2f ms a pod, and %d MiB", scalePods-from, took.Round(time.Second),
		float64(scalePods-from)/took.Seconds(), cpu, 1000*cpu.Seconds()/float64(scalePods-from), mib)

	if waiting := r.consistent(); len(waiting) > 0 {
		t.Errorf("%d pods wait", len(waiting))
	}
	t.Logf("%d pods bound, no GPU given twice, %d leases renewed", count(), renewed())
	// One after another on the full cluster, latency is the scheduler's and not the queue's.
	var latencies []time.Duration
	for i := range 200 {
		if err := create(scalePods+i, scalePods+i+1); err != nil {
			t.Fatal(err)
		}
		name := scalePod(scalePods + i).Name
		r.wait(c.scheduler, name, time.Minute, func() bool { mu.Lock(); defer mu.Unlock(); return !bound[name].IsZero() })
		latencies = append(latencies, bound[name].Sub(created[name]))
	}
	var queued []time.Duration
	for i := range scalePods {
		name := scalePod(i).Name
		queued = append(queued, bound[name].Sub(created[name]))
	}
	for what, l := range map[string][]time.Duration{"all at once, the kill included": queued, "200 more one after another": latencies} {
		slices.Sort(l)
		t.Logf("from creation to binding, %s: P50 %v, P99 %v", what, l[len(l)/2].Round(time.Millisecond), l[len(l)*99/100].Round(time.Millisecond))
	}
	if waiting := r.consistent(); len(waiting) > 0 {
		t.Errorf("%d pods wait", len(waiting))
	}
}
