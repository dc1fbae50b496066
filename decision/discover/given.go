// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// Prices are the user's own: for a GPU of a model an hour, or for a machine of an instance type an hour.
type Prices struct {
	gpus, machines map[string]cost.Money
}

// ParsePrices reads prices: a mapping from GPU models ("A100-SXM4-80GB", or "A100" for any) and
// instance types ("p4d.24xlarge") to prices an hour ("3.25 USD"), YAML or JSON.
// A GPU's price is for one GPU, an instance type's for the machine.
func ParsePrices(data []byte) (*Prices, error) { return parsePrices("prices", data) }

// parsePrices names in errors where the data are from.
func parsePrices(name string, data []byte) (*Prices, error) {
	var file map[string]cost.Money
	if err := strictyaml.Decode(data, &file, strictyaml.Options{MaxBytes: 1 << 20}); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, name, err)
	}
	out := &Prices{gpus: map[string]cost.Money{}, machines: map[string]cost.Money{}}
	var l problem.List
	currency := ""
	for _, key := range slices.Sorted(maps.Keys(file)) {
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
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, name, err)
	}
	return out, nil
}

// price writes a pool's price, where the user gave one: the machine's before the GPU's. It returns the field and where
// that comes from.
func (b *build) price(out *decision.Pool) (key string, from Provenance) {
	prices := b.c.opts.Prices
	if m, ok := prices.machines[out.InstanceType]; ok && out.InstanceType != "" {
		out.NodePricePerHour = decision.Some(m)
		return "node_price_per_hour", Provenance{basisGiven, "prices, " + out.InstanceType}
	}
	board, _, _ := strings.Cut(out.GPU, " (")
	m, ok := prices.gpus[out.GPU]
	if !ok && board != out.GPU { // described by its memory: priced by its name
		m, ok = prices.machines[board]
	}
	if !ok {
		return "", from
	}
	out.PricePerGPUHour = decision.Some(m)
	return "price_per_gpu_hour", Provenance{basisGiven, "prices, " + out.GPU}
}

// Hints are the user's own statements, which override labels and guesses.
type Hints struct {
	Trust     fleet.Trust             `yaml:"trust"`
	Workloads map[string]WorkloadHint `yaml:"workloads"` // by name, or a pattern such as "team-a/*"
	Nodes     map[string]NodeHint     `yaml:"nodes"`     // likewise
}

// WorkloadHint overrides the fields of workloads of these names; fields that it lacks keep their values. The latencies
// of a pattern's hint apply to those of its workloads that serve requests.
type WorkloadHint struct {
	Kind      decision.Kind                    `yaml:"kind"`
	Memory    decision.Optional[sharing.Bytes] `yaml:"memory"`
	GPUBusy   decision.Optional[float64]       `yaml:"gpu_busy"`
	PeakBusy  decision.Optional[float64]       `yaml:"peak_busy"`
	SLO       profile.SLO                      `yaml:"slo"`
	Solo      profile.SLO                      `yaml:"solo"`
	Load      *fleet.Traffic                   `yaml:"load"`
	Model     *decision.LanguageModel          `yaml:"model"`
	Isolation decision.Isolation               `yaml:"isolation"`
	Tenant    string                           `yaml:"tenant"`
	Trust     []string                         `yaml:"trust"`
	Pool      string                           `yaml:"pool"`
	Spot      bool                             `yaml:"spot"`
}

// NodeHint names a node's GPU where nothing else does.
type NodeHint struct {
	GPU string `yaml:"gpu,required"`
}

// ParseHints reads hints, YAML or JSON, strictly.
func ParseHints(data []byte) (*Hints, error) { return parseHints("hints", data) }

func parseHints(name string, data []byte) (*Hints, error) {
	var h Hints
	if err := strictyaml.Decode(data, &h, strictyaml.Options{MaxBytes: 1 << 20}); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, name, err)
	}
	var l problem.List
	workloads, nodes := slices.Sorted(maps.Keys(h.Workloads)), slices.Sorted(maps.Keys(h.Nodes))
	for _, of := range []struct {
		at   string
		keys []string
	}{{"workloads.", workloads}, {"nodes.", nodes}} {
		for _, k := range of.keys {
			_, err := path.Match(k, "")
			l.If(err != nil, of.at+k, `write a name, or a pattern such as "team-a/*"`, "is no pattern")
		}
	}
	for _, k := range nodes {
		_, err := sharing.LookupGPU(h.Nodes[k].GPU)
		l.AddErr("nodes."+k+".gpu", err)
	}
	for _, k := range workloads {
		if w := h.Workloads[k]; !w.Memory.IsZero() && w.Model != nil {
			l.Addf("workloads."+k+".model", "keep memory or model", "contradicts memory")
		}
	}
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, name, err)
	}
	return &h, nil
}

// matching are the entries for a name: patterns in their order, and the name itself last.
func matching[T any](hints map[string]T, name string) (keys []string) {
	for _, k := range slices.Sorted(maps.Keys(hints)) {
		if ok, _ := path.Match(k, name); ok && k != name {
			keys = append(keys, k)
		}
	}
	if _, ok := hints[name]; ok {
		keys = append(keys, name)
	}
	return keys
}

