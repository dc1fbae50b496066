// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/examples/kube-scheduler/internal/problems"
	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
	"github.com/cotenant/cotenant/sharing"
)

// ErrArgs is matched by errors about the plugin's arguments.
var ErrArgs = errors.New("cotenant: invalid arguments")

// Args are the plugin's arguments in the scheduler's configuration. The zero value is the documented default of each.
type Args struct {
	// Mix is the requests of a typical day, by which the policy cotenant looks ahead. Without one it is best-fit.
	Mix []MixEntry `json:"mix"`

	// Measured and Workloads are the basis of predictions: measurements by GPU model, and the workloads that pods name
	// by annotation. With them scores are lower by the work that neighbours lose, and pods with objectives may get
	// neighbours.
	Measured  []Measured                    `json:"measured"`
	Workloads map[string]profile.ProfileRef `json:"workloads"`
}

// Measured holds measurements of isolated workloads on GPUs of one model.
type Measured struct {
	Model         string `json:"model"`
	ProfilesFile  string `json:"profilesFile"`  // as profile.ParseProfiles reads it
	PredictorFile string `json:"predictorFile"` // as predict.ParsePredictor reads it; "" is predict.NewPredictor
}

// MixEntry is a kind of request and how often it comes.
type MixEntry struct {
	Weight     float64             `json:"weight"` // 0 = 1
	CPUMilli   int64               `json:"cpuMilli"`
	Memory     sharing.Bytes       `json:"memory"`
	GPUs       int                 `json:"gpus"`     // 0 = 1
	GPUMilli   int                 `json:"gpuMilli"` // of each; 0 = a whole one, where nothing else is stated
	GPUMemory  sharing.Bytes       `json:"gpuMemory"`
	Profile    string              `json:"profile"` // MIG
	Models     []string            `json:"models"`
	Mechanisms []sharing.Mechanism `json:"mechanisms"`
}

func (k *MixEntry) typical() placement.Typical {
	r := placement.Request{CPUMilli: k.CPUMilli, Memory: k.Memory, GPUs: cmp.Or(k.GPUs, 1), Milli: k.GPUMilli,
		GPUMemory: k.GPUMemory, Profile: k.Profile, Mechanisms: k.Mechanisms}
	if r.Milli == 0 && r.GPUMemory == 0 && r.Profile == "" {
		r.Milli = 1000
	}
	for _, m := range k.Models {
		r.Models = append(r.Models, kubegpu.ModelNames(m)...)
	}
	return placement.Typical{Request: r, Weight: cmp.Or(k.Weight, 1)}
}

// decodeArgs reads the arguments strictly: unknown keys are errors.
func decodeArgs(obj runtime.Object) (Args, error) {
	var a Args
	if obj == nil {
		return a, nil
	}
	u, ok := obj.(*runtime.Unknown)
	if !ok {
		return a, fmt.Errorf("%w: they are a %T", ErrArgs, obj)
	}
	return ParseArgs(u.Raw)
}

// ParseArgs reads arguments, YAML or JSON, strictly. The error is an ErrArgs that
// names every unknown key, or the first value that cannot be read.
func ParseArgs(data []byte) (Args, error) {
	var a Args
	data, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return Args{}, fmt.Errorf("%w:\n%w", ErrArgs, err)
	}
	unknown, err := kjson.UnmarshalStrict(data, &a)
	if err := errors.Join(append(unknown, err)...); err != nil {
		return Args{}, fmt.Errorf("%w:\n%w", ErrArgs, err)
	}
	return a, nil
}

// Scorer makes of the arguments the scorer that the plugin places by. The error is an ErrArgs that names every problem.
func (a *Args) Scorer() (*placement.Scorer, error) {
	var l problems.List
	scorer := placement.NewScorer(a.policy(&l), a.models(&l))
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("%w:\n%w", ErrArgs, err)
	}
	return scorer, nil
}

// policy is the look-ahead by the mix, or best-fit without one.
func (a *Args) policy(l *problems.List) placement.Policy {
	if len(a.Mix) == 0 {
		return placement.BestFit
	}
	typical := make([]placement.Typical, len(a.Mix))
	for i := range a.Mix {
		typical[i] = a.Mix[i].typical()
	}
	policy, err := placement.NewCotenant(typical)
	if err != nil {
		addErr(l, err)
	}
	return policy
}

// mixFields translates paths in errors of package placement to the arguments' names.
var mixFields = strings.NewReplacer("Typical[", "mix[", "Typical", "mix", "].Request.CPUMilli", "].cpuMilli",
	"].Request.Memory", "].memory", "].Request.GPUs", "].gpus",
	"].Request.Milli", "].gpuMilli", "].Request.GPUMemory", "].gpuMemory", "].Request.Profile", "].profile",
	"].Request.Mechanisms", "].mechanisms", "].Weight", "].weight")

// addErr records an error of package placement, under the arguments' names.
func addErr(l *problems.List, err error) {
	for line := range strings.Lines(strings.TrimPrefix(err.Error(), placement.ErrInvalid.Error()+": ")) {
		path, what, _ := strings.Cut(strings.TrimSpace(line), ": ")
		l.Addf(mixFields.Replace(path), "", "%s", what)
	}
}

// models makes the predictions, nil where nothing was measured.
func (a *Args) models(l *problems.List) placement.Forecaster {
	if len(a.Measured) == 0 {
		if len(a.Workloads) > 0 {
			l.Addf("measured", "give the profiles of a GPU model", "workloads are named, and nothing was measured")
		}
		return nil
	}
	before := l.Len()
	for _, name := range slices.Sorted(maps.Keys(a.Workloads)) {
		w := a.Workloads[name]
		if w.Server == (profile.Server{}) {
			l.Addf("workloads."+name+".server", `say at least {"model": ...}`, "is empty")
		}
		if err := w.Load.Validate(); err != nil {
			l.AddErr("workloads."+name+".load", err)
		}
	}
	var gpus []placement.Calibrated
	for i, m := range a.Measured {
		path := fmt.Sprintf("measured[%d]", i)
		g := placement.Calibrated{Model: m.Model, Predictor: predict.NewPredictor(), Profiles: &profile.Profiles{}}
		names := kubegpu.ModelNames(m.Model)
		switch {
		case m.Model == "":
			l.Addf(path+".model", "name a GPU model", "is missing")
		case len(names) == 1:
			g.Model = names[0]
		default:
			l.Addf(path+".model", "name one of them", "%s may be any of %s", m.Model, strings.Join(names, ", "))
		}
		read := func(field, name string, use func([]byte) error) {
			if name == "" {
				l.Addf(path+"."+field, "name the file", "is missing")
				return
			}
			data, err := os.ReadFile(name)
			if err == nil {
				err = use(data)
			}
			if err != nil {
				l.AddErr(path+"."+field, err)
			}
		}
		read("profilesFile", m.ProfilesFile, func(data []byte) error {
			profiles, err := profile.ParseProfiles(data)
			if err != nil {
				return err
			}
			return g.Profiles.Add(profiles...)
		})
		if m.PredictorFile != "" {
			read("predictorFile", m.PredictorFile, func(data []byte) error {
				p, err := predict.ParsePredictor(data)
				if err == nil {
					g.Predictor = *p
				}
				return err
			})
		}
		gpus = append(gpus, g)
	}
	if l.Len() > before {
		return nil
	}
	models, err := placement.NewModels(a.Workloads, gpus...)
	if err != nil {
		addErr(l, err)
		return nil
	}
	return models
}
