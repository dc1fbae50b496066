// SPDX-License-Identifier: Apache-2.0

// Package fleet holds a user's input: pools of GPUs, workloads, the present state of the cluster, and the arithmetic on
// single statements, such as the memory of a model. [ParseFleet] reads a fleet from strict YAML; package decision
// decides it. It is stable: its API changes incompatibly only with a new major version.
package fleet

import (
	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// Fleet is the input: GPU pools and workloads.
type Fleet struct {
	Version   string     `yaml:"version,required"` // "v1"
	Pools     []Pool     `yaml:"pools,required"`
	Workloads []Workload `yaml:"workloads,required"`
	Trust     Trust      `yaml:"trust"` // all = workloads without a tenant trust one another
	// Today is the present state of the cluster, for package migrate; nil for a fleet planned from scratch.
	Today *Cluster `yaml:"today"`
}

// Pool is a set of GPUs of one model.
type Pool struct {
	Name  string `yaml:"name,required"`
	GPU   string `yaml:"gpu,required"`   // product name, alias or PCI id; see sharing.LookupGPU; or a description, mapped
	Count int    `yaml:"count,required"` // GPUs in the pool

	// PricePerGPUHour, or NodePricePerHour with GPUsPerNode, gives the cost of
	// a GPU for an hour. Without either the decision has no cost.
	PricePerGPUHour  sharing.Optional[cost.Money] `yaml:"price_per_gpu_hour"`
	NodePricePerHour sharing.Optional[cost.Money] `yaml:"node_price_per_hour"`
	GPUsPerNode      sharing.Optional[int]        `yaml:"gpus_per_node"` // missing: GPUs are counted instead of nodes
	Owned            sharing.Optional[bool]       `yaml:"owned"`         // false = could be bought; default true
	Reserved         *Pricing                     `yaml:"reserved"`      // GPUs that are paid for, used or not
	Spot             *Pricing                     `yaml:"spot"`          // interruptible; for workloads with spot: true

	Driver sharing.Driver `yaml:"driver"` // zero = not known
	// Layouts are the present MIG layouts, one text per GPU ("3g.40gb@0,1g.10gb@4!busy"), for the traps of changing them.
	Layouts []string `yaml:"layouts"`

	// The remaining fields are used by the filter and for the detection of traps.
	Mechanisms       []sharing.Mechanism    `yaml:"mechanisms"` // allowed here; empty = all
	Delivery         sharing.Delivery       `yaml:"delivery"`   // DeliveryBare = not stated: the device plugin
	Standalone       bool                   // delivery none in a file: a machine without an orchestrator
	VGPU             bool                   `yaml:"vgpu"`              // hypervisor with vGPU manager and licences
	VGPUType         string                 `yaml:"vgpu_type"`         // e.g. A100D-10C; for the manifests
	Platform         string                 `yaml:"platform"`          // e.g. eks-managed
	InstanceType     string                 `yaml:"instance_type"`     // e.g. g6e.2xlarge
	StaticPartitions sharing.Optional[bool] `yaml:"static_partitions"` // MPS static SM partitions are on
	MPSProtocol      int                    `yaml:"mps_protocol"`      // of the control daemon, 2 or 3; 0 = not stated
	Timeslice        timeslice.Level        `yaml:"timeslice"`         // compute policy: default, short, medium or long
	CPUNodes         *CPUNodes              `yaml:"cpu_nodes"`         // CPU nodes in addition to the GPU nodes
}

// decode reads a pool. A file writes two of its fields otherwise than their packages do.
func (p *Pool) decode(d *strictyaml.Decoder, path string, n *yaml.Node) {
	type plain Pool
	var file struct {
		plain
		GPU       gpuText `yaml:"gpu,required"`
		Delivery  string  `yaml:"delivery"`
		Timeslice string  `yaml:"timeslice"`
	}
	d.Value(path, n, &file)
	*p = Pool(file.plain)
	p.GPU = string(file.GPU)
	switch file.Delivery {
	case "":
	case "none", "bare":
		p.Standalone = true
	default:
		if err := p.Delivery.UnmarshalText([]byte(file.Delivery)); err != nil {
			d.Addf(path+".delivery", n, "", "%v", err)
		}
	}
	if p.MPSProtocol != 0 && p.MPSProtocol != 2 && p.MPSProtocol != 3 {
		d.Addf(path+".mps_protocol", n, "use 2 or 3", "%d is out of range", p.MPSProtocol)
	}
	if file.Timeslice != "" {
		if err := levelNames.Parse(&p.Timeslice, []byte(file.Timeslice)); err != nil {
			d.Addf(path+".timeslice", n, "", "%v", err)
		}
	}
}

// gpuText is a GPU's name, or its description in one text.
type gpuText string

// decode reads a name or a mapping that describes a GPU.
func (g *gpuText) decode(d *strictyaml.Decoder, path string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.Value(path, n, (*string)(g))
		return
	}
	var v sharing.GPUDescription
	d.Value(path, n, &v)
	*g = gpuText(v.String())
}

