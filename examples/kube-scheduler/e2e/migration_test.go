// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

var migrationLog = flag.String("migration-log", "", "`FILE` for what TestMigration sent, and what was accepted")

// TestMigration plays the plans that cotenant writes for a cluster on its API server: every command of plan.md, each
// object by a server-side dry run first, and from every step the way back. Simulated are the controllers, the
// scheduler, the kubelets, the device plugin and the MIG manager (below). After each thing that any of them does no
// running pod lacks its device, and no workload more replicas than it may.
func TestMigration(t *testing.T) {
	var lines []string
	for _, c := range []struct{ name, hint string }{{"mps", ""}, {"mig", ", isolation: {memory: hardware}"}} {
		t.Run(c.name, func(t *testing.T) { lines = append(lines, migration(t, c.name, c.hint)...) })
	}
	if *migrationLog != "" {
		if err := os.WriteFile(*migrationLog, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func migration(t *testing.T, name, hint string) []string {
	c := newControl(t)
	w := &world{control: c, saved: map[string]*v1.ConfigMap{}, before: map[string][]v1.PodTemplateSpec{}, known: map[string]map[string]int{}}
	w.build()
	w.settle()
	var hints strings.Builder
	hints.WriteString("workloads:\n")
	for _, n := range []string{"a", "b", "c", "d", "e", "s"} {
		fmt.Fprintf(&hints, "  team/%s: {kind: batch, memory: 8GiB, gpu_busy: 0.06%s}\n", n, hint)
	}
	w.folder = filepath.Join(c.dir, "plan")
	args := []string{"./examples/cotenant", "plan", "-kube", "-out", w.folder, "-hints", c.write("hints.yaml", hints.String()),
		"-prices", c.write("prices.yaml", "A100-SXM4-80GB: 3.25 USD\n")}
	if name == "mig" { // the live cluster's ConfigMaps are not read, but a file of them is
		m, err := c.admin.CoreV1().ConfigMaps("gpu-operator").Get(t.Context(), "plugin-configs", metav1.GetOptions{})
		w.must(err)
		m.APIVersion, m.Kind = "v1", "ConfigMap"
		text, err := json.Marshal(m)
		w.must(err)
		args = append(args, c.write("configs.json", string(text)))
	}
	run1(t, w.kubeconfig(), args...)
	page, err := os.ReadFile(filepath.Join(w.folder, "plan.md"))
	if err != nil {
		t.Fatal(err)
	}
	steps := readSteps(string(page))
	if len(steps) < 6 {
		t.Fatalf("%d steps:\n%s", len(steps), page)
	}
	start := w.state()
	for last := range steps {
		if last == len(steps)-1 { // the log has the whole plan once
			w.lines = []string{fmt.Sprintf("# %s: %s; %s", name, version(t, *apiserverPath), version(t, *etcdPath))}
		}
		for i := range last + 1 {
			w.play(&steps[i])
		}
		if last == len(steps)-1 {
			w.note("%s: the whole plan is carried out; the way back from it:", name)
		}
		for i := last; i >= 0; i-- {
			for _, item := range steps[i].back {
				w.do(item)
			}
			w.settle()
		}
		if got := w.state(); got != start {
			t.Fatalf("after %q and the way back:\n%s\nbefore:\n%s", steps[last].title, got, start)
		}
	}
	if w.moved == 0 || w.configured == 0 || w.sent != w.accepted {
		t.Errorf("%d pods moved, %d nodes configured, %d of %d objects accepted", w.moved, w.configured, w.accepted, w.sent)
	}
	w.note("%s: %d steps, back from each of them; %d objects sent, each by dry run first, %d accepted; %d pods created, %d times a node was configured",
		name, len(steps), w.sent, w.accepted, w.moved, w.configured)
	return w.lines
}

// section is a step of plan.md, or what comes before the first.
type section struct {
	title           string
	do, check, back []string
}

func readSteps(page string) []section {
	out := []section{{title: "before the first step"}}
	var to *[]string
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		s := &out[len(out)-1]
		switch {
		case strings.HasPrefix(line, "## Check for these"):
			return out
		case strings.HasPrefix(line, "## "):
			out, to = append(out, section{title: strings.TrimPrefix(line, "## ")}), nil
		case line == "Do:" || line == "Before the first step:":
			to = &s.do
		case line == "Check:":
			to = &s.check
		case line == "Way back:":
			to = &s.back
		case strings.HasPrefix(line, "- ") && to != nil:
			*to = append(*to, strings.TrimPrefix(line, "- "))
		}
	}
	return out
}

// world is the cluster with whom no program runs for.
type world struct {
	*control
	folder                            string
	saved                             map[string]*v1.ConfigMap        // what "before" files hold
	before                            map[string][]v1.PodTemplateSpec // a workload's earlier templates
	known                             map[string]map[string]int       // mig-parted configurations: instances
	mps                               bool
	sent, accepted, moved, configured int
	pending                           string // the StatefulSet that its own rollout interrupts
	lines                             []string
}

func (w *world) note(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
	w.t.Log(w.lines[len(w.lines)-1])
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// send does something first by a server-side dry run, and then for real.
func (w *world) send(what string, do func(dryRun []string) error) {
	w.t.Helper()
	w.sent++
	if err := do([]string{metav1.DryRunAll}); err != nil {
		w.note("REFUSED %s: %v", what, err)
		w.t.Fatalf("%s: %v", what, err)
	}
	w.must(do(nil))
	w.accepted++
	w.note("accepted: %s", what)
}

// build makes six nodes of four A100 and seven workloads on them.
func (w *world) build() {
	ctx, create := w.t.Context(), metav1.CreateOptions{}
	for _, n := range []string{"team", "gpu-operator"} {
		_, err := w.admin.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n}}, create)
		w.must(err)
	}
	_, err := w.admin.CoreV1().ConfigMaps("gpu-operator").Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "plugin-configs"},
		Data: map[string]string{"ts4": "version: v1\nsharing:\n  timeSlicing:\n    resources:\n      - name: nvidia.com/gpu\n        replicas: 4\n"}}, create)
	w.must(err)
	w.known["all-3g.40gb"], w.known["all-disabled"] = map[string]int{"3g.40gb": 8, "": 0}, map[string]int{"": 4}
	for name, labels := range map[string]string{"g1": "", "g2": "", "g3": "", "g4": "", "t1": "nvidia.com/device-plugin.config=ts4", "m1": "nvidia.com/mig.config=all-3g.40gb"} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
			"nvidia.com/gpu.count": "4", "nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.deploy.device-plugin": "true", "nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "mixed"}}}
		if k, v, ok := strings.Cut(labels, "="); ok {
			n.Labels[k] = v
		}
		n, err := w.admin.CoreV1().Nodes().Create(ctx, n, create)
		w.must(err)
		n.Status.Capacity = resources("cpu=64 memory=512Gi pods=110 nvidia.com/gpu=4")
		n.Status.Allocatable = n.Status.Capacity
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
		_, err = w.admin.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
		w.must(err)
	}
	w.plug()
	for _, l := range []struct {
		kind, name, asks string
		nodes            []string
	}{
		{"Deployment", "a", "nvidia.com/gpu=1", []string{"g1", "g1"}}, {"Deployment", "b", "nvidia.com/gpu=1", []string{"g1", "g2"}},
		{"Deployment", "c", "nvidia.com/gpu=1", []string{"g2", "g2"}}, {"StatefulSet", "s", "nvidia.com/gpu=1", []string{"g3"}},
		{"Deployment", "d", "nvidia.com/gpu=1", []string{"g3"}}, {"Deployment", "e", "nvidia.com/gpu=1", []string{"t1", "t1", "t1"}},
		{"Deployment", "f", "nvidia.com/mig-3g.40gb=1", []string{"m1", "m1"}},
	} {
		all, n := resources(l.asks), int32(len(l.nodes))
		labels := map[string]string{"app": l.name}
		template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "main", Image: "example.org/" + l.name + ":1", Resources: v1.ResourceRequirements{Limits: all, Requests: all}}}}}
		if l.name == "e" { // as its team keeps it on the nodes that share
			template.Spec.NodeSelector = map[string]string{"nvidia.com/device-plugin.config": "ts4"}
		}
		meta, selector := metav1.ObjectMeta{Name: l.name, Namespace: "team"}, &metav1.LabelSelector{MatchLabels: labels}
		if l.kind == "Deployment" {
			_, err := w.admin.AppsV1().Deployments("team").Create(ctx, &appsv1.Deployment{ObjectMeta: meta,
				Spec: appsv1.DeploymentSpec{Replicas: &n, Selector: selector, Template: template}}, create)
			w.must(err)
		} else {
			_, err := w.admin.AppsV1().StatefulSets("team").Create(ctx, &appsv1.StatefulSet{ObjectMeta: meta,
				Spec: appsv1.StatefulSetSpec{Replicas: &n, Selector: selector, Template: template, ServiceName: l.name}}, create)
			w.must(err)
			one := intstr.FromInt32(1)
			b, err := w.admin.PolicyV1().PodDisruptionBudgets("team").Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: meta,
				Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: selector}}, create)
			w.must(err)
			b.Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, CurrentHealthy: n, ExpectedPods: n}
			_, err = w.admin.PolicyV1().PodDisruptionBudgets("team").UpdateStatus(ctx, b, metav1.UpdateOptions{})
			w.must(err)
		}
		for _, s := range w.sets() {
			if s.name == l.name {
				for i, node := range l.nodes {
					w.bind(w.newPod(s, i), node)
				}
			}
		}
	}
	two := int32(2)
	_, err = w.admin.AutoscalingV2().HorizontalPodAutoscalers("team").Create(ctx, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "e"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: &two, MaxReplicas: 6,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "e"}}}, create)
	w.must(err)
}

