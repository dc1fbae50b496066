// Package draconf reads and writes the opaque parameters of the NVIDIA DRA
// driver (resource.nvidia.com/v1beta1: GpuConfig and MigDeviceConfig).
// Packages mps and timeslice show one strategy of it to users, package
// manifest the whole.
package draconf

import (
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/internal/yamlnode"
)

// What the driver's documents say of themselves.
const (
	APIVersion  = "resource.nvidia.com/v1beta1"
	GPUKind     = "GpuConfig"
	MIGKind     = "MigDeviceConfig"
	TimeSlicing = "TimeSlicing"
	MPS         = "MPS"

	mib = 1 << 20
)

// Codes of what is legal in a document and misleads.
const (
	FeatureGate      = "feature-gate-alpha"
	LimitRoundedDown = "limit-rounded-down"
	ZeroPercentage   = "zero-percentage"
	ClaimScope       = "claim-scope"
	MIGMemoryLimit   = "mig-memory-limit"
)

// Intervals are the time-slice intervals, in the order of the numbers that
// nvidia-smi gives them.
var Intervals = []string{"Default", "Short", "Medium", "Long"}

// Limits are the fields of mpsConfig; 0 and nil mean not set.
type Limits struct {
	ActiveThreadPercentage *int
	PinnedMemory           int64
	PerDevicePinnedMemory  map[string]int64
	MultiUser              *bool
}

// Document is a GpuConfig or MigDeviceConfig.
type Document struct {
	MIG      bool
	Strategy string  // TimeSlicing, MPS, or "" for a document without sharing
	Interval string  // one of Intervals, or "" when not set
	MPS      *Limits // nil when not set
}

type wireDocument struct {
	APIVersion string       `yaml:"apiVersion,required"`
	Kind       string       `yaml:"kind,required"`
	Sharing    *wireSharing `yaml:"sharing"`
}

type wireSharing struct {
	Strategy          string           `yaml:"strategy,required"`
	TimeSlicingConfig *wireTimeSlicing `yaml:"timeSlicingConfig"`
	MPSConfig         *wireMPS         `yaml:"mpsConfig"`
}

type wireTimeSlicing struct {
	Interval string `yaml:"interval"`
}

type wireMPS struct {
	Percentage   *int                `yaml:"defaultActiveThreadPercentage"`
	PinnedMemory *quantity           `yaml:"defaultPinnedDeviceMemoryLimit"`
	PerDevice    map[string]quantity `yaml:"defaultPerDevicePinnedMemoryLimit"`
	MultiUser    *bool               `yaml:"multiUser"`
}

// quantity is a Kubernetes quantity in bytes. What cannot be read is reported
// where it stands.
type quantity int64

// DecodeNode reads a quantity that is written as a string or a number.
func (q *quantity) DecodeNode(d *strictyaml.Decoder, path string, n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" && n.Tag != "!!int" && n.Tag != "!!float" {
		d.Addf(path, n, `write a quantity such as "10Gi"`, "must be an amount of memory")
		return
	}
	v, err := ParseQuantity(n.Value)
	if err != nil {
		d.Addf(path, n, `write a quantity such as "10Gi"`, "%v", err)
		return
	}
	*q = quantity(v)
}

var quantityForm = regexp.MustCompile(`^([0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:([KMGTPE]i|[mkMGTPE])|[eE]([+-]?[0-9]{1,2}))?$`)

var suffixes = map[string]*big.Rat{
	"": ratio(1, 1), "m": ratio(1, 1000), "k": pow(10, 3), "M": pow(10, 6), "G": pow(10, 9), "T": pow(10, 12), "P": pow(10, 15), "E": pow(10, 18),
	"Ki": pow(2, 10), "Mi": pow(2, 20), "Gi": pow(2, 30), "Ti": pow(2, 40), "Pi": pow(2, 50), "Ei": pow(2, 60),
}

func ratio(a, b int64) *big.Rat { return big.NewRat(a, b) }

func pow(base, exp int64) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(base), big.NewInt(exp), nil))
}

// ParseQuantity reads a Kubernetes quantity as bytes, rounded up to a whole
// byte as Kubernetes does. Negative quantities are refused.
func ParseQuantity(s string) (int64, error) {
	m := quantityForm.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is not a quantity", problem.Clip(s))
	}
	r, ok := new(big.Rat).SetString(strings.TrimSuffix(m[1], "."))
	if !ok {
		return 0, fmt.Errorf("%q is not a quantity", s)
	}
	if m[3] != "" {
		e, err := strconv.ParseInt(m[3], 10, 8)
		if err != nil {
			return 0, err
		}
		if e < 0 {
			r.Quo(r, pow(10, -e))
		} else {
			r.Mul(r, pow(10, e))
		}
	} else {
		r.Mul(r, suffixes[m[2]])
	}
	q, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	if !q.IsInt64() {
		return 0, fmt.Errorf("%q does not fit 63 bits", s)
	}
	return q.Int64(), nil
}