var levelNames = enum.Of[timeslice.Level](sharing.ErrUnknownName, "time slice", "default", "short", "medium", "long")

// TimesliceName returns the pool's time slice as written in files.
func (p *Pool) TimesliceName() string { return levelNames.String(p.Timeslice) }

// CPUNodes are CPU nodes that are charged in addition to the GPU nodes.
type CPUNodes struct {
	Dedicated    int        `yaml:"dedicated"` // counted on the dedicated side
	Shared       int        `yaml:"shared"`    // counted on the shared side
	PricePerHour cost.Money `yaml:"price_per_hour,required"`
}

// Workload describes equal replicas and their needs.
type Workload struct {
	Name     string   `yaml:"name,required"` // or namespace/name
	Kind     Kind     `yaml:"kind,required"`
	Replicas Replicas `yaml:"replicas"`     // default 1
	GPUs     int      `yaml:"gpus,nonzero"` // per replica (tensor parallel); default 1

	// Memory is the total per GPU; without it, it is computed from Model. With neither it is unknown, and the workload
	// gets whole GPUs, provisionally.
	Memory sharing.Optional[sharing.Bytes] `yaml:"memory"`
	Model  *LanguageModel                  `yaml:"model"`

	GPUBusy  sharing.Optional[float64] `yaml:"gpu_busy"`  // mean share of a whole GPU that one replica uses, 0 to 1
	PeakBusy sharing.Optional[float64] `yaml:"peak_busy"` // the same at its peak, when others do not peak
	// PeaksTogether is set if the replicas peak at the same time, such as the notebooks of a class.
	PeaksTogether bool      `yaml:"peaks_together"`
	Load          *Traffic  `yaml:"load"`    // its traffic
	Service       *Service  `yaml:"service"` // of a server without tokens
	Adapters      *Adapters `yaml:"adapters"`
	Video         *Video    `yaml:"video"` // its use of the video engines
	Spot          bool      `yaml:"spot"`  // may run on interruptible GPUs
	// Priority, 0 to 9, decides which replicas get a place if GPUs run short: all replicas of a higher priority come
	// before those of a lower one. Absent: 6 for online inference, 2 for notebooks, 4 for the rest.
	Priority sharing.Optional[int] `yaml:"priority"`
	Evidence Evidence              `yaml:"evidence"` // the source of gpu_busy

	Framework *Framework  `yaml:"framework"`
	Job       *Job        `yaml:"job"`  // of finite work with a deadline
	SLO       profile.SLO `yaml:"slo"`  // token latencies for model servers, end-to-end latency for all but training
	Solo      profile.SLO `yaml:"solo"` // the same percentiles, measured in isolation on a whole GPU
	// SoloOn and BusyOn name the GPUs on which Solo and GPUBusy were measured: the key "on" of a mapping in files, where
	// gpu_busy then has a mean, and may have a peak. On other GPUs the figures are transferred. Empty: the GPU of the
	// fleet if it has only one kind, of the pinned pool, or of today; else unknown.
	SoloOn, BusyOn string

	Tenant    string    `yaml:"tenant"` // workloads of one tenant trust one another; empty: see Fleet.Trust
	Trust     []string  `yaml:"trust"`  // other tenants that may share with it; both sides must state it
	Isolation Isolation `yaml:"isolation"`
	Pool      string    `yaml:"pool"` // pin

	Today   *Today                `yaml:"today"`   // how it runs now
	Profile *profile.ProfileRef   `yaml:"profile"` // its measured profile; see decision.Options.Profiles
	Request *Asked                `yaml:"request"` // its team's request, or its present GPUs
	Env     map[string]string     `yaml:"env"`     // environment variables of its containers
	UID     sharing.Optional[int] `yaml:"uid"`     // user id its processes run under
	// Scheduling holds its pods' requirements on nodes, for plans of a running cluster.
	Scheduling *Scheduling `yaml:"scheduling"`
}

