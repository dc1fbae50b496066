// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cotenant/cotenant/internal/optional"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// page is a page of dcgm-exporter, by its template (internal/pkg/rendermetrics)
// and its defaults (etc/default-counters.csv).
const page = `# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",pci_bus_id="00000000:0F:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="node-1",container="server",namespace="chat",pod="llm-0"} 83
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",pci_bus_id="00000000:10:00.0",device="nvidia1",modelName="NVIDIA H100 80GB HBM3",Hostname="node-1"} 0
# HELP DCGM_FI_DEV_FB_USED Framebuffer memory used (in MiB).
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",pci_bus_id="00000000:0F:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="node-1",container="server",namespace="chat",pod="llm-0"} 71234
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",pci_bus_id="00000000:10:00.0",device="nvidia1",modelName="NVIDIA H100 80GB HBM3",Hostname="node-1"} 4
# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.
# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-a",Hostname="node-1",err_code="0",err_msg="No Error"} 0
`

const migPage = `# HELP DCGM_FI_PROF_GR_ENGINE_ACTIVE Ratio of time the graphics engine is active.
# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-m",pci_bus_id="",device="nvidia0",modelName="NVIDIA A100-SXM4-80GB",GPU_I_PROFILE="3g.40gb",GPU_I_ID="1",Hostname="node-2",container="c",namespace="a",pod="one"} 0.25
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-m",pci_bus_id="",device="nvidia0",modelName="NVIDIA A100-SXM4-80GB",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",Hostname="node-2",container="c",namespace="a",pod="two"} 1.004
`

// stamped gives the samples of a page noon as their time.
func stamped(page string) string {
	return regexp.MustCompile(`(?m)^([A-Z].*)$`).ReplaceAllString(page, fmt.Sprint("$1 ", noon.UnixMilli()))
}

func keyText(k Key) string { return strings.TrimSpace(k.Node + " " + k.GPU + " " + k.Pod) }

func tenants(t *testing.T, r *Reader) map[string]*Stats {
	t.Helper()
	by := map[string]*Stats{}
	for _, s := range r.Usage().Tenants {
		by[keyText(s.Key)] = s
	}
	return by
}

