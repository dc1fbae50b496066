// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// Prices are the user's hourly prices of GPU models and instance types.
type Prices struct {
	gpus, machines map[string]cost.Money
}

// ParsePrices reads prices: a mapping from GPU models ("A100-SXM4-80GB", or "A100" for any) and instance types
// ("p4d.24xlarge") to hourly prices ("3.25 USD"), YAML or JSON. A GPU's price is for one GPU, an instance type's for
// the machine.
func ParsePrices(data []byte) (*Prices, error) { return parsePrices("prices", data) }

// parsePrices names in errors where the data are from.
func parsePrices(name string, data []byte) (*Prices, error) {
	out := &Prices{gpus: map[string]cost.Money{}, machines: map[string]cost.Money{}}
	_, err := parse(name, data, func(file map[string]cost.Money, l *problem.List) {
		currency := ""
		for _, key := range sortedKeys(file) {
			m := file[key]
			l.If(m.Sign() < 0, key, "write what it costs for an hour", "%s is negative", m)
			l.If(currency != "" && m.Currency() != currency, key, "use one currency",
				"is in %s and an earlier price in %s", m.Currency(), currency)
			currency = m.Currency()
			gpu, err := sharing.LookupGPU(key)
			switch {
			case err == nil:
				out.gpus[gpu.Name] = m
			case len(ambiguous(err)) > 0: // "A100" is any of them
				for _, name := range ambiguous(err) {
					if _, exact := out.gpus[name]; !exact {
						out.gpus[name] = m
					}
				}
			default:
				out.machines[key] = m
			}
		}
		l.If(len(file) == 0, "", "write for example\n  A100-SXM4-80GB: 3.25 USD\n  p4d.24xlarge: 32.77 USD",
			"there are no prices")
	})
	return out, err
}

// parse decodes the user's own file and checks it.
func parse[T any](name string, data []byte, check func(T, *problem.List)) (*T, error) {
	v, l := new(T), problem.List{}
	err := strictyaml.Decode(data, v, strictyaml.Options{MaxBytes: 1 << 20})
	if err == nil {
		check(*v, &l)
		err = l.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, name, err)
	}
	return v, nil
}

// Hints are the user's statements, which override labels and guesses.
type Hints struct {
	Trust     fleet.Trust             `yaml:"trust"`
	Workloads map[string]WorkloadHint `yaml:"workloads"` // by name, or a pattern such as "team-a/*"
	Nodes     map[string]struct {
		GPU string `yaml:"gpu,required"` // used if nothing else names it
	} `yaml:"nodes"` // likewise
}

// WorkloadHint overrides the fields of the workloads with its name; fields that it lacks do not change. Latencies in
// the hint of a pattern apply only to workloads that serve requests.
type WorkloadHint struct {
	Kind      decision.Kind                   `yaml:"kind"`
	Memory    sharing.Optional[sharing.Bytes] `yaml:"memory"`
	GPUBusy   sharing.Optional[float64]       `yaml:"gpu_busy"`
	PeakBusy  sharing.Optional[float64]       `yaml:"peak_busy"`
	SLO       profile.SLO                     `yaml:"slo"`
	Solo      profile.SLO                     `yaml:"solo"`
	Load      *fleet.Traffic                  `yaml:"load"`
	Model     *fleet.LanguageModel            `yaml:"model"`
	Isolation fleet.Isolation                 `yaml:"isolation"`
	Tenant    string                          `yaml:"tenant"`
	Trust     []string                        `yaml:"trust"`
	Pool      string                          `yaml:"pool"`
	Spot      bool                            `yaml:"spot"`
}

// ParseHints reads hints, YAML or JSON, strictly.
func ParseHints(data []byte) (*Hints, error) { return parseHints("hints", data) }

func parseHints(name string, data []byte) (*Hints, error) {
	return parse(name, data, func(h Hints, l *problem.List) {
		pattern := func(at, k string) {
			_, err := path.Match(k, "")
			l.If(err != nil, at+k, `write a name, or a pattern such as "team-a/*"`, "is no pattern")
		}
		for _, k := range sortedKeys(h.Workloads) {
			pattern("workloads.", k)
			w := h.Workloads[k]
			l.If(!w.Memory.IsZero() && w.Model != nil, "workloads."+k+".model", "keep memory or model", "contradicts memory")
		}
		for _, k := range sortedKeys(h.Nodes) {
			pattern("nodes.", k)
			_, err := sharing.LookupGPU(h.Nodes[k].GPU)
			l.AddErr("nodes."+k+".gpu", err)
		}
	})
}

// matching are the entries for a name: patterns in their order, and the name itself last.
func matching[T any](hints map[string]T, name string) []string {
	keys := slices.DeleteFunc(sortedKeys(hints), func(k string) bool { return k == name || !fits(k, name) })
	if _, ok := hints[name]; ok {
		keys = append(keys, name)
	}
	return keys
}

func fits(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok || name == pattern
}

// Options tune a Collector. The zero value is the documented default.
type Options struct {
	Hints  *Hints  // nil = none
	Prices *Prices // nil = none
}

// LoadOptions reads prices and hints from files, YAML or JSON; an empty name means none. Errors of their content match
// [ErrInvalid].
func LoadOptions(prices, hints string) (o Options, err error) {
	var wrong error
	o.Prices, wrong = load(prices, parsePrices)
	o.Hints, err = load(hints, parseHints)
	return o, errors.Join(wrong, err)
}

func load[T any](file string, parse func(string, []byte) (*T, error)) (*T, error) {
	if file == "" {
		return nil, nil
	}
	data, err := strictyaml.ReadFile(file, strictyaml.Options{})
	if err != nil {
		return nil, err
	}
	return parse(file, data)
}
