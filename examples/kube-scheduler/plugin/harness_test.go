// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"

	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

func init() { schedulermetrics.Register() }

// makeNode is a node with room, and labels below nvidia.com/.
func makeNode(name, resources, labels string) *v1.Node {
	capacity := map[v1.ResourceName]string{"cpu": "64", "memory": "512Gi", "pods": "110"}
	for _, f := range strings.Fields(resources) {
		k, v, _ := strings.Cut(f, "=")
		capacity[v1.ResourceName(k)] = v
	}
	w := st.MakeNode().Name(name).Capacity(capacity).Condition(v1.NodeReady, v1.ConditionTrue, "", "")
	for _, f := range strings.Fields(labels) {
		k, v, _ := strings.Cut(f, "=")
		w.Label("nvidia.com/"+k, v)
	}
	return w.Obj()
}

// makePod asks for resources, with annotations below cotenant.dev/.
func makePod(name, resources, annotations string) *v1.Pod {
	req := map[v1.ResourceName]string{}
	for _, f := range strings.Fields(resources) {
		k, v, _ := strings.Cut(f, "=")
		req[v1.ResourceName(k)] = v
	}
	w := st.MakePod().Namespace("ns").Name(name).UID("uid-" + name).SchedulerName("cotenant-scheduler").Req(req)
	for _, f := range strings.Fields(annotations) {
		k, v, _ := strings.Cut(f, "=")
		w.Annotation("cotenant.dev/"+k, v)
	}
	return w.Obj()
}

// recorder keeps events: "reason object: note".
type recorder struct {
	mu   sync.Mutex
	seen []string
	*events.FakeRecorder
}

func (r *recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := "?"
	if o, ok := regarding.(metav1.Object); ok {
		name = o.GetName()
	}
	r.seen = append(r.seen, fmt.Sprintf("%s %s: %s", reason, name, fmt.Sprintf(note, args...)))
}

