// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/race"
)

// site is a cluster in the making: its objects, and a week of its Prometheus' series.
type site struct {
	objects []string
	series  []series
	gpus    map[string]int // handed out so far, by node
}

// series is a metric's week: a constant, a day and night around a mean, or a counter's rise by the second.
type series struct {
	name, labels string
	mean, swing  float64
	counter      bool
}

func (s *site) add(format string, args ...any) {
	s.objects = append(s.objects, fmt.Sprintf(format, args...))
}

// node adds a node; labels and resources are "key=value key=value".
func (s *site) node(name, labels, resources, annotations string) {
	pairs := func(text string) string {
		m := map[string]string{}
		for _, p := range strings.Fields(text) {
			k, v, _ := strings.Cut(p, "=")
			m[k] = v
		}
		out, _ := json.Marshal(m)
		return string(out)
	}
	amounts := pairs(resources + " cpu=94 memory=900Gi")
	s.add(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q,"uid":"u-%[1]s","labels":%s,"annotations":{%s}},"status":{"capacity":%s,"allocatable":%[4]s,"conditions":[{"type":"Ready","status":"True"}]}}`,
		name, pairs(labels+" kubernetes.io/hostname="+name), annotations, amounts)
}

// load has the requests and the use of a workload's pods: mean busy time and memory (MiB), requests a second of a vLLM
// server, the resource, its image or command, and annotations.
type load struct {
	busy, memory, rate float64
	asks, image, more  string
	notes              func(pod, node string) string
	labels             func(pod, node string, gpu int) string // of its samples; "" = the exporter doesn't see it
}

const gpuOne = `"nvidia.com/gpu":"1"`

// runs adds a workload of a kind with one pod on each of the nodes.
func (s *site) runs(kind, name string, l load, nodes ...string) {
	ns, base, _ := strings.Cut(name, "/")
	spec := func(node string) string {
		on := ""
		if node != "" {
			on = fmt.Sprintf(`"nodeName":%q,`, node)
		}
		return fmt.Sprintf(`{%s%s"containers":[{"name":"main","image":%q,"resources":{"requests":{"cpu":"4","memory":"16Gi"},"limits":{%s}}}]}`, on, l.more, l.image, l.asks)
	}
	s.add(`{"apiVersion":"apps/v1","kind":%q,"metadata":{"namespace":%q,"name":%q},"spec":{"replicas":%d,"selector":{"matchLabels":{"app":%[3]q}},"template":{"metadata":{"labels":{"app":%[3]q}},"spec":%[5]s}}}`,
		kind, ns, base, len(nodes), spec(""))
	owner, of := kind, base
	if kind == "Job" {
		s.objects[len(s.objects)-1] = fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":%q,"name":%q},"spec":{"template":{"spec":%s}}}`, ns, base, spec(""))
	}
	if kind == "Deployment" {
		owner, of = "ReplicaSet", base+"-5d8"
		s.add(`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":%q,"name":%q,"ownerReferences":[{"kind":"Deployment","name":%q,"controller":true}]},"spec":{"replicas":%d}}`, ns, of, base, len(nodes))
	}
	for i, node := range nodes {
		pod := fmt.Sprintf("%s-%d", of, i)
		notes := ""
		if l.notes != nil {
			notes = l.notes(pod, node)
		}
		s.add(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":%q,"name":%q,"uid":"u-%[2]s","labels":{"app":%q},"annotations":{%s},"ownerReferences":[{"kind":%q,"name":%q,"controller":true}]},"spec":%s,"status":{"phase":"Running"}}`,
			ns, pod, base, notes, owner, of, spec(node))
		if s.gpus == nil {
			s.gpus = map[string]int{}
		}
		at := s.gpus[node]
		s.gpus[node]++
		labels := fmt.Sprintf("Hostname=%s gpu=%d UUID=GPU-%[1]s-%[2]d namespace=%s pod=%s", node, at, ns, pod)
		if l.labels != nil {
			labels = l.labels(pod, node, at)
		}
		if labels != "" {
			s.used(labels, l.busy, l.memory)
		}
		if l.rate > 0 {
			s.serves(fmt.Sprintf("namespace=%s pod=%s model_name=m engine=0", ns, pod), l.rate)
		}
	}
}