// kubeconfig is one with the rights of an administrator.
func (w *world) kubeconfig() string {
	k := clientcmdapi.NewConfig()
	k.Clusters["c"] = &clientcmdapi.Cluster{Server: w.access.Host, CertificateAuthority: w.access.CAFile}
	k.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: w.access.BearerToken}
	k.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	k.CurrentContext = "x"
	path := filepath.Join(w.dir, "admin.kubeconfig")
	w.must(clientcmd.WriteToFile(*k, path))
	return path
}

// play takes a step and checks it.
func (w *world) play(s *section) {
	w.t.Helper()
	w.note("%s", s.title)
	for _, item := range slices.Concat(s.do, s.check) {
		w.do(item)
	}
	w.settle()
}

var (
	quoted    = regexp.MustCompile("`([^`]+)`")
	allocated = regexp.MustCompile(`get node (\S+) -o .*allocatable.*shows (\S+): (\d+)`)
	onNodes   = regexp.MustCompile(`its new pods are on ([\w ]+), as they prefer`)
)

// do does what an item of a list says.
func (w *world) do(item string) {
	w.t.Helper()
	item = strings.ReplaceAll(item, "configmap NAME ", "configmap plugin-configs ")
	switch {
	case strings.HasPrefix(item, "Nodes choose from a ConfigMap"):
		path := filepath.Join(w.folder, "device-plugin/configmap.yaml")
		data, err := os.ReadFile(path)
		w.must(err)
		w.must(os.WriteFile(path, []byte(strings.Replace(string(data), "name: NAME", "name: plugin-configs", 1)), 0o600))
		return
	case strings.HasPrefix(item, "Add the entries of mig-parted/config.yaml"):
		w.partitions()
		return
	case allocated.MatchString(item):
		m := allocated.FindStringSubmatch(item)
		w.settle()
		n := w.node(m[1])
		if q := n.Status.Allocatable[v1.ResourceName(m[2])]; fmt.Sprint(q.Value()) != m[3] {
			w.t.Fatalf("%s: it is %v", item, q.Value())
		}
		return
	case strings.Contains(item, "mig\\.config\\.state"):
		w.settle()
		return
	case onNodes.MatchString(item):
		return // rollout status, before it, looks where they are
	case strings.Contains(item, "nvidia.com/mps.capable=true"):
		if !w.mps {
			w.t.Fatalf("%s: no node runs the daemon", item)
		}
		return
	}
	for _, m := range quoted.FindAllStringSubmatch(item, -1) {
		for command := range strings.SplitSeq(m[1], " && ") {
			w.kubectl(command, item)
		}
	}
}