// take reads a source, which must be readable.
func take(t *testing.T, read func(string, io.Reader) error, name, text string) {
	t.Helper()
	if err := read(name, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

func TestText(t *testing.T) {
	r := New()
	take(t, r.Text, "node-1.prom", stamped(page))
	take(t, r.Text, "node-2.prom", migPage)
	by := tenants(t, r)
	llm := by["node-1 GPU-a llm-0"]
	one := Statistics{N: 1, P50: 83, P95: 83, Max: 83, Mean: 83, From: noon, To: noon}
	if diff := cmp.Diff(one, llm.Figures[FigureGPUUtil]); diff != "" {
		t.Error(diff)
	}
	if got := llm.Figures[FigureMemUsed].Max; got != 71234<<20 {
		t.Errorf("memory %v", got)
	}
	if llm.Index != optional.Of(0) || llm.Container != "server" || llm.Shared ||
		llm.Times != (Times{Known: time.Minute, Used: time.Minute}) {
		t.Errorf("%+v", llm)
	}
	idle := by["node-1 GPU-b"]
	if idle.Times != (Times{Known: time.Minute}) || len(idle.Figures) != 2 {
		t.Errorf("%+v", idle)
	}
	if _, there := idle.Figures[FigureSM]; there {
		t.Error("a figure that was not on the page")
	}
	mig := by["node-2 GPU-m two"]
	if mig.Profile != "1g.10gb" || mig.Figures[FigureGraphics].Max != 100 || !mig.Figures[FigureGraphics].From.IsZero() || mig.Shared {
		t.Errorf("%+v", mig)
	}
	u := r.Usage()
	if len(u.Devices) != 4 || u.Sources[0].Samples != 4 {
		t.Errorf("%+v", u)
	}
}

// Without honorLabels the labels pod, namespace and container are the exporter's own, and the tenant's begin with
// exported_. An idle GPU has only the exporter's.
func TestExportedLabels(t *testing.T) {
	r := New()
	text := `DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",Hostname="n",exported_pod="llm",exported_namespace="chat",exported_container="c",pod="metrics-x1",namespace="mon",container="exp"} 5
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",Hostname="n",pod="metrics-x1",namespace="mon",container="exp"} 0
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-c",Hostname="m",pod="metrics-x2",namespace="mon",container="exp"} 0
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-d",Hostname="nvidia-dcgm-exporter-8xk",node="o",pod="nvidia-dcgm-exporter-8xk",namespace="gpu-operator"} 0
`
	take(t, r.Text, "x", text)
	var got []string
	for _, s := range r.Usage().Tenants {
		got = append(got, keyText(s.Key))
	}
	want := []string{"m GPU-c", "n GPU-a llm", "n GPU-b", "o GPU-d"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// With virtual GPUs dcgm-exporter repeats the device's figures for each pod.
func TestSharedIsNotAttribution(t *testing.T) {
	text := strings.Repeat(`DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",Hostname="n",pod="a",namespace="x",vgpu="0"} 50 %[1]d
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",Hostname="n",pod="b",namespace="x",vgpu="1"} 50 %[1]d
`, 1)
	var b strings.Builder
	for i := range 10 {
		fmt.Fprintf(&b, "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"+text, noon.Add(time.Duration(i)*time.Minute).UnixMilli())
	}
	r := New()
	take(t, r.Text, "x", b.String())
	u := r.Usage()
	if len(u.Tenants) != 2 || !u.Tenants[0].Shared || !u.Tenants[1].Shared || u.Tenants[1].Figures[FigureGPUUtil].N != 10 {
		t.Errorf("%+v", u.Tenants)
	}
	// The same without times, as a page is: once shows it.
	r = New()
	take(t, r.Text, "x", fmt.Sprintf(strings.ReplaceAll(text, " %[1]d", "%[1]s"), ""))
	if u := r.Usage(); !u.Tenants[0].Shared || !u.Tenants[1].Shared {
		t.Errorf("%+v", u)
	}
}

// From 4.5.3-4.8.2 dcgm-exporter gives utilization and memory of each pod's own processes, after a series of the
// device that names no pod. The rest it repeats as before.
func TestOwnProcesses(t *testing.T) {
	const dir = "testdata/dcgm-exporter-4.5.3-4.8.2/"
	read := func(file string) (*Usage, map[string]*Stats) {
		data, err := os.ReadFile(dir + file)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for i := range 10 { // ten minutes
			b.WriteString(regexp.MustCompile(`(?m)^([A-Z].*)$`).ReplaceAllString(string(data), fmt.Sprint("$1 ", noon.Add(time.Duration(i)*time.Minute).UnixMilli())))
		}
		for _, text := range []string{b.String(), string(data)} { // with times, as Prometheus has them, and as it is served
			r := New()
			take(t, r.Text, file, text)
			sane(t, r)
			u, by := r.Usage(), map[string]*Stats{}
			for _, s := range u.Tenants {
				by[s.Pod] = s
			}
			if text == b.String() {
				return u, by
			}
		}
		return nil, nil
	}
	u, by := read("virtual-gpus.prom")
	ada, bob, eve := by["jupyter-ada"], by["jupyter-bob"], by["jupyter-eve"]
	const own = Set(1<<FigureGPUUtil | 1<<FigureMemUsed)
	for _, s := range []*Stats{ada, bob, eve} {
		if !s.Shared || s.Own != own || s.Void != 0 {
			t.Errorf("%+v", s)
		}
	}
	if ada.Figures[FigureMemUsed].Max != 9000<<20 || ada.Figures[FigureGPUUtil].Mean != 55 || bob.Figures[FigureGPUUtil].Mean != 7 || eve.Figures[FigureMemUsed].Max != 0 {
		t.Errorf("%+v\n%+v\n%+v", ada, bob, eve)
	}
	if ada.Times != (Times{Known: 10 * time.Minute, Used: 10 * time.Minute}) || eve.Times != (Times{Known: 10 * time.Minute}) {
		t.Errorf("%+v, %+v", ada.Times, eve.Times)
	}
	if !by[""].DeviceOnly && !u.Tenants[0].DeviceOnly {
		t.Errorf("the device's own series: %+v", u.Tenants)
	}
	// Without hostPID all pods read 0.
	if _, by := read("virtual-gpus-no-hostpid.prom"); by["jupyter-ada"].Own != 0 || by["jupyter-ada"].Void != own {
		t.Errorf("%+v", by["jupyter-ada"])
	}
	// On MIG instances memory is the pod's, and the utilization of its processes is always 0: it is not measured.
	_, by = read("virtual-mig.prom")
	if mid := by["mid-6f7d8c9b5-00000"]; mid.Shared || !mid.Own.Has(FigureMemUsed) || !mid.Void.Has(FigureGPUUtil) || mid.Figures[FigureMemUsed].Max != 8000<<20 {
		t.Errorf("%+v", mid)
	}
}

// matrix writes an answer to a range query.
func matrix(labels string, at time.Time, step time.Duration, values ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{%s},"values":[`, labels)
	for i, v := range values {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `[%.3f,%q]`, float64(at.Add(time.Duration(i)*step).UnixMilli())/1000, v)
	}
	b.WriteString("]}]}}\n")
	return b.String()
}

const utilLabels = `"__name__":"DCGM_FI_DEV_GPU_UTIL","Hostname":"n","UUID":"GPU-a","gpu":"0"`

func TestJSON(t *testing.T) {
	r := New()
	text := matrix(utilLabels, noon, 15*time.Second, "0", "10", "20", "90", "100")
	take(t, r.JSON, "util.json", text)
	want := Statistics{N: 5, P50: 20, P95: 100, Max: 100, Mean: 44, From: noon, To: noon.Add(time.Minute)}
	got := tenants(t, r)["n GPU-a"].Figures[FigureGPUUtil]
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
	// The same samples again, in another file, count once.
	take(t, r.JSON, "again.json", text)
	if got = tenants(t, r)["n GPU-a"].Figures[FigureGPUUtil]; got.N != 5 || r.Usage().Sources[1].Refused != 5 {
		t.Errorf("%+v", got)
	}
}

// TestTimes: minutes are known where there is a sample, busy or idle, with the memory that was held in them, and pods that follow
// one another on a GPU share nothing.
func TestTimes(t *testing.T) {
	r := New()
	of := func(metric, pod string) string {
		return fmt.Sprintf(`"__name__":%q,"Hostname":"n","UUID":"GPU-a","gpu":"0","namespace":"t","pod":%q`, metric, pod)
	}
	for i, text := range []string{
		matrix(of("DCGM_FI_DEV_GPU_UTIL", "first"), noon, time.Minute, "90", "0", "0"), matrix(of("DCGM_FI_DEV_FB_USED", "first"), noon, time.Minute, "2000", "2000", "4"),
		matrix(of("DCGM_FI_DEV_GPU_UTIL", "second"), noon.Add(10*time.Minute), time.Minute, "40", "40"), matrix(of("DCGM_FI_DEV_FB_USED", "second"), noon.Add(10*time.Minute), time.Minute, "3000", "3000"),
	} {
		take(t, r.JSON, fmt.Sprint(i), text)
	}
	by := tenants(t, r)
	first, second := by["n GPU-a first"], by["n GPU-a second"]
	if first.Shared || second.Shared || first.Times != (Times{Known: 3 * time.Minute, ExecutionIdle: time.Minute, Used: 2 * time.Minute}) ||
		second.Times != (Times{Known: 2 * time.Minute, Used: 2 * time.Minute}) {
		t.Errorf("%+v\n%+v", first, second)
	}
}

// Prometheus answers a query at one time with a vector, and other fields with the series.
func TestJSONForms(t *testing.T) {
	for name, text := range map[string]string{
		"vector":       `{"status":"success","data":{"resultType":"vector","result":[{"metric":{` + utilLabels + `},"value":[1795348800.5,"7"]}]}}`,
		"other series": `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"up"},"values":[[1,"1"]]},{"metric":{` + utilLabels + `},"values":[[1795348800,"7"]]}]},"infos":["x"]}`,
		"escapes":      `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{` + strings.ReplaceAll(utilLabels, "GPU-a", `GPU-\u0061`) + `},"values":[[1795348800,"7"]]}]}}`,
	} {
		r := New()
		if err := r.JSON("x.json", strings.NewReader(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := tenants(t, r)["n GPU-a"].Figures[FigureGPUUtil]; got.N != 1 || got.Max != 7 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Bad samples are refused, counted and named; the rest counts.
func TestRefused(t *testing.T) {
	r := New()
	text := matrix(utilLabels, noon, time.Minute, "5", "-1", "120", "NaN", "+Inf", "7", "2147483632")
	take(t, r.JSON, "a.json", text)
	for name, text := range map[string]string{"b.json": matrix(utilLabels, noon.Add(3*time.Hour), time.Minute, "9"), "c.json": matrix(utilLabels, time.Unix(7, 0), time.Minute, "9")} {
		take(t, r.JSON, name, text)
	}
	u := r.Usage()
	if got := u.Tenants[0].Figures[FigureGPUUtil]; got.N != 3 || got.Max != 9 {
		t.Errorf("%+v", got)
	}
	if u.Sources[0].Refused != 5 || u.Sources[1].Refused+u.Sources[2].Refused != 1 {
		t.Errorf("%+v", u.Sources)
	}
}

// Files that are cut off, of another kind or without a GPU are named, and the samples before that count.
func TestProblems(t *testing.T) {
	whole := matrix(utilLabels, noon, time.Second, "1", "2", "3")
	for name, c := range map[string]struct {
		text, want string
		n          int64
	}{
		"cut":       {whole[:len(whole)-20], "x.json: result[0]: ", 0},
		"an error":  {`{"status":"error","errorType":"bad_data","error":"parse error"}`, `x.json: error: Prometheus answers "parse error"`, 0},
		"empty":     {"", "x.json: result[0]: ", 0},
		"a pod":     {`{"kind":"Pod"}`, "x.json: it has no series, or none of a metric of a GPU", 0},
		"text":      {"hello", "x.json: result[0]: ", 0},
		"no labels": {matrix(`"__name__":"DCGM_FI_DEV_GPU_UTIL"`, noon, time.Second, "1"), "names neither a GPU nor a pod (query without an aggregation", 0},
		"no name":   {matrix(`"UUID":"GPU-a"`, noon, time.Second, "1"), "a series without a name (query the metric itself)", 0},
		"scalar":    {`{"status":"success","data":{"resultType":"scalar","result":[1795348800,"1"]}}`, "query a metric, not a number", 0},
		"odd pairs": {strings.Replace(whole, `"2"]`, `"2",3]`, 1), `a sample that is not [time, "value"]`, 2},
		"words":     {strings.Replace(whole, `"2"`, `"two"`, 1), `a sample that is not [time, "value"]`, 2},
	} {
		r := New()
		err := r.JSON("x.json", strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		var n int64
		for _, s := range r.Usage().Tenants {
			n += s.Figures[FigureGPUUtil].N
		}
		if n != c.n {
			t.Errorf("%s: %d samples, want %d", name, n, c.n)
		}
	}
	r := New()
	if err := r.Text("x.prom", strings.NewReader("# TYPE up gauge\nup 1\n")); err == nil || !strings.Contains(err.Error(), "it has no series") {
		t.Errorf("%v", err)
	}
	broken := strings.Replace(page, "} 83", "} many", 1)
	if err := r.Text("y.prom", strings.NewReader(broken)); err == nil || !strings.Contains(err.Error(), "y.prom: line 3: ") {
		t.Errorf("%v", err)
	}
	if got := tenants(t, r)["node-1 GPU-a llm-0"].Figures[FigureMemUsed].N; got != 1 {
		t.Errorf("the rest of the page: %d", got)
	}
	r = New()
	r.most = 1
	if err := r.Text("z.prom", strings.NewReader(page)); err == nil || !strings.Contains(err.Error(), "more than 1 tenants") {
		t.Errorf("%v", err)
	}
}

// nearestRank is the smallest value that so many of all do not exceed.
func nearestRank(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(int(math.Ceil(q*float64(len(sorted)))), 1)-1]
}

// The sketch's percentiles hold their stated error, and merging changes nothing.
func TestSketch(t *testing.T) {
	for _, n := range []int{1, 2, 511, 512, 513, 20000} {
		var whole, a, b sketch
		var values []float64
		for i := range n {
			v := float64((i * 7919) % 10007)
			v = math.Mod(v, 101)
			values = append(values, min(v, 100))
			whole.add(values[i])
			if i%3 == 0 {
				a.add(values[i])
			} else {
				b.add(values[i])
			}
		}
		a.merge(&b)
		for _, q := range []float64{0.5, 0.95} {
			want := nearestRank(values, q)
			for name, s := range map[string]*sketch{"whole": &whole, "merged": &a} {
				got := s.quantile(q)
				if got < want-1e-9 || got > want*(1+1.0/128)+1e-9 {
					t.Errorf("%d %s: the %v quantile is %v, the truth %v, ", n, name, q, got, want)
				}
				if s.n != int64(n) || s.max != whole.max || math.Abs(s.sum-whole.sum) > 1e-6 {
					t.Errorf("%d %s: %+v", n, name, s)
				}
			}
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add(matrix(utilLabels, noon, time.Second, "1", "NaN", "-4"))
	f.Add(`{"data":{"result":[{"metric":{"UUID":"GPU-a","__name__":"DCGM_FI_DEV_FB_USED"},"value":[1e30,"1"]}]}}`)
	f.Add(`{"data":{"result":[{"values":[[1,"1"]],"metric":{"pod":"p","__name__":"DCGM_FI_DEV_FB_USED"}}]}}`)
	f.Fuzz(func(t *testing.T, s string) {
		r := New()
		_ = r.JSON("x", strings.NewReader(s))
		sane(t, r)
	})
}

func FuzzText(f *testing.F) {
	f.Add(stamped(page))
	f.Add(migPage + migPage)
	f.Fuzz(func(t *testing.T, s string) {
		r := New()
		_ = r.Text("x", strings.NewReader(s))
		sane(t, r)
	})
}

// sane checks the invariants of any input.
func sane(t *testing.T, r *Reader) {
	t.Helper()
	u := r.Usage()
	var n int64
	for _, s := range u.Tenants {
		for f, st := range s.Figures {
			n += st.N
			if st.N > 0 && !(0 <= st.P50 && st.P50 <= st.P95 && st.P95 <= st.Max && st.Max <= figures[f].limit && st.Mean >= 0 && st.Mean <= st.Max*(1+1e-9)) {
				t.Errorf("%v %v: %+v", s.Key, f, st)
			}
		}
	}
	var all, bad int64
	for _, s := range u.Sources {
		all, bad = all+s.Samples, bad+s.Refused
	}
	if n+bad != all {
		t.Errorf("%d of %d samples count and %d are refused", n, all, bad)
	}
	if again := r.Usage(); cmp.Diff(u.Tenants, again.Tenants) != "" || cmp.Diff(u.Devices, again.Devices) != "" {
		t.Error("asking twice gives two answers")
	}
}