// used adds an exporter's series of a GPU.
func (s *site) used(labels string, busy, memory float64) {
	s.series = append(s.series, series{name: "DCGM_FI_DEV_FB_USED", labels: labels, mean: memory},
		series{name: "DCGM_FI_PROF_SM_ACTIVE", labels: labels, mean: busy, swing: min(busy/3, 1-busy)},
		series{name: "DCGM_FI_DEV_POWER_USAGE", labels: labels, mean: 90 + 300*busy})
}

// serves adds vLLM's series: 400 tokens in, 150 out, 60 ms to the first token, 12 ms for each more.
func (s *site) serves(labels string, rate float64) {
	add := func(name string, perSecond float64) {
		s.series = append(s.series, series{name: "vllm:" + name, labels: labels, mean: perSecond, swing: perSecond / 3, counter: true})
	}
	histogram := func(name string, n, value float64, bounds ...float64) {
		for _, le := range append(bounds, math.Inf(1)) {
			here := 0.0
			if value <= le {
				here = n
			}
			s.series = append(s.series, series{name: "vllm:" + name + "_bucket", labels: labels + " le=" + strings.Replace(fmt.Sprint(le), "+Inf", "+Inf", 1), mean: here, swing: here / 3, counter: true})
		}
		add(name+"_count", n)
		add(name+"_sum", n*value)
	}
	add("prompt_tokens_total", 400*rate)
	add("generation_tokens_total", 150*rate)
	add("request_success_total", rate)
	s.series = append(s.series, series{name: "vllm:num_requests_running", labels: labels, mean: rate * 1.86, swing: rate / 2})
	histogram("time_to_first_token_seconds", rate, 0.06, 0.04, 0.08, 0.25)
	histogram("inter_token_latency_seconds", 149*rate, 0.012, 0.01, 0.015, 0.05)
	histogram("e2e_request_latency_seconds", rate, 1.86, 1, 2, 5)
}

