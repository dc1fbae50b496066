package dra

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/sharing/driverconf"
)

const driver = "gpu.nvidia.com"

// exactly is the request for a device: its class says what it is, and selectors what else the pod needs of it.
func (w *writer) exactly(asked *kubegpu.Pod, d *kubegpu.Device) *resourcev1.ExactDeviceRequest {
	r := &resourcev1.ExactDeviceRequest{DeviceClassName: w.class(d),
		AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: int64(len(d.GPUs))}
	if d.Profile == "" && asked.GPUMemory > 0 {
		r.Selectors = append(r.Selectors, cel(fmt.Sprintf("device.capacity['%s'].memory.compareTo(quantity('%s')) >= 0",
			driver, resource.NewQuantity(int64(asked.GPUMemory), resource.BinarySI))))
	}
	return r
}

// class returns the name of the class of a device, and makes it.
func (w *writer) class(d *kubegpu.Device) string {
	name, expression := "gpu", fmt.Sprintf("device.driver == '%s' && device.attributes['%s'].type == 'gpu'", driver,
		driver)
	if d.Profile != "" {
		name = "mig-" + d.Profile
		expression = fmt.Sprintf("device.driver == '%s' && device.attributes['%s'].type == 'mig' && "+
			"device.attributes['%s'].profile == %s", driver, driver, driver, celString(d.Profile))
	}
	if d.Model != "" {
		name += "-" + d.Model
		expression += fmt.Sprintf(" && device.attributes['%s'].productName.endsWith(%s)", driver, celString(d.Model))
	}
	name = limited("cotenant-" + name)
	if w.classes[name] == nil {
		w.classes[name] = &resourcev1.DeviceClass{TypeMeta: typeOf("DeviceClass"), ObjectMeta: metaOf("", name),
			Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{cel(expression)}}}
	}
	return name
}

func cel(expression string) resourcev1.DeviceSelector {
	return resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}
}