func (b *build) hintNode(n *node) {
	h := b.c.opts.Hints
	for _, k := range matching(h.Nodes, n.name) {
		gpu, err := sharing.LookupGPU(h.Nodes[k].GPU)
		if err == nil && (n.gpu == nil || n.gpu != gpu) {
			n.gpu, n.productFrom = gpu, Provenance{basisGiven, "hints, nodes." + k}
		}
	}
}

// hintWorkload lets the user's hints override a workload's fields.
func (b *build) hintWorkload(at string, out *decision.Workload) {
	h := b.c.opts.Hints
	b.Fleet.Trust = h.Trust
	if h.Trust != fleet.TrustUnstated {
		b.note("trust", Provenance{basisGiven, "hints"})
	}
	keys := matching(h.Workloads, out.Name)
	for _, k := range keys { // first: latencies depend on whether it serves requests
		out.Kind = cmp.Or(h.Workloads[k].Kind, out.Kind)
	}
	serves := out.Kind.Serves()
	for _, k := range keys {
		v, from := h.Workloads[k], Provenance{basisGiven, "hints, workloads." + k}
		hint, into := reflect.ValueOf(v), reflect.ValueOf(out).Elem()
		for i := range hint.NumField() {
			field := hint.Type().Field(i)
			key := field.Tag.Get("yaml")
			takes := serves || k == out.Name || key != "slo" && key != "solo"
			if takes && !hint.Field(i).IsZero() {
				into.FieldByName(field.Name).Set(hint.Field(i))
				b.note(at+"."+key, from)
			}
		}
		if v.Model != nil {
			out.Memory = decision.Optional[sharing.Bytes]{}
			delete(b.Provenance, at+".memory")
		} else if !v.Memory.IsZero() {
			out.Model = nil
		}
	}
	if !out.Memory.IsZero() || out.Model != nil {
		if p := b.Provenance[at+".pool"]; p.Basis == basisDerived {
			out.Pool = ""
			delete(b.Provenance, at+".pool")
		}
	}
	out.Kind = cmp.Or(out.Kind, decision.KindBatch)
}

// unusedHints finds hints that fit nothing, which change nothing: most are misspelt.
func (b *build) unusedHints() {
	var workloads, nodes []string
	for i := range b.Fleet.Workloads {
		workloads = append(workloads, b.Fleet.Workloads[i].Name)
	}
	for _, n := range b.nodes {
		nodes = append(nodes, n.name)
	}
	unused := func(kind, pattern string, names []string) {
		if slices.ContainsFunc(names, func(name string) bool {
			ok, _ := path.Match(pattern, name)
			return ok || name == pattern
		}) {
			return
		}
		near := ""
		if name := problem.Nearest(pattern, names); name != "" {
			near = fmt.Sprintf(", did you mean %q?", name)
		}
		b.find("hint-unused", sharing.SeverityMedium, kind+"s."+pattern, "hints", "no %s has this name%s", kind, near)
	}
	for k := range b.c.opts.Hints.Workloads {
		unused("workload", k, workloads)
	}
	for k := range b.c.opts.Hints.Nodes {
		unused("node", k, nodes)
	}
}

// LoadOptions reads prices and hints from files; an empty name means none. Errors are those of [ParsePrices],
// [ParseHints] and of opening the files.
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

// ReadFile is [Collector.Read] of a file, or of stdin where it is named "-".
func (c *Collector) ReadFile(file string, stdin io.Reader) error {
	if file == "-" {
		return c.Read("standard input", stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.Read(file, f)
}

const mostArrivals = 64 << 20 // bytes

// LoadArrivals reads a file of objects that are not in the cluster yet, such as the Deployment of a pull request, as
// YAML or JSON: the workloads that they make, without a today, and with a request only for MIG instances. What their
// annotations and another file of hints, which may be "", do not say is not known. Errors of their content match
// ErrInvalid.
func LoadArrivals(name, hints string) ([]decision.Workload, error) {
	opts, err := LoadOptions("", hints)
	if err != nil {
		return nil, err
	}
	data, err := strictyaml.ReadFile(name, strictyaml.Options{MaxBytes: mostArrivals})
	if err != nil {
		return nil, err
	}
	c := New(opts)
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc map[string]any
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		var text []byte
		if err == nil {
			text, err = json.Marshal(doc)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, name, err)
		}
		if len(doc) == 0 {
			continue
		}
		if err := c.Read(name, bytes.NewReader(text)); err != nil {
			return nil, err
		}
	}
	d := c.Discover()
	for i := range d.Fleet.Workloads {
		w := &d.Fleet.Workloads[i]
		if w.Today = nil; w.Request != nil && w.Request.Profile == "" { // else its pods start on no other device
			w.Request = nil
		}
	}
	if len(d.Fleet.Workloads) == 0 {
		return nil, fmt.Errorf("%w: %s: nothing in it asks for a GPU", ErrInvalid, name)
	}
	return d.Fleet.Workloads, nil
}