// replaced is the command that puts an object back.
var replaced = regexp.MustCompile(`^sed .*kubectl get (\w+)/([-\w]+).*\| kubectl replace -f -$`)

// kubectl does what the program of that name would do.
func (w *world) kubectl(command, item string) {
	w.t.Helper()
	ctx := w.t.Context()
	if m := replaced.FindStringSubmatch(command); m != nil { // the file has the object as get wrote it before its patch
		w.undo(command, m[1], m[2])
		return
	}
	words := strings.Fields(command)
	flags, args := map[string]string{}, []string{}
	for i := 1; i < len(words); i++ {
		switch {
		case slices.Contains([]string{"-n", "-o", "-f", "--patch-file", "--type", "--field-selector", ">"}, words[i]):
			flags[words[i]] = words[i+1]
			i++
		case !strings.HasPrefix(words[i], "-"):
			args = append(args, words[i])
		}
	}
	if words[0] != "kubectl" || len(args) == 0 {
		w.t.Fatalf("nobody plays %q of %q", command, item)
	}
	switch verb := args[0]; verb {
	case "cordon", "uncordon":
		for _, name := range args[1:] {
			patch := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, verb == "cordon")
			w.send(command, func(dry []string) error {
				_, err := w.admin.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dry})
				return err
			})
		}
	case "drain":
		for _, p := range w.pods() {
			if p.Spec.NodeName == args[1] {
				w.t.Fatalf("%s: %s would be evicted", command, p.Name)
			}
		}
	case "label":
		labels := map[string]any{}
		for _, l := range args[3:] {
			if k, v, set := strings.Cut(l, "="); set {
				labels[k] = v
			} else {
				labels[strings.TrimSuffix(l, "-")] = nil
			}
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
		w.must(err)
		w.send(command, func(dry []string) error {
			_, err := w.admin.CoreV1().Nodes().Patch(ctx, args[2], types.MergePatchType, patch, metav1.PatchOptions{DryRun: dry})
			return err
		})
	case "patch":
		w.patch(command, args[1:], flags)
	case "rollout":
		_, name, _ := strings.Cut(args[2], "/")
		w.settle()
		w.rolledOut(name)
	case "get":
		if file := flags[">"]; file == "before-configmaps.yaml" {
			list, err := w.admin.CoreV1().ConfigMaps(flags["-n"]).List(ctx, metav1.ListOptions{})
			w.must(err)
			for i := range list.Items {
				w.saved[list.Items[i].Name] = &list.Items[i]
			}
		}
		if node, is := strings.CutPrefix(flags["--field-selector"], "spec.nodeName="); is {
			for _, p := range w.pods() {
				if p.Spec.NodeName == node {
					w.t.Fatalf("%s: %s is there", command, p.Name)
				}
			}
		}
	case "apply":
		if flags["-f"] != "before-configmaps.yaml" {
			w.t.Fatalf("nobody plays %q", command)
		}
		for _, m := range w.saved {
			w.send(command, func(dry []string) error {
				had, err := w.admin.CoreV1().ConfigMaps(m.Namespace).Get(ctx, m.Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				had.Data = m.Data
				_, err = w.admin.CoreV1().ConfigMaps(m.Namespace).Update(ctx, had, metav1.UpdateOptions{DryRun: dry})
				return err
			})
		}
	case "edit":
	default:
		w.t.Fatalf("nobody plays %q", command)
	}
}