// celString writes a string literal of CEL.
func celString(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`).Replace(s) + "'"
}

// finish writes the shared claims and orders everything.
func (w *writer) finish() (*Output, error) {
	for _, key := range w.order {
		c := w.shared[key]
		config, err := c.config()
		if err != nil {
			return nil, fmt.Errorf("claim %s: %w", key, err)
		}
		request := resourcev1.DeviceRequest{Name: "gpu", Exactly: w.exactly(&kubegpu.Pod{}, c.device)}
		if !c.stray {
			w.pin(request.Exactly, c.node, c.device)
		}
		w.out.Claims = append(w.out.Claims, &resourcev1.ResourceClaim{TypeMeta: typeOf("ResourceClaim"),
			ObjectMeta: metaOf(c.namespace, c.name),
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{request},
				Config: config}}})
	}
	for _, name := range slices.Sorted(maps.Keys(w.classes)) {
		w.out.Classes = append(w.out.Classes, w.classes[name])
	}
	byName := func(a, b metav1.Object) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	}
	slices.SortFunc(w.out.Claims, func(a, b *resourcev1.ResourceClaim) int { return byName(a, b) })
	slices.SortFunc(w.out.Templates, func(a, b *resourcev1.ResourceClaimTemplate) int { return byName(a, b) })
	slices.SortFunc(w.out.Pods, func(a, b *v1.Pod) int { return byName(a, b) })
	for _, p := range w.out.Pods {
		p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	}
	return w.out, nil
}

// config is the driver's parameters for those who share. MPS's defaults hold for every client, so they are the most
// that any of them has; each tightens its own in its environment.
func (c *sharedClaim) config() ([]resourcev1.DeviceClaimConfiguration, error) {
	var dc driverconf.DRA
	switch c.device.Mechanism {
	case sharing.MechanismMPS:
		percent, memory, all := 0, sharing.Bytes(0), true
		for _, m := range c.members {
			percent = max(percent, threads(m.device))
			memory = max(memory, m.device.Memory)
			all = all && m.device.Memory > 0
		}
		dc.Strategy, dc.MPS = driverconf.MPS, &driverconf.Limits{ActiveThreadPercentage: driverconf.Some(percent)}
		if all {
			dc.MPS.PinnedMemory = driverconf.Quantity(memory)
		}
		for _, m := range c.members {
			if own := threads(m.device); own < percent {
				setEnv(m.pod, mps.EnvThreads, strconv.Itoa(own))
			}
		}
	case sharing.MechanismTimeSlicing:
		dc.Strategy, dc.Interval = driverconf.TimeSlicing, "Default"
	default:
		return nil, nil
	}
	doc, err := dc.Marshal()
	if err != nil {
		return nil, err
	}
	raw, err := yaml.YAMLToJSON(doc)
	if err != nil {
		return nil, err
	}
	return []resourcev1.DeviceClaimConfiguration{{Requests: []string{"gpu"},
		DeviceConfiguration: resourcev1.DeviceConfiguration{
			Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: driver, Parameters: runtime.RawExtension{Raw: raw}}}}}, nil
}

// threads is the active thread percentage of a share.
func threads(d *kubegpu.Device) int { return int(math.Ceil(float64(d.Milli) / 10)) }

// setEnv sets a variable in the containers that use a claim, but for those that set it themselves.
func setEnv(p *v1.Pod, name, value string) {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if len(c.Resources.Claims) > 0 && !slices.ContainsFunc(c.Env, func(e v1.EnvVar) bool { return e.Name == name }) {
			c.Env = append(c.Env, v1.EnvVar{Name: name, Value: value})
		}
	}
}

// stripResources takes out of a pod what the device plugin or HAMi would serve.
func stripResources(p *v1.Pod) {
	strip := func(l v1.ResourceList) {
		maps.DeleteFunc(l, func(name v1.ResourceName, _ resource.Quantity) bool {
			return strings.HasPrefix(string(name), "nvidia.com/") || name == kubegpu.ResourceMilli
		})
	}
	for _, cs := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range cs {
			strip(cs[i].Resources.Requests)
			strip(cs[i].Resources.Limits)
		}
	}
}

// use lets a container of the pod use a claim.
func use(p *v1.Pod, name, container string, claim v1.PodResourceClaim) {
	claim.Name = name
	p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, claim)
	for _, cs := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range cs {
			if cs[i].Name == container {
				cs[i].Resources.Claims = append(cs[i].Resources.Claims, v1.ResourceClaim{Name: name})
			}
		}
	}
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: resourcev1.SchemeGroupVersion.String(), Kind: kind}
}

func metaOf(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// limited folds a name to what Kubernetes takes of objects.
func limited(name string) string {
	folded := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '.':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	return strings.Trim(folded[:min(len(folded), 253)], "-.")
}

// YAML writes everything as one stream of documents: classes, claims, templates,
// pods. The same plan gives the same bytes.
func (o *Output) YAML() ([]byte, error) {
	docs, err := o.documents()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, doc := range docs {
		text, err := yaml.Marshal(doc)
		if err != nil {
			return nil, err
		}
		b.WriteString("---\n")
		b.Write(text)
	}
	return b.Bytes(), nil
}

// documents are the objects without what is the server's to write.
func (o *Output) documents() ([]map[string]any, error) {
	raw, err := json.Marshal(slices.Concat(boxed(o.Classes), boxed(o.Claims), boxed(o.Templates), boxed(o.Pods)))
	if err != nil {
		return nil, err
	}
	var docs []map[string]any
	if err := json.Unmarshal(raw, &docs); err != nil {
		return nil, err
	}
	for _, doc := range docs {
		delete(doc, "status")
		if meta, ok := doc["metadata"].(map[string]any); ok {
			for _, field := range []string{"creationTimestamp", "uid", "resourceVersion", "managedFields", "generation"} {
				delete(meta, field)
			}
		}
	}
	return docs, nil
}

func boxed[T any](objects []*T) (out []any) {
	for _, o := range objects {
		out = append(out, o)
	}
	return out
}