// decode reads a workload; its figures may name the GPU that they were measured on.
func (w *Workload) decode(d *strictyaml.Decoder, path string, n *yaml.Node) {
	type plain Workload
	var file struct {
		plain
		Solo struct {
			profile.SLO
			On string `yaml:"on"`
		} `yaml:"solo"`
		GPUBusy busyOn `yaml:"gpu_busy"`
	}
	d.Value(path, n, &file)
	busy := &file.GPUBusy
	*w = Workload(file.plain)
	w.Solo, w.SoloOn, w.GPUBusy, w.BusyOn = file.Solo.SLO, file.Solo.On, busy.Mean, busy.On
	if !busy.Peak.IsZero() {
		if !w.PeakBusy.IsZero() {
			d.Addf(path+".peak_busy", n, "keep one of the two", "contradicts gpu_busy.peak")
		}
		w.PeakBusy = busy.Peak
	}
}

// busyOn is a busy share, optionally with the GPU that it was measured on.
type busyOn struct {
	On   string                    `yaml:"on,required"`
	Mean sharing.Optional[float64] `yaml:"mean,required"`
	Peak sharing.Optional[float64] `yaml:"peak"`
}

// decode reads a number, or a mapping.
func (b *busyOn) decode(d *strictyaml.Decoder, path string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.Value(path, n, &b.Mean)
		return
	}
	type plain busyOn
	d.Value(path, n, (*plain)(b))
}

// LanguageModel describes the model of a model server, to compute its memory: by parameters and their precision, or by
// Config; stated figures take precedence.
type LanguageModel struct {
	// Draft counts the parameters of a draft model for speculative decoding, of the same precision, in the same memory.
	Draft      int64     `yaml:"draft_parameters,nonzero"`
	Config     string    `yaml:"config,nonzero"` // path of the model's config.json, from the fleet's file
	Parameters int64     `yaml:"parameters"`     // 8e9; this and Weights, or Config
	Weights    Precision `yaml:"weights"`
	// Active counts the parameters that one token uses in a mixture of experts; 0 = all.
	Active  int64                           `yaml:"active_parameters,nonzero"`
	KVCache sharing.Optional[sharing.Bytes] `yaml:"kv_cache"` // per GPU; absent = computed from load and shape, or a prior
	// Layers, KVHeads and HeadDim are the shape of the attention.
	Layers  sharing.Optional[int] `yaml:"layers"`
	KVHeads sharing.Optional[int] `yaml:"kv_heads"`
	HeadDim sharing.Optional[int] `yaml:"head_dim"`
	KVDtype Precision             `yaml:"kv_dtype"` // default: 16 bits

	// Further results of [ParseModelConfig]: Unquantized parameters keep 16 bits regardless of Weights, Embedding are
	// those of them in rows of embeddings that a token does not read; Size and ActiveSize are the bytes of all weights and
	// of those that a token reads, 0 = by Weights; Towers are the bytes of image encoders, included in Size; Cache is the
	// cache of a sequence.
	Unquantized, Embedding   int64
	Size, ActiveSize, Towers sharing.Bytes
	Cache                    KVShape
	Notes                    []string // parts of the config that were not understood, or have an unexpected effect
}