// patch is kubectl patch with a file of the folder.
func (w *world) patch(command string, object []string, flags map[string]string) {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.folder, flags["--patch-file"]))
	w.must(err)
	data, err = yaml.YAMLToJSON(data)
	w.must(err)
	kind, name, ok := strings.Cut(object[0], "/")
	if !ok {
		name = object[1]
	}
	how := types.StrategicMergePatchType
	if flags["--type"] == "merge" {
		how = types.MergePatchType
	}
	ctx := w.t.Context()
	w.send(command, func(dry []string) error {
		opts := metav1.PatchOptions{DryRun: dry}
		var err error
		switch kind {
		case "node":
			_, err = w.admin.CoreV1().Nodes().Patch(ctx, name, how, data, opts)
		case "configmap":
			_, err = w.admin.CoreV1().ConfigMaps(flags["-n"]).Patch(ctx, name, how, data, opts)
		case "deployment":
			if dry == nil {
				d, err := w.admin.AppsV1().Deployments(flags["-n"]).Get(ctx, name, metav1.GetOptions{})
				w.must(err)
				w.before[name] = append(w.before[name], d.Spec.Template)
			}
			_, err = w.admin.AppsV1().Deployments(flags["-n"]).Patch(ctx, name, how, data, opts)
		case "statefulset":
			if dry == nil {
				s, err := w.admin.AppsV1().StatefulSets(flags["-n"]).Get(ctx, name, metav1.GetOptions{})
				w.must(err)
				w.before[name] = append(w.before[name], s.Spec.Template)
			}
			_, err = w.admin.AppsV1().StatefulSets(flags["-n"]).Patch(ctx, name, how, data, opts)
		default:
			err = fmt.Errorf("nobody patches a %s", kind)
		}
		return err
	})
}

