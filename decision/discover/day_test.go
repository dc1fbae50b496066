package discover_test

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/sharing"
)

// aDay is a simulated day of 200 H100s on 25 nodes, of which everything is known: nodes with a pod on each GPU, some
// without; nodes that one pod has; nodes in MIG mode with two instances a GPU; and nodes where two pods share each GPU.
type aDay struct {
	step    time.Duration
	tenants []*dayTenant
}

// dayTenant is a pod on one GPU or instance, or an idle GPU.
type dayTenant struct {
	node, gpu    int
	profile      string
	instance     int
	name         string // of the workload; "" = idle
	shared       bool
	busy, memory float64 // percent while busy, MiB at the end
	every        int     // busy in one of so many samples; 0 = never
	sum, high    float64
	samples      int
}

const (
	dayNodes = 25
	dayGPUs  = 8
)

func newDay(step time.Duration) *aDay {
	d := &aDay{step: step}
	add := func(t dayTenant) {
		n := len(d.tenants)
		t.busy, t.memory, t.every = float64(20+(n*37)%75), float64(3000+(n*7919)%30000), 1+n%4
		if t.name == "" {
			t.busy, t.memory, t.every = 0, 3, 0
		}
		if n%11 == 0 && t.name != "" {
			t.every = 0 // holds memory and never runs
		}
		d.tenants = append(d.tenants, &t)
	}
	for node := range dayNodes {
		for gpu := range dayGPUs {
			t := dayTenant{node: node, gpu: gpu}
			switch node / 5 {
			case 0, 1:
				if (node+gpu)%5 != 0 {
					t.name = fmt.Sprintf("solo-%d-%d", node, gpu)
				}
				add(t)
			case 2:
				t.name = fmt.Sprintf("wide-%d", node)
				add(t)
			case 3:
				for i, profile := range []string{"3g.40gb", "4g.40gb"} {
					t.profile, t.instance, t.name = profile, i+1, fmt.Sprintf("slice-%d-%d-%d", node, gpu, i)
					add(t)
				}
			case 4:
				for i := range 2 {
					t.shared, t.name = true, fmt.Sprintf("half-%d-%d-%d", node, gpu, i)
					add(t)
				}
			}
		}
	}
	return d
}

// value returns the metrics of a tenant's GPU in a sample: percent of SMs, MiB.
func (t *dayTenant) value(i, of int) (sm, memory float64) {
	if t.every > 0 && i%t.every == 0 {
		sm = t.busy
	}
	return sm, math.Round(t.memory * (0.5 + 0.5*float64(i)/float64(of-1)))
}

