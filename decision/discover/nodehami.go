package discover

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

// hamiDevice is a GPU as HAMi's and Volcano's device plugins register it.
type hamiDevice struct {
	ID      string `json:"id"`
	Count   int    `json:"count"`  // pods that may share it
	Memory  int64  `json:"devmem"` // MiB, scaled
	Cores   int    `json:"devcore"`
	Type    string `json:"type"`
	Mode    string `json:"mode"` // hami-core, mps, mig
	Healthy *bool  `json:"health"`
}

// parseRegister reads a list of devices: JSON, or fields divided by commas and
// devices by colons (HAMi before 2.5 with seven fields, Volcano with five or six).
func parseRegister(text string) ([]hamiDevice, error) {
	var out []hamiDevice
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			return nil, fmt.Errorf("it is no list of devices: %w", err)
		}
		return out, nil
	}
	for part := range strings.SplitSeq(text, ":") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		f := strings.Split(part, ",")
		if len(f) < 5 {
			return out, fmt.Errorf("%.60q has %d fields; at least five belong there", part, len(f))
		}
		d := hamiDevice{ID: f[0]}
		var err1, err2 error
		d.Count, err1 = strconv.Atoi(f[1])
		d.Memory, err2 = strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil {
			return out, fmt.Errorf("%.60q: its shares and memory are no numbers", part)
		}
		if cores, err := strconv.Atoi(f[3]); err == nil && len(f) >= 6 {
			d.Cores, d.Type = cores, f[4]
		} else {
			d.Type = f[3]
			if len(f) > 5 {
				d.Mode = f[5]
			}
		}
		out = append(out, d)
	}
	return out, nil
}

// readRegistered reads the GPUs that HAMi or Volcano registered.
func (n *node) readRegistered(b *build) {
	n.mechanism, n.mechanismFrom = sharing.MechanismHAMi, n.deliveryFrom
	n.gpus, n.whole, n.gpusFrom = len(n.registered), len(n.registered), n.deliveryFrom
	for i := range n.registered {
		d := &n.registered[i]
		n.uuids = append(n.uuids, d.ID)
		n.replicas = max(n.replicas, d.Count)
		if d.Mode == "mps" {
			n.mechanism = sharing.MechanismHAMiWithMPS
		}
		if d.Mode == "mig" {
			n.inMIG, n.whole = n.inMIG+1, n.whole-1
		}
		if d.Healthy != nil && !*d.Healthy {
			b.find("unhealthy-gpus", sharing.SeverityMedium, "node "+n.name, n.deliveryFrom.Source, "GPU %s is not healthy", d.ID)
		}
		if n.gpu == nil {
			continue
		}
		if known, ok := n.gpu.Memory.Get(); ok && sharing.Bytes(d.Memory)*sharing.MiB > known+known/12 {
			b.find("memory-oversubscribed", sharing.SeverityMedium, "node "+n.name, n.deliveryFrom.Source,
				"GPU %s is registered with %v, and a %s has %v: memory is handed out that is not there", d.ID, sharing.Bytes(d.Memory)*sharing.MiB, n.gpu.Name, known)
		}
	}
	if labelled := count(n.label("nvidia.com/gpu.count")); labelled > 0 && labelled != n.gpus {
		b.find("label-lies", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/gpu.count", "%d GPUs are registered, and label nvidia.com/gpu.count says %d", n.gpus, labelled)
	}
}