// prometheus answers a range query of the site's series.
func (s *site) prometheus(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	number := func(key string) int64 { n, _ := strconv.ParseInt(q.Get(key), 10, 64); return n }
	start, end, step := number("start"), number("end"), number("step")
	fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[`)
	for i, of := range s.series {
		metric := map[string]string{"__name__": of.name}
		for _, p := range strings.Fields(of.labels) {
			k, v, _ := strings.Cut(p, "=")
			metric[k] = v
		}
		head, _ := json.Marshal(metric)
		fmt.Fprintf(w, `%s{"metric":%s,"values":[`, map[bool]string{true: ","}[i > 0], head)
		for at := start; at <= end; at += step {
			const radians = 2 * math.Pi / 86400 // a second
			t := float64(at - start)
			v := of.mean + of.swing*math.Sin(t*radians)
			if of.counter { // the integral
				v = of.mean*t + of.swing/radians*(1-math.Cos(t*radians))
			}
			fmt.Fprintf(w, `%s[%d,"%.6g"]`, map[bool]string{true: ","}[at > start], at, v)
		}
		fmt.Fprint(w, "]}")
	}
	fmt.Fprint(w, "]}}")
}

// nodes names so many.
func nodes(name string, n int, each int) (out []string) {
	for i := range n {
		for range each {
			out = append(out, fmt.Sprintf("%s-%d", name, i+1))
		}
	}
	return out
}

const vllm, jupyter, trainer, tei = "vllm/vllm-openai:v0.11", "quay.io/jupyter/pytorch-notebook:x", "nvcr.io/nvidia/pytorch:24.09", "ghcr.io/huggingface/text-embeddings-inference:1.8"

// gke is four nodes with two time-shared L4s each, four clients to a GPU; the exporter names one pod of each GPU.
func gke() *site {
	s := &site{}
	for _, n := range nodes("gke", 5, 1) {
		s.node(n, "cloud.google.com/gke-accelerator=nvidia-l4 cloud.google.com/gke-nodepool=l4 cloud.google.com/gke-gpu-sharing-strategy=time-sharing cloud.google.com/gke-max-shared-clients-per-gpu=4 node.kubernetes.io/instance-type=g2-standard-24", "nvidia.com/gpu=8", "")
	}
	one := func(ns string) func(pod, node string, at int) string {
		return func(pod, node string, at int) string {
			if at%4 != 0 {
				return "" // another pod of the GPU is named
			}
			return fmt.Sprintf("Hostname=%s gpu=%d UUID=GPU-%[1]s-%[2]d namespace=%s pod=%s", node, at/4, ns, pod)
		}
	}
	s.runs("Deployment", "search/embed", load{busy: 0.3, memory: 9000, asks: gpuOne, image: tei, labels: one("search")}, nodes("gke", 2, 8)...)
	s.runs("Deployment", "ads/rank", load{busy: 0.72, memory: 15000, asks: gpuOne, image: "registry/ranker:3", labels: one("ads")}, "gke-3", "gke-3", "gke-3", "gke-3", "gke-3", "gke-3", "gke-3", "gke-3")
	s.runs("Deployment", "lab/batch", load{busy: 0.05, memory: 4000, asks: gpuOne, image: "registry/batch:1", labels: one("lab")}, "gke-4", "gke-4")
	return s
}

// eks is three p4d nodes of the GPU Operator, two of them cut into MIG instances.
func eks() *site {
	s := &site{}
	const operator = "nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB nvidia.com/gpu.count=8 nvidia.com/gpu.memory=40960 nvidia.com/gpu.deploy.dcgm-exporter=true nvidia.com/gpu.deploy.device-plugin=true nvidia.com/cuda.driver-version.full=580.65.06 nvidia.com/mig.strategy=mixed node.kubernetes.io/instance-type=p4d.24xlarge eks.amazonaws.com/nodegroup=gpus"
	for _, n := range nodes("eks", 2, 1) {
		s.node(n, operator+" nvidia.com/mig.config=mixed nvidia.com/mig-3g.20gb.count=8 nvidia.com/mig-1g.5gb.count=24", "nvidia.com/mig-3g.20gb=8 nvidia.com/mig-1g.5gb=24 nvidia.com/gpu=0", "")
	}
	s.node("eks-3", operator+" nvidia.com/gpu.sharing-strategy=none", "nvidia.com/gpu=8", "")
	slice := func(ns, profile string) func(pod, node string, at int) string {
		return func(pod, node string, at int) string {
			return fmt.Sprintf("Hostname=%s gpu=%d UUID=GPU-%[1]s-%[2]d GPU_I_ID=%d GPU_I_PROFILE=%s namespace=%s pod=%s", node, at%8, 1+at/8, profile, ns, pod)
		}
	}
	s.runs("Deployment", "llm/chat", load{busy: 0.5, memory: 16000, rate: 2, asks: `"nvidia.com/mig-3g.20gb":"1"`, image: vllm, labels: slice("llm", "3g.20gb")}, "eks-1", "eks-1", "eks-1", "eks-2")
	s.runs("Deployment", "llm/embed", load{busy: 0.6, memory: 3000, asks: `"nvidia.com/mig-1g.5gb":"1"`, image: tei, labels: slice("llm", "1g.5gb")}, append(nodes("eks", 1, 6), "eks-2", "eks-2")...)
	s.runs("Job", "train/tune", load{busy: 0.93, memory: 36000, asks: `"nvidia.com/gpu":"4"`, image: trainer}, "eks-3")
	s.gpus["eks-3"] = 4
	s.runs("Deployment", "llm/big", load{busy: 0.65, memory: 38000, rate: 3, asks: gpuOne, image: vllm}, "eks-3", "eks-3")
	return s
}

// dra is two nodes of H100s that the DRA driver hands out whole.
func dra() *site {
	s := &site{}
	for _, n := range nodes("h100", 3, 1) {
		s.node(n, "node.kubernetes.io/instance-type=bm.h100", "", "")
		var devices []string
		for i := range 8 {
			devices = append(devices, fmt.Sprintf(`{"name":"gpu-%d","attributes":{"type":{"string":"gpu"},"uuid":{"string":"GPU-%s-%[1]d"},"productName":{"string":"NVIDIA H100 80GB HBM3"},"driverVersion":{"version":"580.65.6"}},"capacity":{"memory":{"value":"81559Mi"}}}`, i, n))
		}
		s.add(`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"%s-gpus"},"spec":{"driver":"gpu.nvidia.com","nodeName":%[1]q,"pool":{"name":%[1]q,"generation":1,"resourceSliceCount":1},"devices":[%[2]s]}}`, n, strings.Join(devices, ","))
	}
	s.add(`{"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass","metadata":{"name":"gpu.nvidia.com"},"spec":{}}`)
	held := map[string]int{}
	claims := func(ns, base string, l load, on ...string) {
		of := base + "-5d8"
		for i, node := range on {
			s.add(`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"%s-%d-gpu","namespace":%[3]q},"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"gpu.nvidia.com","allocationMode":"ExactCount","count":1}}]}},"status":{"allocation":{"devices":{"results":[{"request":"gpu","driver":"gpu.nvidia.com","pool":%[4]q,"device":"gpu-%[5]d"}]}},"reservedFor":[{"resource":"pods","name":"%[1]s-%[2]d","uid":"u"}]}}`, of, i, ns, node, held[node])
			s.add(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%s-%d","namespace":%[3]q,"uid":"u-%[1]s-%[2]d","ownerReferences":[{"kind":"ReplicaSet","name":%[1]q,"controller":true}]},"spec":{"nodeName":%[4]q,"containers":[{"name":"main","image":%[5]q,"resources":{"claims":[{"name":"gpu"}]}}],"resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"gpu"}]},"status":{"phase":"Running","resourceClaimStatuses":[{"name":"gpu","resourceClaimName":"%[1]s-%[2]d-gpu"}]}}`, of, i, ns, node, l.image)
			s.used(fmt.Sprintf("Hostname=%s gpu=%d UUID=GPU-%[1]s-%[2]d namespace=%s pod=%s-%d", node, held[node], ns, of, i), l.busy, l.memory)
			if l.rate > 0 {
				s.serves(fmt.Sprintf("namespace=%s pod=%s-%d model_name=m engine=0", ns, of, i), l.rate)
			}
			held[node]++
		}
		s.add(`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":%q,"name":%q,"ownerReferences":[{"kind":"Deployment","name":%q,"controller":true}]},"spec":{"replicas":%d}}`, ns, of, base, len(on))
		s.add(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":%q,"name":%q},"spec":{"replicas":%d,"template":{"spec":{"containers":[{"name":"main","image":%q,"resources":{"claims":[{"name":"gpu"}]}}],"resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"gpu"}]}}}}`, ns, base, len(on), l.image)
	}
	claims("llm", "chat", load{busy: 0.6, memory: 73000, rate: 8, image: vllm}, nodes("h100", 1, 6)...)
	claims("llm", "draft", load{busy: 0.15, memory: 20000, rate: 1, image: vllm}, "h100-2", "h100-2")
	claims("ml", "sweep", load{busy: 0.9, memory: 60000, image: trainer}, "h100-2", "h100-2", "h100-2")
	return s
}

const hamiPlaces = `"schedulerName":"hami-scheduler",`

// hami is three nodes of which HAMi hands out shares of L40S.
func hami() *site {
	s := &site{}
	for _, n := range nodes("hami", 3, 1) {
		var all []string
		for i := range 4 {
			all = append(all, fmt.Sprintf(`{\"id\":\"GPU-%s-%d\",\"index\":%[2]d,\"count\":10,\"devmem\":46068,\"devcore\":100,\"type\":\"NVIDIA-NVIDIA L40S\",\"mode\":\"hami-core\",\"health\":true}`, n, i))
		}
		s.node(n, "nvidia.com/gpu.product=NVIDIA-L40S nvidia.com/gpu.count=4 gpu=on", "nvidia.com/gpu=40", `"hami.io/node-nvidia-register":"[`+strings.Join(all, ",")+`]"`)
	}
	shares := func(mib, cores int) func(pod, node string) string {
		return func(pod, node string) string {
			at := s.gpus[node] % 4
			return fmt.Sprintf(`"hami.io/vgpu-devices-allocated":"GPU-%s-%d,NVIDIA,%d,%d:;","hami.io/vgpu-node":%[1]q`, node, at, mib, cores)
		}
	}
	of := func(pod, node string, at int) string {
		return fmt.Sprintf("Hostname=%s gpu=%d UUID=GPU-%[1]s-%[2]d namespace=rag pod=%s", node, at%4, pod)
	}
	s.runs("Deployment", "rag/rerank", load{busy: 0.35, memory: 9000, asks: `"nvidia.com/gpu":"1","nvidia.com/gpumem":"10240","nvidia.com/gpucores":"30"`, image: tei, more: hamiPlaces, notes: shares(10240, 30), labels: of}, nodes("hami", 2, 4)...)
	s.runs("Deployment", "rag/chat", load{busy: 0.4, memory: 24000, rate: 2, asks: `"nvidia.com/gpu":"1","nvidia.com/gpumem":"28000","nvidia.com/gpucores":"60"`, image: vllm, more: hamiPlaces, notes: shares(28000, 60), labels: of}, nodes("hami", 2, 2)...)
	s.runs("StatefulSet", "lab/ada", load{busy: 0.03, memory: 4000, asks: `"nvidia.com/gpu":"1","nvidia.com/gpumem":"8192"`, image: jupyter, more: hamiPlaces, notes: shares(8192, 0), labels: of}, "hami-3")
	return s
}