// FormatQuantity writes bytes as a Kubernetes quantity, exactly.
func FormatQuantity(b int64) string {
	for _, u := range []struct {
		suffix string
		size   int64
	}{{"Gi", 1 << 30}, {"Mi", mib}, {"Ki", 1 << 10}} {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(b/u.size, 10) + u.suffix
		}
	}
	return strconv.FormatInt(b, 10)
}

// Parse reads a document strictly: a GpuConfig or a MigDeviceConfig.
func Parse(data []byte) (*Document, []problem.Warning, error) {
	var w wireDocument
	if err := strictyaml.Decode(data, &w, strictyaml.Options{}); err != nil {
		return nil, nil, err
	}
	var l problem.List
	if w.APIVersion != APIVersion {
		l.Addf("apiVersion", "write "+APIVersion, "%q is not read by the DRA driver", w.APIVersion)
	}
	if w.Kind != GPUKind && w.Kind != MIGKind {
		l.Addf("kind", "write "+GPUKind+" or "+MIGKind, "%q does not configure sharing", w.Kind)
	}
	d := &Document{MIG: w.Kind == MIGKind}
	if s := w.Sharing; s != nil {
		d.Strategy = s.Strategy
		if s.Strategy == "" {
			l.Addf("sharing.strategy", "write TimeSlicing or MPS", "is empty")
		}
		if s.TimeSlicingConfig != nil {
			if d.MIG {
				l.Addf("sharing.timeSlicingConfig", "remove it", "a MigDeviceConfig has no time-slice settings")
			}
			d.Interval = s.TimeSlicingConfig.Interval
			if s.Strategy == MPS {
				l.Addf("sharing.timeSlicingConfig", "remove it", "does not go with the MPS strategy")
			}
		}
		if s.MPSConfig != nil {
			d.MPS = s.MPSConfig.limits(&l)
		}
	}
	d.check(&l)
	if err := l.Err(); err != nil {
		return nil, nil, err
	}
	return d, d.Warnings(), nil
}

func (w *wireMPS) limits(l *problem.List) *Limits {
	out := &Limits{ActiveThreadPercentage: w.Percentage, MultiUser: w.MultiUser}
	if w.PinnedMemory != nil {
		out.PinnedMemory = int64(*w.PinnedMemory)
		if out.PinnedMemory == 0 {
			l.Addf("sharing.mpsConfig.defaultPinnedDeviceMemoryLimit", tooSmallRemedy, "the driver refuses a limit below 1Mi")
		}
	}
	if len(w.PerDevice) > 0 {
		out.PerDevicePinnedMemory = make(map[string]int64, len(w.PerDevice))
		for k, v := range w.PerDevice {
			out.PerDevicePinnedMemory[k] = int64(v)
		}
	}
	return out
}

const tooSmallRemedy = "give a limit of 1Mi or more, or leave the key out"

// Validate returns every reason why the driver would refuse the document.
func (d *Document) Validate() error {
	var l problem.List
	d.check(&l)
	return l.Err()
}

func (d *Document) check(l *problem.List) {
	switch d.Strategy {
	case TimeSlicing:
		if d.MPS != nil {
			l.Addf("sharing.mpsConfig", "remove it", "does not go with the TimeSlicing strategy")
		}
	case MPS:
		if d.Interval != "" {
			l.Addf("sharing.timeSlicingConfig", "remove it", "does not go with the MPS strategy")
		}
	case "":
	default:
		l.Addf("sharing.strategy", "write TimeSlicing or MPS", "%q is not a strategy of the DRA driver", d.Strategy)
	}
	if d.Interval != "" && !slices.Contains(Intervals, d.Interval) {
		remedy := "one of " + strings.Join(Intervals, ", ")
		if near := problem.Nearest(d.Interval, Intervals); near != "" {
			remedy = fmt.Sprintf("did you mean %q?", near)
		}
		l.Addf("sharing.timeSlicingConfig.interval", remedy, "%q is not an interval", d.Interval)
	}
	if d.MIG && d.Interval != "" {
		l.Addf("sharing.timeSlicingConfig", "remove it", "a MigDeviceConfig has no time-slice settings")
	}
	if d.MPS != nil {
		d.MPS.check(l, "sharing.mpsConfig")
	}
}

var deviceKey = regexp.MustCompile(`^([0-9]{1,4}|(GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$`)

