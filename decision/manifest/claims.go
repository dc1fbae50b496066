package manifest

import (
	"fmt"
	"math"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// draProduct is the product name that DRA devices of the group end with, or
// "" for any.
func (g *Group) draProduct() string {
	if gpu, err := sharing.LookupGPU(g.GPU); err == nil {
		return gpu.Name
	}
	return ""
}

// draFiles writes the group's claims and the pods that use them.
func (f *Fleet) draFiles(g *Group) ([]File, []sharing.Warning, error) {
	var out []File
	var ws []sharing.Warning
	if shared(g.Mechanism) {
		return f.sharedClaims(g)
	}
	for i := range f.Workloads {
		w := &f.Workloads[i]
		if f.group(w) != g {
			continue
		}
		c := Claim{Name: w.Name, Namespace: w.Namespace, Template: true, GPU: g.draProduct(), Profile: w.Profile, Count: w.gpus()}
		doc, err := c.node()
		if err != nil {
			return nil, nil, err
		}
		p, more := g.newPod(w)
		p.claim = &c
		file, err := p.file("dra/pods/"+w.file()+".yaml", w, g, "a claim of its own for each pod", doc)
		if err != nil {
			return nil, nil, err
		}
		out, ws = append(out, file), append(ws, more...)
	}
	return out, ws, nil
}

// seat is how many pods of a workload share one device.
type seat struct {
	w    *Workload
	pods int
}

// device is a GPU, or a MIG instance, and who sits on it.
type device struct {
	profile string
	seats   []seat
}

// devices seats the group's workloads on its devices: as the layouts say, or,
// where they name no tenants, in the order of the fleet.
func (f *Fleet) devices(g *Group) ([]device, []sharing.Warning) {
	named := slices.ContainsFunc(g.Layouts, func(l Layout) bool { return len(l.Tenants) > 0 })
	if named && !usesMIG(g.Mechanism) {
		var out []device
		for _, l := range g.Layouts {
			for range l.gpus() {
				var d device
				for _, t := range l.Tenants {
					for i := range f.Workloads {
						if w := &f.Workloads[i]; w.Name == t.Workload && f.group(w) == g {
							d.seats = append(d.seats, seat{w, t.Replicas})
						}
					}
				}
				out = append(out, d)
			}
		}
		return out, nil
	}
	out := g.emptyDevices()
	var ws []sharing.Warning
	free := make([]int, len(out))
	for i := range free {
		free[i] = g.clients()
	}
	for i := range f.Workloads {
		w := &f.Workloads[i]
		if f.group(w) != g {
			continue
		}
		left := w.replicas()
		for j := range out {
			if n := min(left, free[j]); n > 0 && out[j].profile == w.Profile {
				out[j].seats = append(out[j].seats, seat{w, n})
				left, free[j] = left-n, free[j]-n
			}
		}
		if left > 0 {
			ws = append(ws, sharing.Warning{Code: WarnUnplacedTenants, Path: w.Name, Source: "nvidia-dra-driver",
				Message: fmt.Sprintf("the devices of %s have no room for %d of its %d pods", g.Key(), left, w.replicas()),
				Remedy:  "add GPUs to the group, or let more clients share each"})
		}
	}
	return out, ws
}

func (g *Group) emptyDevices() []device {
	var out []device
	if !usesMIG(g.Mechanism) {
		return make([]device, g.GPUs)
	}
	for _, l := range g.Layouts {
		for range l.gpus() {
			for _, c := range counts(l.Instances) {
				for range c.N {
					out = append(out, device{profile: c.Profile})
				}
			}
		}
	}
	return out
}

// maxClaims is how many shared GPUs of a group are given claims: more than
// anybody can look after by name.
const maxClaims = 1000

// sharedClaims writes one ResourceClaim for each device, which its tenants'
// pods all name. A claim belongs to one namespace.
func (f *Fleet) sharedClaims(g *Group) ([]File, []sharing.Warning, error) {
	if g.GPUs > maxClaims {
		return nil, []sharing.Warning{{Code: WarnClaimsLeftOut, Path: g.Key(), Source: "nvidia-dra-driver",
			Message: fmt.Sprintf("no claims are written: sharing %d GPUs by DRA takes a named claim for each", g.GPUs),
			Remedy:  "deliver by the device plugin, or divide the pool"}}, nil
	}
	devices, ws := f.devices(g)
	claims := map[string][]*yaml.Node{} // workload file to documents
	pods := map[string][]*yaml.Node{}
	headers := map[string][]string{}
	devicesOf := map[string]int{}
	for _, d := range devices {
		for _, s := range d.seats {
			devicesOf[s.w.Name]++
		}
	}
	split := 0
	for i, d := range devices {
		var namespaces []string
		for _, s := range d.seats {
			if !slices.Contains(namespaces, s.w.Namespace) {
				namespaces = append(namespaces, s.w.Namespace)
			}
		}
		split += max(len(namespaces)-1, 0)
		for n, ns := range namespaces {
			var tenants []seat
			for _, s := range d.seats {
				if s.w.Namespace == ns {
					tenants = append(tenants, s)
				}
			}
			c := Claim{Name: fmt.Sprintf("%s-%d", g.Key(), i), Namespace: ns, GPU: g.draProduct(), Profile: d.profile, Config: g.deviceConfig(tenants)}
			if n > 0 {
				c.Name += fmt.Sprintf("-%d", n)
			}
			doc, err := c.node()
			if err != nil {
				return nil, nil, err
			}
			claims[g.Key()] = append(claims[g.Key()], doc)
			for _, s := range tenants {
				p, more := g.newPod(s.w)
				p.claim, p.replicas = &c, s.pods
				if devicesOf[s.w.Name] > 1 {
					p.name = fmt.Sprintf("%s-%d", s.w.Name, len(pods[s.w.file()]))
					p.header = append(p.header, "One Deployment for each device: pods that name the same claim share it.")
				}
				if _, seen := headers[s.w.file()]; !seen {
					ws = append(ws, more...)
					headers[s.w.file()] = p.header
				}
				pods[s.w.file()] = append(pods[s.w.file()], p.node(s.w, g))
			}
		}
	}
	if split > 0 {
		ws = append(ws, sharing.Warning{Code: WarnClaimNamespaces, Path: g.Key(), Source: "nvidia-dra-driver",
			Message: fmt.Sprintf("a claim belongs to one namespace: tenants of several namespaces on one device take %d more device(s)", split),
			Remedy:  "put tenants that share a device into one namespace, or deliver by the device plugin"})
	}
	var out []File
	add := func(path, note string, header []string, docs []*yaml.Node) error {
		b, err := yamlnode.Encode(header, docs...)
		out = append(out, File{Path: path, Data: b, Note: note})
		return err
	}
	if docs := claims[g.Key()]; len(docs) > 0 {
		if err := add("dra/claims/"+g.Key()+".yaml", fmt.Sprintf("%d claim(s), one for each shared device", len(docs)), nil, docs); err != nil {
			return nil, nil, err
		}
	}
	for _, file := range sortedKeys(pods) {
		if err := add("dra/pods/"+file+".yaml", "pods that share the claims of "+g.Key(), headers[file], pods[file]); err != nil {
			return nil, nil, err
		}
	}
	return out, ws, nil
}

// deviceConfig is the parameters of a shared device. The daemon's defaults
// hold for every client, so they are the most that any tenant may have; each
// pod's environment tightens its own.
func (g *Group) deviceConfig(tenants []seat) *DeviceConfig {
	if g.Mechanism == sharing.MechanismTimeSlicing {
		return &DeviceConfig{TimeSlicing: &timeslice.DRAConfig{}}
	}
	c := &mps.DRAConfig{MIGDevice: usesMIG(g.Mechanism)}
	percent, allPercent, allMemory := 0.0, true, true
	for _, s := range tenants {
		percent = max(percent, s.w.ComputePercent)
		allPercent = allPercent && s.w.ComputePercent > 0
		allMemory = allMemory && s.w.Memory > 0
		c.DefaultPinnedDeviceMemoryLimit = max(c.DefaultPinnedDeviceMemoryLimit, g.processLimit(s.w))
	}
	if allPercent {
		n := int(math.Ceil(percent))
		c.DefaultActiveThreadPercentage = &n
	}
	if !allMemory {
		c.DefaultPinnedDeviceMemoryLimit = 0
	}
	return &DeviceConfig{MPS: c}
}