// premises is six nodes of whole L40S: notebooks that hold a GPU each, servers and a training run.
func premises() *site {
	s := &site{}
	for _, n := range nodes("rack", 6, 1) {
		s.node(n, "nvidia.com/gpu.product=NVIDIA-L40S nvidia.com/gpu.count=4 nvidia.com/gpu.memory=46068 nvidia.com/gpu.deploy.device-plugin=true nvidia.com/gpu.sharing-strategy=none nvidia.com/cuda.driver-version.full=580.65.06", "nvidia.com/gpu=4", "")
	}
	for i := range 7 {
		name := fmt.Sprintf("nb-%c", 'a'+i)
		s.runs("StatefulSet", "lab/"+name, load{busy: 0.02, memory: 3000, asks: gpuOne, image: jupyter}, fmt.Sprintf("rack-%d", 1+i/4))
		s.add(`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"namespace":"lab","name":%q},"spec":{"maxUnavailable":1,"selector":{"matchLabels":{"app":%[1]q}}},"status":{"disruptionsAllowed":1}}`, name)
	}
	s.runs("Deployment", "llm/chat", load{busy: 0.55, memory: 40000, rate: 4, asks: gpuOne, image: vllm}, "rack-3", "rack-3", "rack-4")
	s.runs("Deployment", "llm/tools", load{busy: 0.1, memory: 18000, rate: 0.5, asks: gpuOne, image: vllm}, "rack-4", "rack-5")
	s.runs("Deployment", "ocr/pages", load{busy: 0.2, memory: 6000, asks: gpuOne, image: "registry/ocr:2", more: ""}, "rack-5")
	s.runs("Job", "train/run", load{busy: 0.95, memory: 44000, asks: `"nvidia.com/gpu":"4"`, image: trainer}, "rack-6")
	return s
}