// write writes a metric as the answer to a range query.
func (d *aDay) write(w io.Writer, metric string, of int) error {
	b := []byte(`{"status":"success","data":{"resultType":"matrix","result":[`)
	for n, t := range d.tenants {
		if n > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"metric":{"__name__":%q,"Hostname":"node-%d","UUID":"GPU-%d-%d","gpu":"%d","modelName":"NVIDIA H100 80GB HBM3"`, metric, t.node, t.node, t.gpu, t.gpu)
		if t.profile != "" {
			b = fmt.Appendf(b, `,"GPU_I_PROFILE":%q,"GPU_I_ID":"%d"`, t.profile, t.instance)
		}
		if t.name != "" {
			b = fmt.Appendf(b, `,"namespace":"team","pod":"%s-0","container":"main"`, t.name)
		}
		b = append(b, `},"values":[`...)
		of1 := t
		if t.shared { // the exporter repeats the GPU's figures for each pod
			of1 = d.tenants[n-n%2]
		}
		for i := range of {
			sm, memory := of1.value(i, of)
			v := sm / 100
			if metric == "DCGM_FI_DEV_FB_USED" {
				v = memory
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = fmt.Appendf(b, `[%d,"`, 1763769600+int64(i)*int64(d.step/time.Second))
			b = append(strconv.AppendFloat(b, v, 'f', -1, 64), `"]`...)
		}
		b = append(b, "]}"...)
		if len(b) > 1<<16 {
			if _, err := w.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	_, err := w.Write(append(b, "]}}"...))
	return err
}

// objects are the nodes and pods.
func (d *aDay) objects() string {
	var items []string
	for node := range dayNodes {
		labels, capacity := `"nvidia.com/gpu.product":"NVIDIA-H100-80GB-HBM3","nvidia.com/gpu.count":"8"`, `"nvidia.com/gpu":"8"`
		switch node / 5 {
		case 3:
			labels += `,"nvidia.com/mig.strategy":"mixed"`
			capacity = `"nvidia.com/mig-3g.40gb":"8","nvidia.com/mig-4g.40gb":"8"`
		case 4:
			labels = strings.Replace(labels, "HBM3", "HBM3-SHARED", 1) + `,"nvidia.com/gpu.replicas":"2","nvidia.com/gpu.sharing-strategy":"time-slicing"`
			capacity = `"nvidia.com/gpu":"16"`
		}
		items = append(items, fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-%d","labels":{%s}},"status":{"capacity":{%s}}}`, node, labels, capacity))
	}
	seen := map[string]bool{}
	for _, t := range d.tenants {
		if t.name == "" || seen[t.name] {
			continue
		}
		seen[t.name] = true
		ask := `"nvidia.com/gpu":"1"`
		switch {
		case t.profile != "":
			ask = fmt.Sprintf(`"nvidia.com/mig-%s":"1"`, t.profile)
		case strings.HasPrefix(t.name, "wide"):
			ask = `"nvidia.com/gpu":"8"`
		}
		items = append(items, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%[1]s-0","namespace":"team","ownerReferences":[{"kind":"StatefulSet","name":"%[1]s","controller":true}]},
			"spec":{"nodeName":"node-%[2]d","containers":[{"image":"i","resources":{"limits":{%[3]s}}}]},"status":{"phase":"Running"}}`, t.name, t.node, ask))
	}
	return `{"kind":"List","items":[` + strings.Join(items, ",") + `]}`
}

// TestDay: every figure of the fleet is within its stated error of the truth, and every unknown is truly absent from
// the inputs: pods that share a GPU have no figures of their own.
func TestDay(t *testing.T) {
	d := newDay(time.Duration(nightly.Cases(60, 15)) * time.Second)
	samples := int(24 * time.Hour / d.step)
	c := discover.New(discover.Options{})
	if err := c.Read("objects.json", strings.NewReader(d.objects())); err != nil {
		t.Fatal(err)
	}
	for _, metric := range []string{"DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_SM_ACTIVE"} {
		r, w := io.Pipe()
		go func() { w.CloseWithError(d.write(w, metric, samples)) }()
		if err := c.Read(metric+".json", r); err != nil {
			t.Fatal(err)
		}
	}
	found := c.Discover()
	truth := map[string]*dayTenant{}
	idle := 0
	for _, v := range d.tenants {
		if v.name == "" {
			idle++
			continue
		}
		w := truth["team/"+v.name]
		if w == nil {
			w = &dayTenant{name: v.name, shared: v.shared}
			truth["team/"+v.name] = w
		}
		part := map[string]float64{"": 1, "3g.40gb": 3. / 7, "4g.40gb": 4. / 7}[v.profile]
		for i := range samples {
			sm, memory := v.value(i, samples)
			w.sum += sm / 100 * part
			w.high = max(w.high, memory)
			w.samples++
		}
	}
	if gpus(found) != dayNodes*dayGPUs || len(found.Fleet.Workloads) != len(truth) {
		t.Errorf("%d GPUs, %d workloads, the truth is %d and %d", gpus(found), len(found.Fleet.Workloads), dayNodes*dayGPUs, len(truth))
	}
	for i, w := range found.Fleet.Workloads {
		v := truth[w.Name]
		if v == nil {
			t.Errorf("there is no %s", w.Name)
			continue
		}
		memory, known := w.Memory.Get()
		busy, measured := w.GPUBusy.Get()
		if v.shared {
			if known || measured {
				t.Errorf("%s shares its GPU, and is said to use %v and %v", w.Name, memory, busy)
			}
			continue
		}
		if !known || memory != sharing.Bytes(v.high)*sharing.MiB {
			t.Errorf("%s uses at most %v MiB, found %v", w.Name, v.high, w.Memory)
		}
		if want := v.sum / float64(v.samples); !measured || math.Abs(busy-want) > 0.0006 {
			t.Errorf("%s is busy %v, found %v", w.Name, want, w.GPUBusy)
		}
		if p := found.Provenance[fmt.Sprintf("workloads[%d].memory", i)]; p.Basis != discover.BasisMeasured || !strings.Contains(p.Source, "dcgm-exporter, 24 h, ") {
			t.Errorf("%s: %v", w.Name, p)
		}
	}
	for i, w := range found.Fleet.Workloads {
		// StatefulSets without ports are taken for services, whatever their shape.
		if p := found.Provenance[fmt.Sprintf("workloads[%d].kind", i)]; p.Source != "rule service-owner" {
			t.Errorf("%s: %v", w.Name, p)
		}
	}
	foundIdle := 0
	for _, f := range found.Findings {
		if f.Code == "idle-gpus" {
			var n, of int
			if _, err := fmt.Sscanf(f.Message, "%d idle GPUs of %d", &n, &of); err != nil {
				if _, err := fmt.Sscanf(f.Message, "%d idle GPU of %d", &n, &of); err != nil {
					t.Error(f.Message)
				}
			}
			foundIdle += n
		}
	}
	if foundIdle != idle {
		t.Errorf("%d idle GPUs, the truth is %d", foundIdle, idle)
	}
	for _, u := range found.Unknown {
		var i int
		if _, err := fmt.Sscanf(u.Path, "workloads[%d].", &i); err == nil && strings.HasSuffix(u.Path, "memory") != strings.HasSuffix(u.Path, "gpu_busy") {
			if w := found.Fleet.Workloads[i]; !truth[w.Name].shared {
				t.Errorf("%s of %s is in the inputs", u.Path, w.Name)
			}
		}
	}
}
