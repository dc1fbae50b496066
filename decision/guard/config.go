// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
)

// Config names the GPUs and tenants to watch, and the actions that are allowed.
type Config struct {
	// GPUs are the machine's GPUs, by index. A GPU with mode None has no tenants, and none is moved there.
	GPUs    []layout.Device
	Tenants []Tenant
	// Profiles and Predictor predict latencies; nil means no profiles, and predict.NewPredictor's.
	Profiles  *profile.Profiles
	Predictor *predict.Predictor
	// Reap allows the reaping of idle tenants with their owners' consent; without it reaping is only proposed.
	Reap bool
	// Policy is the reaping policy; the zero policy means the first of telemetry.ReapPolicies.
	Policy telemetry.ReapPolicy
}

type configFile struct {
	GPUs     []configGPU    `yaml:"gpus,required"`
	Tenants  []configTenant `yaml:"tenants,required"`
	Profiles string         `yaml:"profiles"`
	Predict  string         `yaml:"predictor"`
	Policy   string         `yaml:"policy"`
	Reap     bool           `yaml:"reap"`
}

type configGPU struct {
	Index     int               `yaml:"index,required"`
	Mechanism sharing.Mechanism `yaml:"mechanism,required"`
}

type configTenant struct {
	Tenant
	Holds   *float64            `yaml:"holds"`
	Command string              `yaml:"command"`
	GPU     *int                `yaml:"gpu"`            // its index
	GPUs    []int               `yaml:"gpus"`           // their indexes, of one on several
	Work    string              `yaml:"workload"`       // NAMESPACE/NAME, or with /CONTAINER
	Profile *profile.ProfileRef `yaml:"profile"`        // as a fleet file names it
	Expect  []float64           `yaml:"expect_tpot_ms"` // low, high
}

const namePart = `[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?`

// tenantName keeps log lines, environments and the paths of the Kubernetes API whole.
var tenantName = regexp.MustCompile("^" + namePart + "(/" + namePart + ")?$")

// LoadConfig reads a configuration file. The error names every problem with its path in the file.
func LoadConfig(path string) (*Config, error) {
	c, err := strictyaml.Load(path, parseConfig)
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return c, nil
}

func parseConfig(data []byte) (*Config, error) {
	var f configFile
	if err := strictyaml.Decode(data, &f, strictyaml.Options{MaxBytes: 1 << 20}); err != nil {
		return nil, err
	}
	r := reading{
		c: &Config{Reap: f.Reap}, names: map[string]bool{}, whose: map[string]int{}, held: map[int]float64{},
	}
	if f.Policy != "" {
		var err error
		r.c.Policy, err = telemetry.ParseReapPolicy(f.Policy)
		r.AddErr("policy", err)
	}
	r.If(len(f.GPUs) == 0, "gpus", "name each GPU: index, mechanism", "none")
	for i, g := range f.GPUs {
		if bad := g.Index < 0 || g.Index >= maxGPUs || r.named(g.Index); bad {
			r.Addf(fmt.Sprintf("gpus[%d].index", i), "use 0 and up, each once", "%d", g.Index)
			continue
		}
		r.c.GPUs = append(r.c.GPUs, make([]layout.Device, max(0, g.Index+1-len(r.c.GPUs)))...)
		r.c.GPUs[g.Index].Mode = g.Mechanism
	}
	r.If(len(f.Tenants) == 0, "tenants", "name each tenant: name, kind, gpu, and metrics if it serves", "none")
	for i := range f.Tenants {
		r.tenant(i, &f.Tenants[i])
	}
	r.predictions(&f)
	return r.c, r.Err()
}

// reading is a configuration that is being read, with its problems.
type reading struct {
	problem.List
	c     *Config
	names map[string]bool // of the tenants so far
	whose map[string]int  // the tenant that a command or a process belongs to
	held  map[int]float64 // the parts that tenants hold by the file, by the GPU's index
}

// maxGPUs bounds the GPUs of a machine.
const maxGPUs = 1024

// named reports that gpus has an index.
func (r *reading) named(gpu int) bool {
	return gpu >= 0 && gpu < len(r.c.GPUs) && r.c.GPUs[gpu].Mode != sharing.MechanismNone
}