// WithLogger returns the recorder itself.
func (r *recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

func (r *recorder) of(reason, name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, e := range r.seen {
		if rest, ok := strings.CutPrefix(e, reason+" "+name+": "); ok {
			out = append(out, rest)
		}
	}
	return out
}

// fixture is the plugin in the framework's own runtime, on a snapshot.
type fixture struct {
	*Plugin
	fwk    framework.Framework
	client *fake.Clientset
	events *recorder
	infos  []fwk.NodeInfo

	activated int
}

func newFixture(t testing.TB, args Args, nodes []*v1.Node, pods ...*v1.Pod) *fixture {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var objects []runtime.Object
	for _, p := range pods {
		objects = append(objects, p)
	}
	f := &fixture{client: fake.NewClientset(objects...), events: &recorder{FakeRecorder: &events.FakeRecorder{}}}
	var bound []*v1.Pod
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			bound = append(bound, p)
		}
	}
	snapshot := internalcache.NewSnapshot(bound, nodes)
	factory := informers.NewSharedInformerFactory(f.client, 0)
	var err error
	f.fwk, err = tf.NewFramework(ctx, []tf.RegisterPluginFunc{tf.RegisterQueueSortPlugin(queuesort.Name, queuesort.New), tf.RegisterBindPlugin(defaultbinder.Name, defaultbinder.New),
		tf.RegisterPluginAsExtensions(Name, func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			var err error
			f.Plugin, err = NewPlugin(args, h)
			return f.Plugin, err
		}, "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "Reserve", "PreBind", "PostBind")}, "cotenant-scheduler",
		frameworkruntime.WithClientSet(f.client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithPodActivator(f), frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithEventRecorder(f.events))
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	// The fake server tells watchers nothing of what happened between their list and their watch.
	for !f.watchesPods() {
		if ctx.Err() != nil {
			t.Fatal("nobody watches pods")
		}
		time.Sleep(time.Millisecond)
	}
	f.infos, err = snapshot.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(f.infos, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	return f
}

// Activate notes that pods are to be tried at once.
func (f *fixture) Activate(_ klog.Logger, pods map[string]*v1.Pod) { f.activated += len(pods) }

// watchesPods says whether pods are watched after they were listed.
func (f *fixture) watchesPods() bool {
	listed := false
	for _, a := range f.client.Actions() {
		switch {
		case a.GetResource().Resource != "pods":
		case a.GetVerb() == "list":
			listed = true
		case a.GetVerb() == "watch" && listed:
			return true
		}
	}
	return false
}

// cluster is a whole scheduler on a fake API server.
type cluster struct {
	t      *testing.T
	client *fake.Clientset
	events *recorder
	stop   func()
}

// profiles are those of the configuration that is deployed, with other arguments for the plugin.
func profiles(t *testing.T, args string) []config.KubeSchedulerProfile {
	t.Helper()
	data, err := os.ReadFile("../deploy/scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	obj, _, err := configscheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := obj.(*config.KubeSchedulerConfiguration).Profiles
	for i := range out[0].PluginConfig {
		if out[0].PluginConfig[i].Name == Name && args != "" {
			out[0].PluginConfig[i].Args = &runtime.Unknown{Raw: []byte(args), ContentType: runtime.ContentTypeJSON}
		}
	}
	return out
}

func newCluster(t *testing.T, objects ...runtime.Object) *cluster {
	c := &cluster{t: t, client: fake.NewClientset(objects...)}
	// The fake keeps no bindings: do what the API server does.
	c.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		b := action.(clienttesting.CreateAction).GetObject().(*v1.Binding)
		// Not by the client: it is locked while it reacts.
		pods := v1.SchemeGroupVersion.WithResource("pods")
		obj, err := c.client.Tracker().Get(pods, action.GetNamespace(), b.Name)
		if err != nil {
			return true, nil, err
		}
		p := obj.(*v1.Pod).DeepCopy()
		p.Spec.NodeName = b.Target.Name
		err = c.client.Tracker().Update(pods, p, p.Namespace)
		return true, b, err
	})
	return c
}

// start runs a scheduler until stop; the state is the API server's alone.
func (c *cluster) start(args string) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c.events = &recorder{FakeRecorder: &events.FakeRecorder{}}
	factory := scheduler.NewInformerFactory(c.client, 0, nil)
	hundred := int32(100)
	s, err := scheduler.New(ctx, c.client, factory, nil, func(string) events.EventRecorderLogger { return c.events },
		scheduler.WithProfiles(profiles(c.t, args)...), scheduler.WithPercentageOfNodesToScore(&hundred),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{Name: New}),
		scheduler.WithPodInitialBackoffSeconds(1), scheduler.WithPodMaxBackoffSeconds(1))
	if err != nil {
		cancel()
		c.t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		cancel()
		c.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	var once sync.Once
	c.stop = func() { once.Do(func() { cancel(); <-done; factory.Shutdown() }) }
	c.t.Cleanup(c.stop)
}

func (c *cluster) create(p *v1.Pod) {
	c.t.Helper()
	if _, err := c.client.CoreV1().Pods(p.Namespace).Create(c.t.Context(), p, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) get(name string) *v1.Pod {
	c.t.Helper()
	p, err := c.client.CoreV1().Pods("ns").Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// outcome waits until a pod is bound or refused and says which: where it is, or why not.
func (c *cluster) outcome(name string) string {
	c.t.Helper()
	var out string
	c.wait(name+" to be bound or refused", func() bool {
		p := c.get(name)
		if p.Spec.NodeName != "" {
			out = fmt.Sprintf("%s %s %s %s", p.Spec.NodeName, p.Annotations[kubegpu.AnnotationGPU], p.Annotations[kubegpu.AnnotationShare],
				p.Annotations[kubegpu.AnnotationMechanism])
			return true
		}
		if e := c.events.of("FailedScheduling", name); len(e) > 0 {
			out = e[len(e)-1]
			return true
		}
		return false
	})
	return out
}

func (c *cluster) wait(what string, done func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(deadline) {
			c.t.Fatalf("waited in vain for %s; events: %s", what, strings.Join(c.events.all(), "\n"))
		}
		time.Sleep(5 * time.Millisecond)
	}
}