const sitePrices = "L4: 0.71 USD\np4d.24xlarge: 32.77 USD\nH100: 3.9 USD\nL40S: 1.1 USD\n"

// TestNewUser plays a new user on five clusters: one command, a week of metrics, and how much of the money is decided.
func TestNewUser(t *testing.T) {
	race.Long(t)
	for name, s := range map[string]*site{"gke": gke(), "eks": eks(), "dra": dra(), "hami": hami(), "premises": premises()} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			// The simulated clusters of examples/kube-scheduler/migration are made of the objects and the fleet.
			file, prices, out := filepath.Join("testdata", "clusters", name+".json"), filepath.Join(dir, "prices.yaml"), filepath.Join(dir, "out")
			golden.Check(t, file, []byte(`{"apiVersion":"v1","kind":"List","items":[`+strings.Join(s.objects, ",\n")+"]}\n"))
			if err := os.WriteFile(prices, []byte(sitePrices), 0o600); err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(http.HandlerFunc(s.prometheus))
			defer server.Close()
			began := time.Now()
			code, text, stderr := program(t, "", "plan", "-prometheus", server.URL, "-prices", prices, file)
			took := time.Since(began)
			code2, doc, _ := program(t, "", "plan", "-json", "-out", out, "-prometheus", server.URL, "-prices", prices, file)
			var r struct {
				Answer    string
				Money     struct{ Decided float64 }
				Checklist []struct{ Do string }
			}
			if err := json.Unmarshal([]byte(doc), &r); err != nil || code != exitDone || code2 != exitDone {
				t.Fatalf("exit %d, %v: %s", code, err, stderr)
			}
			fleet, err := os.ReadFile(filepath.Join(out, "fleet.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, filepath.Join("testdata", "clusters", name+".yaml"), fleet)
			t.Logf("1 command, %.1f s, %d lines, %d questions, %.0f%% decided\n%s", took.Seconds(), strings.Count(text, "\n"), len(r.Checklist), 100*r.Money.Decided, text)
			if r.Money.Decided < 0.7 || took > 2*time.Minute || strings.Count(text, "\n") > 60 {
				t.Errorf("%.0f%% decided in %v", 100*r.Money.Decided, took)
			}
		})
	}
}