// KVShape is the cache of one sequence, counted layer by layer; zero = computed from layers, KV heads and head
// dimension.
type KVShape struct {
	Elements       int64 // of a token, in the layers that keep the whole context
	WindowElements int64 // of a token, in those that keep the last Window tokens
	Window         int
	Extra          int64 // further bytes of a token, regardless of the cache's type: an indexer's keys
	State          int64 // bytes of a sequence, regardless of its length: linear attention, Mamba, convolutions
}

// decode reads a model, which needs its parameters and weights where it names no config.
func (m *LanguageModel) decode(d *strictyaml.Decoder, path string, n *yaml.Node) {
	type plain LanguageModel
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "config" {
			d.Value(path, n, (*plain)(m))
			return
		}
	}
	var file struct {
		plain
		Parameters int64     `yaml:"parameters,required"`
		Weights    Precision `yaml:"weights,required"`
	}
	d.Value(path, n, &file)
	*m = LanguageModel(file.plain)
	m.Parameters, m.Weights = file.Parameters, file.Weights
}

// Framework is the model server or training framework of a workload.
type Framework struct {
	Name           string                    `yaml:"name,required"`   // vllm, tgi, sglang, pytorch, ...
	MemoryFraction sharing.Optional[float64] `yaml:"memory_fraction"` // of the visible GPU memory, 0 to 1
	CUDAGraphs     sharing.Optional[bool]    `yaml:"cuda_graphs"`
	Processes      int                       `yaml:"processes"` // per replica; default 1
	Privileged     bool                      `yaml:"privileged"`
	StaticCUDA     bool                      `yaml:"static_cuda"`              // bypasses the dynamic linker
	MaxPrefill     int                       `yaml:"max_batch_prefill_tokens"` // of TGI
}

// Isolation holds a workload's required isolation from its neighbours, by axis. LevelUnknown, the zero value, requires
// nothing.
type Isolation struct {
	Memory  sharing.Level `yaml:"memory"`
	Compute sharing.Level `yaml:"compute"`
	Fault   sharing.Level `yaml:"fault"`
	Jitter  sharing.Level `yaml:"jitter"`
}

// Level returns the required level on one axis.
func (i Isolation) Level(a sharing.Axis) sharing.Level {
	return [sharing.AxisCount]sharing.Level{sharing.AxisMemory: i.Memory, sharing.AxisCompute: i.Compute,
		sharing.AxisFault: i.Fault, sharing.AxisJitter: i.Jitter}[a]
}

// Today states a workload's present mechanism. A decision never weakens its isolation unless MayWeaken is set.
type Today struct {
	Mechanism sharing.Mechanism `yaml:"mechanism,required"`
	Profile   string            `yaml:"profile"` // MIG profile
	MayWeaken bool              `yaml:"may_weaken"`
	Object    string            `yaml:"object"`    // the kind of object that creates its pods, such as StatefulSet
	Container string            `yaml:"container"` // its container with the GPUs
	// Stays is the reason why it must stay in place regardless of the gain; empty if it may move.
	Stays string `yaml:"stays"`
}

// Asked records a team's request, or its present state: its traps are reported even if the decision differs. New
// workloads of a running cluster get MIG instances of the requested profile, and nothing else.
type Asked struct {
	Mechanism    sharing.Mechanism `yaml:"mechanism,required"`
	Profile      string            `yaml:"profile"`                  // MIG profile
	Replicas     int               `yaml:"replicas_per_gpu,nonzero"` // shares that one GPU advertises
	SharedGPUs   int               `yaml:"shared_gpus,nonzero"`      // shares that one replica requests
	MPSNamespace string            `yaml:"mps_namespace"`            // MPS v3 namespace
	Cores        int               `yaml:"cores_percent"`            // HAMi gpucores
}

// Price returns the on-demand price of a GPU of the pool per hour, and whether it is stated.
func (p *Pool) Price() (cost.Money, bool) {
	if price, stated := p.PricePerGPUHour.Get(); stated {
		return price, true
	}
	node, stated := p.NodePricePerHour.Get()
	gpus, known := p.GPUsPerNode.Get()
	if !stated || !known {
		return cost.Money{}, false
	}
	m, err := node.MulFrac(1, int64(gpus))
	return m, err == nil
}