func (m *Limits) check(l *problem.List, path string) {
	if p := m.ActiveThreadPercentage; p != nil && (*p < 0 || *p > 100) {
		l.Addf(path+".defaultActiveThreadPercentage", "give a whole number from 1 to 100", "must lie between 0 and 100, not %d", *p)
	}
	if m.PinnedMemory != 0 && m.PinnedMemory < mib {
		l.Addf(path+".defaultPinnedDeviceMemoryLimit", tooSmallRemedy, "the driver refuses a limit below 1Mi")
	}
	for _, k := range slices.Sorted(maps.Keys(m.PerDevicePinnedMemory)) {
		at := path + ".defaultPerDevicePinnedMemoryLimit." + k
		if !deviceKey.MatchString(k) {
			l.Addf(at, `write the index in the claim ("0") or a UUID`, "%q names no device", k)
		}
		if m.PerDevicePinnedMemory[k] < mib {
			l.Addf(at, tooSmallRemedy, "the driver refuses a limit below 1Mi")
		}
	}
}

// Warnings lists what is legal in the document and misleads.
func (d *Document) Warnings() []problem.Warning {
	var out []problem.Warning
	add := func(code, path, source, message, remedy string) {
		out = append(out, problem.Warning{Code: code, Path: path, Message: message, Remedy: remedy, Source: source})
	}
	switch d.Strategy {
	case TimeSlicing:
		add(FeatureGate, "sharing.strategy", "nvidia-dra-driver", "needs the driver's feature gate TimeSlicingSettings, which is alpha and off by default", "turn the gate on")
	case MPS:
		add(FeatureGate, "sharing.strategy", "nvidia-dra-driver", "needs the driver's feature gate MPSSupport, which is alpha and off by default, and excludes DynamicMIG and consumable shares", "turn the gate on")
		add(ClaimScope, "sharing.strategy", "nvidia-dra-driver", "each claim has an MPS daemon of its own: only containers and pods that use the same claim share the device", "let the pods name one ResourceClaim, not a template")
	}
	m := d.MPS
	if m == nil {
		return out
	}
	if m.ActiveThreadPercentage != nil && *m.ActiveThreadPercentage == 0 {
		add(ZeroPercentage, "sharing.mpsConfig.defaultActiveThreadPercentage", "nvidia-mps-man", "the DRA driver takes 0, the MPS daemon refuses it", "give 1 to 100, or leave the key out")
	}
	rounded := func(path string, b int64) {
		if b%mib != 0 {
			add(LimitRoundedDown, path, "nvidia-dra-driver", fmt.Sprintf("the driver rounds it down to %dMi", b/mib), "give whole mebibytes")
		}
	}
	rounded("sharing.mpsConfig.defaultPinnedDeviceMemoryLimit", m.PinnedMemory)
	for _, k := range slices.Sorted(maps.Keys(m.PerDevicePinnedMemory)) {
		rounded("sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit."+k, m.PerDevicePinnedMemory[k])
	}
	if d.MIG && (m.PinnedMemory > 0 || len(m.PerDevicePinnedMemory) > 0) {
		add(MIGMemoryLimit, "sharing.mpsConfig", "nvidia-mig-guide-deployment", "EXCLUSIVE_PROCESS mode is not available on MIG devices, so a client that misses the daemon has the whole instance",
			"verify that each pod is a client of the daemon, and under which limit")
	}
	return out
}

// Node builds the document's YAML, which Marshal writes alone and a claim
// holds under opaque.parameters.
func (d *Document) Node() *yaml.Node {
	kind := GPUKind
	if d.MIG {
		kind = MIGKind
	}
	var sharing any
	if d.Strategy != "" {
		var interval, limits any
		if d.Interval != "" {
			interval = yamlnode.Map("interval", d.Interval)
		}
		if d.MPS != nil {
			limits = d.MPS.node()
		}
		sharing = yamlnode.Map("strategy", d.Strategy, "timeSlicingConfig", interval, "mpsConfig", limits)
	}
	return yamlnode.Map("apiVersion", APIVersion, "kind", kind, "sharing", sharing)
}

func (m *Limits) node() *yaml.Node {
	var pinned any
	if m.PinnedMemory != 0 {
		pinned = FormatQuantity(m.PinnedMemory)
	}
	perDevice := make(map[string]string, len(m.PerDevicePinnedMemory))
	for k, v := range m.PerDevicePinnedMemory {
		perDevice[k] = FormatQuantity(v)
	}
	return yamlnode.Map("defaultActiveThreadPercentage", m.ActiveThreadPercentage,
		"defaultPinnedDeviceMemoryLimit", pinned, "defaultPerDevicePinnedMemoryLimit", perDevice, "multiUser", m.MultiUser)
}

// Marshal writes the document. It validates first.
func (d *Document) Marshal() ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return yamlnode.Encode(nil, d.Node())
}
