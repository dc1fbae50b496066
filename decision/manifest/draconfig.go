package manifest

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/sharing"
)

// The strategies of a DRAConfig.
const (
	StrategyTimeSlicing = "TimeSlicing"
	StrategyMPS         = "MPS"
)

const (
	draVersion = "resource.nvidia.com/v1beta1"
	gpuKind    = "GpuConfig"
	migKind    = "MigDeviceConfig"
)

// intervals are the time-slice intervals, in the order of the numbers that nvidia-smi gives them.
var intervals = []string{"Default", "Short", "Medium", "Long"}

// MPSLimits are the fields of a DRA document's mpsConfig.
type MPSLimits struct {
	// ActiveThreadPercentage is the default of clients, 0 to 100.
	ActiveThreadPercentage decision.Optional[int] `yaml:"defaultActiveThreadPercentage"`
	// PinnedMemory is the default for each client process on each device, which the
	// driver rounds down to whole mebibytes; 0 leaves it unset.
	PinnedMemory Quantity `yaml:"defaultPinnedDeviceMemoryLimit,null"`
	// PerDevicePinnedMemory overrides it for a device, named by its index in the claim ("0") or its UUID.
	PerDevicePinnedMemory map[string]Quantity `yaml:"defaultPerDevicePinnedMemoryLimit"`
	// MultiUser lets clients of different users share one server.
	MultiUser decision.Optional[bool] `yaml:"multiUser"`
}

// DRAConfig holds the opaque parameters of a claim for NVIDIA's DRA driver (resource.nvidia.com/v1beta1). The zero
// value is a GpuConfig that shares nothing beyond the driver's default.
type DRAConfig struct {
	// MIGDevice makes it a MigDeviceConfig, which has no Interval. The driver
	// ignores a GpuConfig on MIG devices without a word.
	MIGDevice bool
	Strategy  string     // StrategyTimeSlicing, StrategyMPS, or "" for a document without sharing
	Interval  string     // Default, Short, Medium or Long; "" leaves it out
	MPS       *MPSLimits // nil leaves it out
}

type wireDRA struct {
	APIVersion string        `yaml:"apiVersion,required"`
	Kind       string        `yaml:"kind,required"`
	Sharing    *wireStrategy `yaml:"sharing"`
}

type wireStrategy struct {
	Strategy          string        `yaml:"strategy,required"`
	TimeSlicingConfig *wireInterval `yaml:"timeSlicingConfig"`
	MPSConfig         *MPSLimits    `yaml:"mpsConfig"`
}

type wireInterval struct {
	Interval string `yaml:"interval"`
}

func parseDRA(data []byte) (*DRAConfig, []sharing.Warning, error) {
	var w wireDRA
	if err := strictyaml.Decode(data, &w, strictyaml.Options{}); err != nil {
		return nil, nil, err
	}
	var l problem.List
	l.If(w.APIVersion != draVersion, "apiVersion", "write "+draVersion, "%q is not read by the DRA driver",
		w.APIVersion)
	l.If(w.Kind != gpuKind && w.Kind != migKind, "kind", "write "+gpuKind+" or "+migKind,
		"%q does not configure sharing", w.Kind)
	d := &DRAConfig{MIGDevice: w.Kind == migKind}
	if s := w.Sharing; s != nil {
		d.Strategy = s.Strategy
		l.If(s.Strategy == "", "sharing.strategy", "write TimeSlicing or MPS", "is empty")
		if s.TimeSlicingConfig != nil {
			l.If(d.MIGDevice, "sharing.timeSlicingConfig", "remove it", "a MigDeviceConfig has no time-slice settings")
			d.Interval = s.TimeSlicingConfig.Interval
			l.If(s.Strategy == StrategyMPS, "sharing.timeSlicingConfig", "remove it", "does not go with the MPS strategy")
		}
		d.MPS = s.MPSConfig
	}
	d.check(&l)
	if err := l.Err(); err != nil {
		return nil, nil, err
	}
	return d, d.Warnings(), nil
}

const tooSmallRemedy = "give a limit of 1Mi or more, or leave the key out"

// Validate returns every reason for which the driver would refuse the document.
func (d *DRAConfig) Validate() error { return validate(d.check) }