// undo puts a workload's template before the last in force again.
func (w *world) undo(command, kind, name string) {
	w.t.Helper()
	all := w.before[name]
	if len(all) == 0 {
		w.t.Fatalf("%s: it has no earlier template", command)
	}
	template, ctx := all[len(all)-1], w.t.Context()
	w.before[name] = all[:len(all)-1]
	w.send(command, func(dry []string) error {
		opts := metav1.UpdateOptions{DryRun: dry}
		if kind == "deployment" {
			d, err := w.admin.AppsV1().Deployments("team").Get(ctx, name, metav1.GetOptions{})
			w.must(err)
			d.Spec.Template = template
			_, err = w.admin.AppsV1().Deployments("team").Update(ctx, d, opts)
			return err
		}
		s, err := w.admin.AppsV1().StatefulSets("team").Get(ctx, name, metav1.GetOptions{})
		w.must(err)
		s.Spec.Template = template
		_, err = w.admin.AppsV1().StatefulSets("team").Update(ctx, s, opts)
		return err
	})
}

// rolledOut waits as rollout status does, and until the pods are where they prefer to be.
func (w *world) rolledOut(name string) {
	w.t.Helper()
	for _, s := range w.sets() {
		if s.name != name {
			continue
		}
		ready := 0
		for _, p := range w.podsOf(name) {
			if p.Labels[hashLabel] != s.hash || p.Status.Phase != v1.PodRunning {
				w.t.Fatalf("%s is on %q, %s, of template %s, not %s", p.Name, p.Spec.NodeName, p.Status.Phase, p.Labels[hashLabel], s.hash)
			}
			ready++
			if a := s.template.Spec.Affinity; a != nil && !prefers(a, w.node(p.Spec.NodeName)) {
				w.t.Errorf("%s is on %s", p.Name, p.Spec.NodeName)
			}
		}
		if ready != s.replicas {
			w.t.Fatalf("%s has %d of %d replicas", name, ready, s.replicas)
		}
	}
}

// partitions gives the MIG manager the entries of the folder's file.
func (w *world) partitions() {
	data, err := os.ReadFile(filepath.Join(w.folder, "mig-parted/config.yaml"))
	w.must(err)
	var file struct {
		Configs map[string][]struct {
			Devices []int          `json:"devices"`
			Enabled bool           `json:"mig-enabled"`
			MIG     map[string]int `json:"mig-devices"`
		} `json:"mig-configs"`
	}
	w.must(yaml.Unmarshal(data, &file))
	for name, entries := range file.Configs {
		w.known[name] = map[string]int{}
		for _, e := range entries {
			if !e.Enabled {
				w.known[name][""] += len(e.Devices)
			}
			for p, n := range e.MIG {
				w.known[name][p] += n * len(e.Devices)
			}
		}
	}
}

