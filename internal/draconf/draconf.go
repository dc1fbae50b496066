// Package draconf reads and writes the opaque parameters of the NVIDIA DRA
// driver (resource.nvidia.com/v1beta1: GpuConfig and MigDeviceConfig).
// Packages mps and timeslice show one strategy of it to users, package
// manifest the whole.
package draconf

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/sharing"
)

// What the driver's documents say of themselves.
const (
	TimeSlicing = "TimeSlicing"
	MPS         = "MPS"

	apiVersion = "resource.nvidia.com/v1beta1"
	gpuKind    = "GpuConfig"
	migKind    = "MigDeviceConfig"
)

// intervals are the time-slice intervals, in the order of the numbers that
// nvidia-smi gives them.
var intervals = []string{"Default", "Short", "Medium", "Long"}

// Limits are the fields of mpsConfig; 0 bytes mean not set.
type Limits struct {
	ActiveThreadPercentage optional.Value[int]
	PinnedMemory           sharing.Bytes
	PerDevicePinnedMemory  map[string]sharing.Bytes
	MultiUser              optional.Value[bool]
}

// Document is a GpuConfig or MigDeviceConfig.
type Document struct {
	MIG      bool
	Strategy string  // TimeSlicing, MPS, or "" for a document without sharing
	Interval string  // one of intervals, or "" when not set
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
	Percentage   optional.Value[int]      `yaml:"defaultActiveThreadPercentage"`
	PinnedMemory optional.Value[quantity] `yaml:"defaultPinnedDeviceMemoryLimit"`
	PerDevice    map[string]quantity      `yaml:"defaultPerDevicePinnedMemoryLimit"`
	MultiUser    optional.Value[bool]     `yaml:"multiUser"`
}

// Parse reads a document strictly: a GpuConfig or a MigDeviceConfig.
func Parse(data []byte) (*Document, []sharing.Warning, error) {
	var w wireDocument
	if err := strictyaml.Decode(data, &w, strictyaml.Options{}); err != nil {
		return nil, nil, err
	}
	var l problem.List
	if w.APIVersion != apiVersion {
		l.Addf("apiVersion", "write "+apiVersion, "%q is not read by the DRA driver", w.APIVersion)
	}
	if w.Kind != gpuKind && w.Kind != migKind {
		l.Addf("kind", "write "+gpuKind+" or "+migKind, "%q does not configure sharing", w.Kind)
	}
	d := &Document{MIG: w.Kind == migKind}
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
	if v, ok := w.PinnedMemory.Get(); ok {
		out.PinnedMemory = sharing.Bytes(v)
		if v == 0 {
			l.Addf("sharing.mpsConfig.defaultPinnedDeviceMemoryLimit", tooSmallRemedy, "the driver refuses a limit below 1Mi")
		}
	}
	if len(w.PerDevice) > 0 {
		out.PerDevicePinnedMemory = make(map[string]sharing.Bytes, len(w.PerDevice))
		for k, v := range w.PerDevice {
			out.PerDevicePinnedMemory[k] = sharing.Bytes(v)
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
	if d.Interval != "" && !slices.Contains(intervals, d.Interval) {
		remedy := "one of " + strings.Join(intervals, ", ")
		if near := problem.Nearest(d.Interval, intervals); near != "" {
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
	if p := m.ActiveThreadPercentage.Or(1); p < 0 || p > 100 {
		l.Addf(path+".defaultActiveThreadPercentage", "give a whole number from 1 to 100", "must lie between 0 and 100, not %d", p)
	}
	if m.PinnedMemory != 0 && m.PinnedMemory < sharing.MiB {
		l.Addf(path+".defaultPinnedDeviceMemoryLimit", tooSmallRemedy, "the driver refuses a limit below 1Mi")
	}
	for _, k := range slices.Sorted(maps.Keys(m.PerDevicePinnedMemory)) {
		at := path + ".defaultPerDevicePinnedMemoryLimit." + k
		if !deviceKey.MatchString(k) {
			l.Addf(at, `write the index in the claim ("0") or a UUID`, "%q names no device", k)
		}
		if m.PerDevicePinnedMemory[k] < sharing.MiB {
			l.Addf(at, tooSmallRemedy, "the driver refuses a limit below 1Mi")
		}
	}
}

// Warnings lists what is legal in the document and misleads.
func (d *Document) Warnings() []sharing.Warning {
	var out []sharing.Warning
	add := func(code sharing.WarningCode, path string, source sharing.SourceID, message, remedy string) {
		out = append(out, sharing.Warning{Code: code, Path: path, Message: message, Remedy: remedy, Source: source})
	}
	switch d.Strategy {
	case TimeSlicing:
		add(sharing.WarnFeatureGate, "sharing.strategy", "nvidia-dra-driver", "needs the driver's feature gate TimeSlicingSettings, which is alpha and off by default", "turn the gate on")
	case MPS:
		add(sharing.WarnFeatureGate, "sharing.strategy", "nvidia-dra-driver", "needs the driver's feature gate MPSSupport, which is alpha and off by default, and excludes DynamicMIG and consumable shares", "turn the gate on")
		add(sharing.WarnClaimScope, "sharing.strategy", "nvidia-dra-driver", "each claim has an MPS daemon of its own: only containers and pods that use the same claim share the device", "let the pods name one ResourceClaim, not a template")
	}
	m := d.MPS
	if m == nil {
		return out
	}
	if m.ActiveThreadPercentage.Or(1) == 0 {
		add(sharing.WarnZeroPercentage, "sharing.mpsConfig.defaultActiveThreadPercentage", "nvidia-mps-man", "the DRA driver takes 0, the MPS daemon refuses it", "give 1 to 100, or leave the key out")
	}
	rounded := func(path string, b sharing.Bytes) {
		if b%sharing.MiB != 0 {
			add(sharing.WarnLimitRoundedDown, path, "nvidia-dra-driver", fmt.Sprintf("the driver rounds it down to %dMi", b.MiB()), "give whole mebibytes")
		}
	}
	rounded("sharing.mpsConfig.defaultPinnedDeviceMemoryLimit", m.PinnedMemory)
	for _, k := range slices.Sorted(maps.Keys(m.PerDevicePinnedMemory)) {
		rounded("sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit."+k, m.PerDevicePinnedMemory[k])
	}
	if d.MIG && (m.PinnedMemory > 0 || len(m.PerDevicePinnedMemory) > 0) {
		add(sharing.WarnMIGMemoryLimit, "sharing.mpsConfig", "nvidia-mig-guide-deployment", "EXCLUSIVE_PROCESS mode is not available on MIG devices, so a client that misses the daemon has the whole instance",
			"verify that each pod is a client of the daemon, and under which limit")
	}
	return out
}

// Node builds the document's YAML, which Marshal writes alone and a claim
// holds under opaque.parameters.
func (d *Document) Node() *yaml.Node {
	kind := gpuKind
	if d.MIG {
		kind = migKind
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
	return yamlnode.Map("apiVersion", apiVersion, "kind", kind, "sharing", sharing)
}

func (m *Limits) node() *yaml.Node {
	var pinned any
	if m.PinnedMemory != 0 {
		pinned = formatQuantity(m.PinnedMemory)
	}
	perDevice := make(map[string]string, len(m.PerDevicePinnedMemory))
	for k, v := range m.PerDevicePinnedMemory {
		perDevice[k] = formatQuantity(v)
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
