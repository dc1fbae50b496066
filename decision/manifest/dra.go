package manifest

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/sharing/driverconf"
)

// Claim is a ResourceClaim or ResourceClaimTemplate (resource.k8s.io/v1) for the NVIDIA DRA driver, with one
// request. Pods that name the same ResourceClaim share its device; a template makes a claim of its own for each
// pod, so what it hands out is shared by the containers of one pod only.
type Claim struct {
	Name      string // up to 253 lower-case letters, digits and dashes
	Namespace string // "" leaves it out
	Template  bool
	Profile   string // a MIG device of this profile; "" is a whole GPU
	GPU       string // product name that the device's must end with; "" takes any
	Count     int    // devices; 0 stands for 1
	// Memory is consumed of each device, which other claims may then share: see the driver's feature gate
	// ConsumableShares. 0 leaves it out.
	Memory sharing.Bytes
	Config *driverconf.DRA // the driver's opaque parameters; nil leaves them out
}

var claimName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// Validate returns nil, or an error that matches ErrInvalid.
func (c Claim) Validate() error {
	var l problem.List
	l.If(len(c.Name) > 253 || !claimName.MatchString(c.Name), "name",
		"use up to 253 lower-case letters, digits and dashes, with a letter or digit at both ends",
		"%q is not a Kubernetes name", c.Name)
	if c.Namespace != "" {
		checkName(&l, "namespace", c.Namespace)
	}
	if c.Profile != "" {
		_, err := mig.ParseName(c.Profile)
		l.AddErr("profile", err)
	}
	l.If(strings.ContainsAny(c.GPU, "'\\\n"), "gpu", "write the product name as NVML prints it",
		"%q is not a product name", c.GPU)
	l.If(c.Count < 0, "count", "", "must be 1 or more, not %d", c.Count)
	l.If(c.Memory < 0, "memory", "", "must be 0 or more, not %d", c.Memory)
	if c.Config != nil {
		l.If(c.Config.MIGDevice != (c.Profile != ""), "config",
			"use a MigDeviceConfig for MIG devices and a GpuConfig for whole GPUs",
			"the driver ignores parameters of the other kind without a word")
		_, err := c.Config.Marshal()
		l.AddErr("config", err)
	}
	return invalid(l.Err())
}

// Marshal validates c and writes the document.
func (c Claim) Marshal() ([]byte, error) {
	n, err := c.node()
	if err != nil {
		return nil, err
	}
	return yamlnode.Encode(nil, n)
}

func (c Claim) node() (*yaml.Node, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	name, class := "gpu", "gpu.nvidia.com"
	var selectors []*yaml.Node
	cel := func(expr string) {
		selectors = append(selectors, yamlnode.Map("cel", yamlnode.Map("expression", expr)))
	}
	if c.Profile != "" {
		name, class = "mig", "mig.nvidia.com"
		cel(fmt.Sprintf("device.attributes['gpu.nvidia.com'].profile == '%s'", c.Profile))
	}
	if c.GPU != "" {
		cel(fmt.Sprintf("device.attributes['gpu.nvidia.com'].productName.endsWith('%s')", c.GPU))
	}
	var capacity any
	if c.Memory > 0 {
		capacity = yamlnode.Map("requests", yamlnode.Map("memory", fmt.Sprintf("%dMi", (c.Memory+sharing.MiB-1)/sharing.MiB)))
	}
	var config []*yaml.Node
	if c.Config != nil {
		b, err := c.Config.Marshal()
		if err != nil {
			return nil, invalid(err)
		}
		var parameters yaml.Node
		if err := yaml.Unmarshal(b, &parameters); err != nil {
			return nil, invalid(err)
		}
		config = append(config, yamlnode.Map("requests", []string{name},
			"opaque", yamlnode.Map("driver", "gpu.nvidia.com", "parameters", parameters.Content[0])))
	}
	spec := yamlnode.Map("devices", yamlnode.Map(
		"requests", yamlnode.List(yamlnode.Map("name", name, "exactly", yamlnode.Map(
			"deviceClassName", class, "selectors", selectors, "allocationMode", "ExactCount", "count", max(c.Count, 1),
			"capacity", capacity))),
		"config", config))
	kind := "ResourceClaim"
	if c.Template {
		kind, spec = "ResourceClaimTemplate", yamlnode.Map("spec", spec)
	}
	return yamlnode.Map("apiVersion", "resource.k8s.io/v1", "kind", kind,
		"metadata", metadata(c.Name, c.Namespace), "spec", spec), nil
}

func metadata(name, namespace string) *yaml.Node { return labelled(name, namespace, nil) }

func labelled(name, namespace string, labels map[string]string) *yaml.Node {
	var ns any
	if namespace != "" {
		ns = namespace
	}
	return yamlnode.Map("name", name, "namespace", ns, "labels", labels)
}

// request is the name of the claim's request.
func (c Claim) request() string {
	if c.Profile != "" {
		return "mig"
	}
	return "gpu"
}
