package discover

import "github.com/cotenant/cotenant/sharing"

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
			b.find("unhealthy-gpus", sharing.SeverityMedium, "node "+n.name, n.deliveryFrom.Source, "GPU %s is not healthy",
				d.ID)
		}
		if n.gpu == nil {
			continue
		}
		if known, ok := n.gpu.Memory.Get(); ok && sharing.Bytes(d.Memory)*sharing.MiB > known+known/12 {
			b.find("memory-oversubscribed", sharing.SeverityMedium, "node "+n.name, n.deliveryFrom.Source,
				"GPU %s is registered with %v, and a %s has %v: memory is handed out that is not there", d.ID,
				sharing.Bytes(d.Memory)*sharing.MiB, n.gpu.Name, known)
		}
	}
	if labelled := count(n.label("nvidia.com/gpu.count")); labelled > 0 && labelled != n.gpus {
		b.find("label-lies", sharing.SeverityMedium, "node "+n.name, "label nvidia.com/gpu.count",
			"%d GPUs are registered, and label nvidia.com/gpu.count says %d", n.gpus, labelled)
	}
}