// TestBadInputOfPlan: problems of a dump or of metrics are reported with the remedy, and nothing is concluded from
// them.
func TestBadInputOfPlan(t *testing.T) {
	whole := premises()
	only := func(kind string) (out []string) {
		for _, o := range whole.objects {
			if strings.Contains(o, `"kind":"`+kind+`","metadata"`) {
				out = append(out, o)
			}
		}
		return out
	}
	other := strings.NewReplacer(`"u-rack-1"`, `"u-other"`)
	metrics := func(change func(*series)) *site {
		s := premises()
		for i := range s.series {
			change(&s.series[i])
		}
		return s
	}
	for name, c := range map[string]struct {
		objects []string
		metrics *site
		code    int
		want    string
	}{
		"no pods":      {only("Node"), nil, exitBadInput, "no pod is among the input"},
		"no nodes":     {only("Pod"), nil, exitBadInput, "no node with GPUs is among the input"},
		"two clusters": {append([]string{other.Replace(whole.objects[0])}, whole.objects...), nil, exitBadInput, "the input mixes two clusters"},
		"percent": {whole.objects, metrics(func(s *series) {
			s.mean, s.swing = s.mean*map[bool]float64{true: 100, false: 1}[strings.Contains(s.name, "SM_ACTIVE")], 0
		}), exitDone, "SM activity is in other units than its metric's"},
		"half empty":     {whole.objects, metrics(func(s *series) { s.name = strings.Replace(s.name, "DCGM_FI_PROF_SM_ACTIVE", "other", 1) }), exitDone, "measure the memory and busy time of what runs"},
		"pods that went": {whole.objects, metrics(func(s *series) { s.labels = strings.ReplaceAll(s.labels, "pod=", "pod=gone-") }), exitDone, "measure the memory and busy time of what runs"},
	} {
		args := []string{"plan", "-v", "-"}
		if c.metrics != nil {
			server := httptest.NewServer(http.HandlerFunc(c.metrics.prometheus))
			defer server.Close()
			args = []string{"plan", "-v", "-prometheus", server.URL, "-"}
		}
		code, text, stderr := program(t, `{"kind":"List","items":[`+strings.Join(c.objects, ",")+"]}", args...)
		if flat := strings.Join(strings.Fields(text+stderr), " "); code != c.code || !strings.Contains(flat, c.want) || (text == "") != (code == exitBadInput) {
			t.Errorf("%s: exit %d, no %q in\n%s%s", name, code, c.want, text, stderr)
		}
	}
}
