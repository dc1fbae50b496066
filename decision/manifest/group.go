package manifest

import (
	"math"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// group is the GPUs of a pool that share by one mechanism, as the decision has
// them. A pool may have several; a node belongs to one.
type group struct {
	decision.GroupResult
	pool    *decision.Pool
	gpu     *sharing.GPU
	model   *mig.Model // nil where the GPU has no MIG, or none is known
	key     string     // names the group's documents, and is its nodes' label
	at      string     // where it stands in the result
	members []*member
	view    *Group // what extensions see; nil without any
	planned bool   // a cluster that runs has it beside configurations of its own
}

// member is a workload on the group that the decision puts it on.
type member struct {
	*decision.Decision
	workload *decision.Workload
	group    *group
	name     string // the workload's, folded
	at       string // where it stands in the result
	pod      PodOptions
	memory   sharing.Bytes // the part of each GPU that a pod may use, in whole mebibytes; 0 sets no limit
	percent  float64       // of a GPU's compute that a pod may use; 0 sets no limit
	fraction float64       // the share of the GPU's memory that the framework was given and keeps; 0 computes one
}

// file is the name under which the workload's documents are written.
func (m *member) file() string {
	if m.pod.Namespace == "" {
		return m.name
	}
	return m.pod.Namespace + "." + m.name
}

func (m *member) container() string {
	if m.pod.Container != "" {
		return m.pod.Container
	}
	return m.name
}

func (m *member) framework() decision.Framework {
	if m.workload.Framework == nil {
		return decision.Framework{}
	}
	return *m.workload.Framework
}

// processes counts the CUDA processes of a pod; MPS limits each of them.
func (m *member) processes() int { return max(m.framework().Processes, 1) }

// gpus counts the GPUs or instances of each pod.
func (m *member) gpus() int { return max(m.GPUs, 1) }

// total is the memory that the processes see as the whole, or 0.
func (m *member) total() sharing.Bytes {
	if !usesMIG(m.Mechanism) {
		return m.group.memory()
	}
	return m.group.profileMemory(m.Profile)
}

// memory is the memory of one GPU, or 0.
func (g *group) memory() sharing.Bytes {
	b, _ := g.gpu.Memory.Get()
	return b
}

// profileMemory is the memory of an instance, or 0.
func (g *group) profileMemory(profile string) sharing.Bytes {
	if g.model == nil {
		return 0
	}
	p, err := g.model.Profile(profile)
	if err != nil {
		return 0
	}
	b, _ := p.Memory.Get()
	return b
}

// clients is the number of tenants that each GPU, or each instance under MPS on MIG, has room for: the most of any,
// and at least the 2 that the device plugin asks for.
func (g *group) clients() int {
	n := 0
	for _, l := range g.Layouts {
		tenants := 0
		for _, t := range l.Tenants {
			tenants += t.Replicas
		}
		n = max(n, tenants)
		for _, in := range l.Instances {
			n = max(n, in.Replicas)
		}
	}
	if n == 1 && g.Mechanism != sharing.MechanismMIGWithMPS {
		n = 2
	}
	return n
}

// nodes is the number of nodes that the group takes, or 0 where unknown.
func (g *group) nodes() int {
	n, known := g.pool.GPUsPerNode.Get()
	if !known {
		return 0
	}
	return (g.GPUs + n - 1) / n
}

func usesMPS(m sharing.Mechanism) bool {
	return m == sharing.MechanismMPS || m == sharing.MechanismMIGLikeEmulation || m == sharing.MechanismMIGWithMPS
}

func usesMIG(m sharing.Mechanism) bool {
	return m == sharing.MechanismMIG || m == sharing.MechanismMIGWithMPS
}

func usesHAMi(m sharing.Mechanism) bool {
	return m == sharing.MechanismHAMi || m == sharing.MechanismHAMiWithMPS
}

// shared reports whether the mechanism hands out replicas of a device, of which a pod takes exactly one.
func shared(m sharing.Mechanism) bool { return m == sharing.MechanismTimeSlicing || usesMPS(m) }

func isVGPU(m sharing.Mechanism) bool {
	return m == sharing.MechanismVGPU || m == sharing.MechanismMIGBackedVGPU
}

// newMember ties a decision to its group and says what limits it implies.
func newMember(d *decision.Decision, w *decision.Workload, g *group, name string, pod PodOptions) *member {
	m := &member{Decision: d, workload: w, group: g, name: name, pod: pod, percent: pod.ComputePercent}
	if m.pod.Namespace == "" {
		m.pod.Namespace, _ = spaced(d.Workload)
	}
	if d.Mechanism != sharing.MechanismExclusive {
		need := w.MemoryNeed()
		m.memory = (need.Under(d.Mechanism) + sharing.MiB - 1) / sharing.MiB * sharing.MiB
	}
	if m.percent == 0 {
		tenants := 1
		for _, c := range d.Candidates {
			if c.Chosen {
				tenants = max(1, c.Tenants)
			}
		}
		switch d.Mechanism {
		case sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
			m.percent = float64(100 / tenants)
		case sharing.MechanismMIGLikeEmulation:
			m.percent = 100 / float64(tenants)
		}
	}
	// Only on a GPU or slice of its own does the fraction stand; a share needs another.
	if f, stated := m.framework().MemoryFraction.Get(); stated && (d.Mechanism == sharing.MechanismExclusive ||
		d.Mechanism == sharing.MechanismMIG) {
		m.fraction = f
		if slice := g.profileMemory(d.Profile); slice > 0 {
			m.fraction = max(f, min(1, math.Ceil(100*float64(m.memory)/float64(slice))/100))
		}
	}
	return m
}