func (r *reading) tenant(i int, t *configTenant) {
	where := fmt.Sprintf("tenants[%d]", i)
	r.If(!tenantName.MatchString(t.Name) || r.names[t.Name], where+".name",
		"use letters, digits, '.', '_' and '-', as in namespace/pod, each name once", "%q", t.Name)
	r.names[t.Name] = true
	out := t.Tenant
	out.Holds, out.Command = 1, strings.Fields(t.Command)
	gpus := t.GPUs
	if t.GPU != nil {
		gpus = append([]int{*t.GPU}, gpus...)
	}
	r.If(len(gpus) == 0, where+".gpu", "add gpu, or gpus: [0, 1] of one on several", "is missing")
	for k, gpu := range gpus {
		r.If(!r.named(gpu), where+".gpu", "", "%d is not among gpus", gpu)
		r.If(slices.Contains(gpus[:k], gpu), where+".gpus", "name each once", "%d is there twice", gpu)
	}
	if t.Holds != nil {
		out.Holds = *t.Holds
		r.If(!(out.Holds > 0 && out.Holds <= 1), where+".holds",
			"use the part of each GPU that is reserved for it, above 0 and up to 1", "%v", out.Holds)
		for _, gpu := range gpus {
			r.held[gpu] += out.Holds
			r.If(out.Holds <= 1 && r.held[gpu] > 1+1e-9, where+".holds", "state parts that add up to at most 1",
				"with those before it GPU %d is held %.4g times", gpu, r.held[gpu])
		}
	}
	r.If(!(t.LimitMS >= 0), where+".tpot_ms", "use milliseconds, or leave it out", "%v", t.LimitMS)
	r.If(t.LimitMS > 0 && !t.Kind.Serves(), where+".tpot_ms", "leave it out", "kind %s gives no tokens", t.Kind)
	switch e := t.Expect; {
	case len(e) == 0:
	case len(e) != 2 || !(e[0] > 0 && e[1] >= e[0]):
		r.Addf(where+".expect_tpot_ms", "use [low, high] in milliseconds", "%v", e)
	default:
		out.Expect = sharing.Some(profile.Interval{Value: (e[0] + e[1]) / 2, Low: e[0], High: e[1]})
	}
	r.If(out.online() && t.Metrics == "", where, "add metrics", "its latency cannot be observed")
	r.If(t.Metrics != "" && !strings.HasPrefix(t.Metrics, "http://") && !strings.HasPrefix(t.Metrics, "https://"),
		where+".metrics", "use the http:// or https:// address of the server's metrics page", "%q", t.Metrics)
	out.Workload = r.processes(where, i, t, out.Command, gpus)
	for _, gpu := range gpus {
		out.GPU = gpu
		r.c.Tenants = append(r.c.Tenants, out)
	}
}

// processes checks the identification of a tenant's processes, and returns the workload that owns their pods.
func (r *reading) processes(where string, i int, t *configTenant, command []string, gpus []int) (work container.Pod) {
	var own []string
	if len(command) > 0 {
		own = append(own, fmt.Sprintf("command %q", strings.Join(command, " ")))
	}
	if t.Work != "" {
		parts := append(strings.Split(t.Work, "/"), "")
		bad := len(parts) < 3 || len(parts) > 4 || slices.Contains(parts[:len(parts)-1], "")
		r.If(bad, where+".workload", "use NAMESPACE/NAME or NAMESPACE/NAME/CONTAINER", "%q", t.Work)
		if !bad {
			work = container.Pod{Namespace: parts[0], Name: parts[1], Container: parts[2]}
		}
		own = append(own, "workload "+t.Work)
	}
	for _, pid := range t.PIDs {
		own = append(own, fmt.Sprintf("process %d", pid))
	}
	r.If(len(own) == 0, where, "add workload, command or pids", "its processes cannot be identified")
	for _, o := range own {
		for _, gpu := range gpus {
			at := fmt.Sprint(o, " on GPU ", gpu)
			k, twice := r.whose[at]
			r.If(twice, where, "", "%s is tenants[%d]'s already", o, k)
			r.whose[at] = i
		}
	}
	return work
}

// predictions loads the files of profiles and of a calibrated predictor.
func (r *reading) predictions(f *configFile) {
	var err error
	if f.Predict != "" {
		r.c.Predictor, err = predict.LoadPredictor(f.Predict)
		r.AddErr("predictor", err)
	}
	if r.c.Profiles, err = profile.NewProfiles(); err == nil && f.Profiles != "" {
		r.c.Profiles, err = profile.LoadProfiles(f.Profiles)
	}
	if err != nil {
		r.AddErr("profiles", err)
		return
	}
	for i, t := range f.Tenants {
		if t.Profile == nil {
			continue
		}
		for k := range r.c.Tenants {
			if c := &r.c.Tenants[k]; c.Name == t.Name {
				c.Server, c.Load = t.Profile.Server, t.Profile.Load
			}
		}
		if _, err := r.c.Profiles.Solo(t.Profile.Server, t.Profile.Load); err != nil {
			r.Addf(fmt.Sprintf("tenants[%d].profile", i),
				"measure it isolated, or leave profile out: its usual latency is then learnt", "%v", err)
		}
	}
}