func (w *world) node(name string) *v1.Node {
	w.t.Helper()
	n, err := w.admin.CoreV1().Nodes().Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(err)
	return n
}

func (w *world) nodes() []v1.Node {
	list, err := w.admin.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	return list.Items
}

func (w *world) pods() []v1.Pod {
	list, err := w.admin.CoreV1().Pods("team").List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	return list.Items
}

func (w *world) podsOf(name string) []v1.Pod {
	return slices.DeleteFunc(w.pods(), func(p v1.Pod) bool { return p.Labels["app"] != name })
}

// plug is the device plugin, GPU feature discovery and the MIG manager: nodes hand out what their labels choose. A MIG
// configuration is changed only where no pod has a GPU; without a label the manager leaves what there is.
func (w *world) plug() (changed bool) {
	ctx := w.t.Context()
	configs, err := w.admin.CoreV1().ConfigMaps("gpu-operator").Get(ctx, "plugin-configs", metav1.GetOptions{})
	w.must(err)
	for _, n := range w.nodes() {
		whole, replicas, strategy := 4, 1, "none"
		devices := map[string]int{}
		if key := n.Labels["nvidia.com/mig.config"]; key != "" {
			layout, ok := w.known[key]
			if !ok {
				w.t.Fatalf("%s: the MIG manager has no configuration %q", n.Name, key)
			}
			whole = layout[""]
			for p, k := range layout {
				if p != "" {
					devices["nvidia.com/mig-"+p] = k
				}
			}
		}
		if key := n.Labels["nvidia.com/device-plugin.config"]; key != "" {
			text, ok := configs.Data[key]
			if !ok {
				w.t.Fatalf("%s: the device plugin has no configuration %q", n.Name, key)
			}
			var file struct {
				Sharing map[string]struct {
					Resources []struct{ Replicas int } `json:"resources"`
				} `json:"sharing"`
			}
			w.must(yaml.Unmarshal([]byte(text), &file))
			for how, s := range file.Sharing {
				replicas, strategy = s.Resources[0].Replicas, map[string]string{"timeSlicing": "time-slicing", "mps": "mps"}[how]
			}
		}
		devices["nvidia.com/gpu"] = whole * replicas
		has := map[string]int{}
		for r, q := range n.Status.Allocatable {
			if strings.HasPrefix(string(r), "nvidia.com/") && (q.Value() > 0 || r == "nvidia.com/gpu") {
				has[string(r)] = int(q.Value())
			}
		}
		if maps.Equal(has, devices) && n.Labels["nvidia.com/gpu.sharing-strategy"] == strategy {
			continue
		}
		changed = true
		for _, p := range w.pods() {
			if p.Spec.NodeName == n.Name {
				w.t.Fatalf("%s changes from %v to %v, and %s runs there", n.Name, has, devices, p.Name)
			}
		}
		w.configured++
		w.mps = w.mps || strategy == "mps"
		n.Labels["nvidia.com/gpu.sharing-strategy"], n.Labels["nvidia.com/gpu.replicas"] = strategy, strconv.Itoa(replicas)
		m, err := w.admin.CoreV1().Nodes().Update(ctx, &n, metav1.UpdateOptions{})
		w.must(err)
		amounts := "cpu=64 memory=512Gi pods=110"
		for r, k := range devices {
			amounts += fmt.Sprintf(" %s=%d", r, k)
		}
		m.Status.Capacity = resources(amounts)
		m.Status.Allocatable = m.Status.Capacity
		_, err = w.admin.CoreV1().Nodes().UpdateStatus(ctx, m, metav1.UpdateOptions{})
		w.must(err)
	}
	return changed
}
