package plugin

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// ErrArgs is matched by errors about the plugin's arguments.
var ErrArgs = errors.New("cotenant: invalid arguments")

// Args are the plugin's arguments in the scheduler's configuration. The zero
// value is the documented default of each.
type Args struct {
	// Policy is cotenant, fgd, best-fit, spread or random; "" is cotenant where
	// a mix is given, and best-fit where none is.
	Policy string `yaml:"policy"`
	Seed   uint64 `yaml:"seed"` // of random
	// Mix is the requests of a typical day, which cotenant and fgd look ahead by.
	Mix []Kind `yaml:"mix"`
	// Prices of a GPU's hour by model ("2.49 USD"), for verdicts.
	Prices map[string]string `yaml:"prices"`
}

// Kind is a kind of request and how often it comes.
type Kind struct {
	Weight     float64             `yaml:"weight"` // 0 = 1
	CPUMilli   int64               `yaml:"cpuMilli"`
	Memory     sharing.Bytes       `yaml:"memory"`
	GPUs       int                 `yaml:"gpus"`     // 0 = 1
	GPUMilli   int                 `yaml:"gpuMilli"` // of each; 0 = a whole one, where nothing else is said
	GPUMemory  sharing.Bytes       `yaml:"gpuMemory"`
	Profile    string              `yaml:"profile"` // MIG
	Models     []string            `yaml:"models"`
	Mechanisms []sharing.Mechanism `yaml:"mechanisms"`
}

func (k *Kind) typical() placement.Typical {
	r := placement.Request{CPUMilli: k.CPUMilli, Memory: k.Memory, GPUs: k.GPUs, Milli: k.GPUMilli, GPUMemory: k.GPUMemory, Profile: k.Profile,
		Mechanisms: k.Mechanisms}
	if r.GPUs == 0 {
		r.GPUs = 1
	}
	if r.Milli == 0 && r.GPUMemory == 0 && r.Profile == "" {
		r.Milli = 1000
	}
	for _, m := range k.Models {
		r.Models = append(r.Models, kubegpu.ModelNames(m)...)
	}
	w := k.Weight
	if w == 0 {
		w = 1
	}
	return placement.Typical{Request: r, Weight: w}
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
	if len(u.Raw) == 0 {
		return a, nil
	}
	if err := strictyaml.Decode(u.Raw, &a, strictyaml.Options{}); err != nil {
		return a, fmt.Errorf("%w:\n%w", ErrArgs, err)
	}
	return a, nil
}

var policies = []string{"cotenant", "fgd", "best-fit", "spread", "random"}

// build makes of the arguments what the plugin works with. The error is an
// ErrArgs that names every problem.
func (a *Args) build() (placement.Policy, placement.Predictor, map[string]cost.Money, error) {
	var l problem.List
	name := a.Policy
	if name == "" {
		name = "best-fit"
		if len(a.Mix) > 0 {
			name = "cotenant"
		}
	}
	var mix *placement.Mix
	if len(a.Mix) > 0 {
		typical := make([]placement.Typical, len(a.Mix))
		for i := range a.Mix {
			typical[i] = a.Mix[i].typical()
		}
		var err error
		if mix, err = placement.NewMix(typical); err != nil {
			l.AddErr("mix", err)
		}
	}
	var policy placement.Policy
	switch name {
	case "cotenant", "fgd":
		switch {
		case len(a.Mix) == 0:
			l.Addf("mix", "give the requests of a typical day", "policy %s looks ahead by a mix, and there is none", name)
		case mix != nil && name == "fgd":
			policy = placement.NewFragmentation(mix)
		case mix != nil:
			policy = placement.NewCotenant(mix)
		}
	case "best-fit":
		policy = placement.BestFit{}
	case "spread":
		policy = placement.Spread{}
	case "random":
		policy = placement.Random{Seed: a.Seed}
	default:
		remedy := "use cotenant, fgd, best-fit, spread or random"
		if near := problem.Nearest(name, policies); near != "" {
			remedy = "did you mean " + near + "?"
		}
		l.Addf("policy", remedy, "there is no policy %.40q", name)
	}
	prices := map[string]cost.Money{}
	for _, model := range slices.Sorted(maps.Keys(a.Prices)) {
		price, err := cost.ParsePrice(a.Prices[model])
		if err != nil {
			l.AddErr("prices."+model, err)
			continue
		}
		for _, m := range kubegpu.ModelNames(model) {
			prices[m] = price
		}
	}
	if err := l.Err(); err != nil {
		return nil, nil, nil, fmt.Errorf("%w:\n%w", ErrArgs, err)
	}
	return policy, nil, prices, nil
}

// CheckArgs checks the plugin's arguments as New does, without a scheduler.
func CheckArgs(obj runtime.Object) error {
	a, err := decodeArgs(obj)
	if err != nil {
		return err
	}
	_, _, err = a.scorer()
	return err
}

// scorer makes a scorer of the arguments, and its policy's name.
func (a *Args) scorer() (*placement.Scorer, string, error) {
	policy, predictor, _, err := a.build()
	if err != nil {
		return nil, "", err
	}
	return placement.NewScorer(policy, predictor), policy.Name(), nil
}