func (d *DRAConfig) check(l *problem.List) {
	switch d.Strategy {
	case StrategyTimeSlicing:
		l.If(d.MPS != nil, "sharing.mpsConfig", "remove it", "does not go with the TimeSlicing strategy")
	case StrategyMPS:
		l.If(d.Interval != "", "sharing.timeSlicingConfig", "remove it", "does not go with the MPS strategy")
	case "":
	default:
		l.Addf("sharing.strategy", "write TimeSlicing or MPS", "%q is not a strategy of the DRA driver", d.Strategy)
	}
	if d.Interval != "" && !slices.Contains(intervals, d.Interval) {
		remedy := problem.Meant(d.Interval, intervals, "one of "+strings.Join(intervals, ", "))
		l.Addf("sharing.timeSlicingConfig.interval", remedy, "%q is not an interval", d.Interval)
	}
	l.If(d.MIGDevice && d.Interval != "", "sharing.timeSlicingConfig", "remove it",
		"a MigDeviceConfig has no time-slice settings")
	if d.MPS != nil {
		d.MPS.check(l, "sharing.mpsConfig")
	}
}

var deviceKey = regexp.MustCompile(`^([0-9]{1,4}|(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)

func (m *MPSLimits) check(l *problem.List, path string) {
	if p := m.ActiveThreadPercentage.Or(1); p < 0 || p > 100 {
		l.Addf(path+".defaultActiveThreadPercentage", "give a whole number from 1 to 100",
			"must lie between 0 and 100, not %d", p)
	}
	l.If(m.PinnedMemory != 0 && m.PinnedMemory < Quantity(sharing.MiB), path+".defaultPinnedDeviceMemoryLimit",
		tooSmallRemedy, "the driver refuses a limit below 1Mi")
	for _, k := range slices.Sorted(maps.Keys(m.PerDevicePinnedMemory)) {
		at := path + ".defaultPerDevicePinnedMemoryLimit." + k
		l.If(!deviceKey.MatchString(k), at, `write the index in the claim ("0") or a UUID`, "%q names no device", k)
		l.If(m.PerDevicePinnedMemory[k] < Quantity(sharing.MiB), at, tooSmallRemedy, "the driver refuses a limit below 1Mi")
	}
}

// Warnings lists what the driver accepts in the document and does otherwise than it
// looks, and the feature gate that it needs.
func (d *DRAConfig) Warnings() []sharing.Warning {
	var out []sharing.Warning
	add := func(code sharing.WarningCode, path string, source sharing.SourceID, message, remedy string) {
		out = append(out, sharing.Warning{Code: code, Path: path, Message: message, Remedy: remedy, Source: source})
	}
	switch d.Strategy {
	case StrategyTimeSlicing:
		add(sharing.WarnFeatureGate, "sharing.strategy", "nvidia-dra-driver",
			"needs the driver's feature gate TimeSlicingSettings, which is alpha and off by default", "turn the gate on")
	case StrategyMPS:
		add(sharing.WarnFeatureGate, "sharing.strategy", "nvidia-dra-driver", "needs the driver's feature gate MPSSupport, "+
			"which is alpha and off by default, and excludes DynamicMIG and consumable shares", "turn the gate on")
		add(sharing.WarnClaimScope, "sharing.strategy", "nvidia-dra-driver", "each claim has an MPS daemon of its own: "+
			"only containers and pods that use the same claim share the device",
			"let the pods name one ResourceClaim, not a template")
	}
	m := d.MPS
	if m == nil {
		return out
	}
	if m.ActiveThreadPercentage.Or(1) == 0 {
		add(sharing.WarnZeroPercentage, "sharing.mpsConfig.defaultActiveThreadPercentage", "nvidia-mps-man",
			"the DRA driver takes 0, the MPS daemon refuses it", "give 1 to 100, or leave the key out")
	}
	rounded := func(path string, q Quantity) {
		if b := sharing.Bytes(q); b%sharing.MiB != 0 {
			add(sharing.WarnLimitRoundedDown, path, "nvidia-dra-driver",
				fmt.Sprintf("the driver rounds it down to %dMi", b.MiB()), "give whole mebibytes")
		}
	}
	rounded("sharing.mpsConfig.defaultPinnedDeviceMemoryLimit", m.PinnedMemory)
	for _, k := range slices.Sorted(maps.Keys(m.PerDevicePinnedMemory)) {
		rounded("sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit."+k, m.PerDevicePinnedMemory[k])
	}
	if d.MIGDevice && (m.PinnedMemory > 0 || len(m.PerDevicePinnedMemory) > 0) {
		add(sharing.WarnMIGMemoryLimit, "sharing.mpsConfig", "nvidia-mig-guide-deployment", "EXCLUSIVE_PROCESS mode is not "+
			"available on MIG devices, so a client that misses the daemon has the whole instance",
			"verify that each pod is a client of the daemon, and under which limit")
	}
	return out
}

// Marshal validates the document and writes it. Errors match ErrInvalid.
func (d *DRAConfig) Marshal() ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	kind, sharing := gpuKind, yamlnode.Map()
	if d.MIGDevice {
		kind = migKind
	}
	if d.Strategy != "" {
		sharing = yamlnode.Map("strategy", d.Strategy, "timeSlicingConfig",
			yamlnode.Map("interval", yamlnode.Some(d.Interval)), "mpsConfig", d.MPS)
	}
	return yamlnode.Encode(nil, yamlnode.Map("apiVersion", draVersion, "kind", kind, "sharing", sharing))
}

// Quantity is an amount of memory in bytes, written as Kubernetes writes it: "10Gi".
type Quantity sharing.Bytes

// DecodeNode reads a quantity above 0 that is written as a string or a number.
func (q *Quantity) DecodeNode(d *strictyaml.Decoder, path string, n *yaml.Node) {
	v, err := sharing.Bytes(0), errors.New("must be an amount of memory")
	if n.Kind == yaml.ScalarNode && (n.Tag == "!!str" || n.Tag == "!!int" || n.Tag == "!!float") {
		v, err = parseQuantity(n.Value)
	}
	switch {
	case err != nil:
		d.Addf(path, n, `write a quantity such as "10Gi"`, "%v", err)
	case v == 0:
		d.Addf(path, n, tooSmallRemedy, "the driver refuses a limit below 1Mi")
	}
	*q = Quantity(v)
}

// Any returns the text of a document.
func (q Quantity) Any() any { return formatQuantity(sharing.Bytes(q)) }

// MarshalYAML returns what Any returns.
func (q Quantity) MarshalYAML() (any, error) { return q.Any(), nil }

var quantityForm = regexp.MustCompile(`^([0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})` +
	`(?:([KMGTPE])i|([mkMGTPE])|([eE][+-]?[0-9]{1,2}))?$`)

// exponents are the decimal suffixes.
var exponents = map[string]string{"m": "e-3", "k": "e3", "M": "e6", "G": "e9", "T": "e12", "P": "e15", "E": "e18"}

// parseQuantity reads a Kubernetes quantity as bytes, rounded up to a whole
// byte as Kubernetes does. Negative quantities are refused.
func parseQuantity(s string) (sharing.Bytes, error) {
	m := quantityForm.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is not a quantity", problem.Clip(s))
	}
	r, ok := new(big.Rat).SetString(strings.TrimSuffix(m[1], ".") + exponents[m[3]] + m[4])
	if !ok {
		return 0, fmt.Errorf("%q is not a quantity", s)
	}
	if m[2] != "" {
		binary := new(big.Int).Lsh(big.NewInt(1), uint(10*(1+strings.Index("KMGTPE", m[2]))))
		r.Mul(r, new(big.Rat).SetInt(binary))
	}
	q, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	if !q.IsInt64() {
		return 0, fmt.Errorf("%q does not fit 63 bits", s)
	}
	return sharing.Bytes(q.Int64()), nil
}

// formatQuantity writes bytes as a Kubernetes quantity, exactly.
func formatQuantity(b sharing.Bytes) string {
	for _, u := range []struct {
		suffix string
		size   sharing.Bytes
	}{{"Gi", sharing.GiB}, {"Mi", sharing.MiB}, {"Ki", sharing.KiB}} {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
