package pluginconf

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/yamlnode"
)

// Validate returns every reason why the plugin would refuse the document.
func (d *Document) Validate() error {
	var l problem.List
	d.check(&l)
	return l.Err()
}

func (d *Document) check(l *problem.List) {
	oneOf(l, "flags.migStrategy", d.Flags.MIGStrategy, "none", "single", "mixed")
	oneOf(l, "flags.plugin.deviceIDStrategy", d.Flags.DeviceIDStrategy, "uuid", "index")
	oneOf(l, "flags.plugin.sharedDevicesAllocationPolicy", d.Flags.SharedDevicesAllocationPolicy, "distributed", "packed")
	for i, s := range d.Flags.DeviceListStrategy {
		oneOf(l, fmt.Sprintf("flags.plugin.deviceListStrategy[%d]", i), s, "envvar", "volume-mounts", "cdi-annotations", "cdi-cri")
	}
	if d.MPS != nil {
		CheckMPS(l, "sharing.mps", d.MPS)
		if d.Flags.MIGStrategy == "mixed" {
			l.Addf("flags.migStrategy", `set it to "none"; share MIG devices by MPS through the DRA driver`,
				"the plugin refuses MPS together with the mixed MIG strategy")
		}
	}
	if d.TimeSlicing != nil {
		CheckTimeSlicing(l, "sharing.timeSlicing", d.TimeSlicing)
	}
}

func oneOf(l *problem.List, path, value string, allowed ...string) {
	if value == "" || slices.Contains(allowed, value) {
		return
	}
	remedy := "one of " + strings.Join(allowed, ", ")
	if near := problem.Nearest(value, allowed); near != "" {
		remedy = fmt.Sprintf("did you mean %q?", near)
	}
	l.Addf(path, remedy, "%q is not known to the plugin", value)
}

// CheckMPS records what is wrong with an MPS block.
func CheckMPS(l *problem.List, path string, b *Block) {
	checkBlock(l, path, b, func(at string, name string) {
		switch {
		case name == GPU:
		case strings.HasPrefix(name, MIGPrefix):
			l.Addf(at, "share MIG devices by MPS through the DRA driver", "the plugin does not share MIG devices by MPS")
		default:
			l.Addf(at, "write "+GPU, "the plugin shares only %s by MPS, not %q", GPU, name)
		}
	})
}

var migResource = regexp.MustCompile(`^nvidia\.com/mig-[0-9]+(c\.[0-9]+)?g\.[0-9]+gb([.-][a-z0-9.]*[a-z0-9])?$`)

// CheckTimeSlicing records what is wrong with a time-slicing block.
func CheckTimeSlicing(l *problem.List, path string, b *Block) {
	checkBlock(l, path, b, func(at string, name string) {
		if name != GPU && !migResource.MatchString(name) {
			l.Addf(at, "write "+GPU+" or a MIG resource such as "+MIGPrefix+"1g.10gb",
				"the plugin offers no resource %q", name)
		}
	})
}

func checkBlock(l *problem.List, path string, b *Block, checkName func(at, name string)) {
	if len(b.Resources) == 0 {
		l.Addf(path+".resources", "name the resource to replicate, for example "+GPU, "has no entry")
	}
	first := map[string]int{}
	for i, r := range b.Resources {
		at := fmt.Sprintf("%s.resources[%d]", path, i)
		checkName(at+".name", r.Name)
		if j, dup := first[r.Name]; dup {
			l.Addf(at+".name", "keep one of them", "%s stands in resources[%d] already", r.Name, j)
		} else {
			first[r.Name] = i
		}
		if r.Replicas < 2 {
			l.Addf(at+".replicas", "leave the block out to share nothing", "must be 2 or more, not %d", r.Replicas)
		}
	}
}

// Marshal writes the document as the plugin reads it, under the comment lines
// of header. It validates first.
func (d *Document) Marshal(header ...string) ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	f := d.Flags
	doc := yamlnode.Map("version", "v1",
		"flags", yamlnode.Map(
			"migStrategy", optional(f.MIGStrategy), "failOnInitError", f.FailOnInitError, "mpsRoot", optional(f.MPSRoot),
			"nvidiaDriverRoot", optional(f.NvidiaDriverRoot), "nvidiaDevRoot", optional(f.NvidiaDevRoot),
			"gdsEnabled", f.GDSEnabled, "mofedEnabled", f.MOFEDEnabled, "useNodeFeatureAPI", f.UseNodeFeatureAPI,
			"deviceDiscoveryStrategy", optional(f.DeviceDiscoveryStrategy),
			"plugin", yamlnode.Map(
				"passDeviceSpecs", f.PassDeviceSpecs, "deviceListStrategy", f.DeviceListStrategy,
				"deviceIDStrategy", optional(f.DeviceIDStrategy), "cdiAnnotationPrefix", optional(f.CDIAnnotationPrefix),
				"nvidiaCTKPath", optional(f.NvidiaCTKPath), "containerDriverRoot", optional(f.ContainerDriverRoot),
				"sharedDevicesAllocationPolicy", optional(f.SharedDevicesAllocationPolicy)),
			"gfd", yamlnode.Map(
				"oneshot", f.Oneshot, "noTimestamp", f.NoTimestamp, "sleepInterval", optional(f.SleepInterval),
				"outputFile", optional(f.OutputFile), "machineTypeFile", optional(f.MachineTypeFile))),
		"sharing", yamlnode.Map("timeSlicing", node(d.TimeSlicing), "mps", node(d.MPS)))
	return yamlnode.Encode(header, doc)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func node(b *Block) any {
	if b == nil {
		return nil
	}
	var rename *bool
	if b.RenameByDefault {
		rename = &b.RenameByDefault
	}
	list := yamlnode.List()
	for _, r := range b.Resources {
		list.Content = append(list.Content, yamlnode.Map("name", r.Name, "replicas", r.Replicas))
	}
	return yamlnode.Map("renameByDefault", rename, "failRequestsGreaterThanOne", b.FailRequestsGreaterThanOne, "resources", list)
}
