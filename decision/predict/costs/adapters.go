package costs

import (
	"cmp"
	"math"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Projection is a linear layer of a decoder that a LoRA adapter may change.
type Projection uint8

// The projections of a decoder's layer.
const (
	ProjectionQ Projection = iota
	ProjectionK
	ProjectionV
	ProjectionO
	ProjectionGate
	ProjectionUp
	ProjectionDown
)

var projections = enum.Of[Projection](profile.ErrUnknownName, "projection", "q_proj", "k_proj", "v_proj", "o_proj",
	"gate_proj", "up_proj", "down_proj")

// Adapters are the LoRA adapters that a server can serve beside its base model. The zero value is a server without
// adapters; a request for one is then a request to the base model.
//
// The server keeps Slots of them on the GPU and HostSlots in the host's memory, the least recently used give way. A
// request whose adapter is on the host waits for Load, another one for Fetch as well; all others wait with it,
// since the server loads between two steps. When every slot is taken by an adapter in use, requests for others wait
// and later ones go first.
type Adapters struct {
	Slots     int          // on the GPU at once; 0 = no adapters
	HostSlots int          // in the host's memory; 0 = all that there are
	Rank      int          // of the slots; 0 = 16
	Targets   []Projection // nil = the four of the attention
	// Step lengthens each step of a server that has adapters at all, in ms,
	// and Each lengthens it for each distinct adapter in the batch beyond the first.
	Step, Each Cost
	Prefill    Cost // ms that a prefill with an adapter takes longer
	Load       Cost // ms to bring one from the host to the GPU
	Fetch      Cost // ms to bring one to the host, from disk or network
}

const usualRank = 16

// Bytes is the memory of one adapter of the model: two matrices of Rank times a projection's two widths for each
// target and layer, in 16 bits. Widths that the model does not state are inferred from its parameters.
func (a Adapters) Bytes(m Model) sharing.Bytes {
	rank := cmp.Or(a.Rank, usualRank)
	targets := a.Targets
	if targets == nil {
		targets = []Projection{ProjectionQ, ProjectionK, ProjectionV, ProjectionO}
	}
	widths := 0
	for _, t := range targets {
		in, out := m.widths(t)
		widths += in + out
	}
	return sharing.Bytes(2 * rank * widths * m.Layers)
}

// Memory returns the slots' memory on the GPU.
func (a Adapters) Memory(m Model) sharing.Bytes {
	if a.Slots == 0 {
		return 0
	}
	return sharing.Bytes(a.Slots) * a.Bytes(m)
}

// widths are a projection's inputs and outputs. A decoder without stated widths has about 12 x layers x hidden^2
// parameters, as many query heads as fill its width, and inner layers 3.5 times as wide.
func (m Model) widths(p Projection) (in, out int) {
	hidden := m.hidden()
	query, kv, inner := m.queryWidth(), m.KVHeads*m.HeadDim, m.Intermediate
	inner = cmp.Or(inner, hidden*7/2)
	if kv == 0 {
		kv = m.Latent
	}
	switch p {
	case ProjectionQ:
		return hidden, query
	case ProjectionK, ProjectionV:
		return hidden, kv
	case ProjectionO:
		return query, hidden
	case ProjectionDown:
		return inner, hidden
	}
	return hidden, inner
}

func (m Model) hidden() int {
	if m.Hidden > 0 {
		return m.Hidden
	}
	return int(math.Sqrt(m.ActiveParameters() / (12 * float64(max(m.Layers, 1)))))
}

func (m Model) queryWidth() int {
	if w := m.Heads * m.HeadDim; w > 0 {
		return w
	}
	return m.hidden()
}

// withPriors fills in what adapters cost where nobody measured it.
func (a Adapters) withPriors(m Model) Adapters {
	layers := float64(m.Layers)
	a.Step, a.Each = Named("lora_step_per_layer").Cost(layers), Named("lora_each_per_layer").Cost(layers)
	a.Prefill = Named("lora_prefill_per_layer").Cost(layers)
	gib := float64(a.Bytes(m)) / float64(sharing.GiB)
	a.Load, a.Fetch = Named("adapter_load").Cost(1), Named("adapter_fetch").Cost(1)
	a.Load.Value += Value("copy") * gib
	a.Fetch.Value += Value("disk") * gib
	return a
}

func (a *Adapters) check(list *problem.List, path string) {
	for _, n := range []struct {
		name    string
		v, most int
	}{{"slots", a.Slots, 100_000}, {"host_slots", a.HostSlots, 1 << 24}, {"rank", a.Rank, 4096}} {
		list.If(n.v < 0 || n.v > n.most, problem.Join(path, n.name), "", "must lie between 0 and %d, is %d", n.most, n.v)
	}
	list.If(a.HostSlots > 0 && a.HostSlots < a.Slots, problem.Join(path, "host_slots"),
		"an adapter on the GPU is in the host's memory too", "%d are fewer than the %d slots", a.HostSlots, a.Slots)
	for _, t := range a.Targets {
		list.If(!projections.Has(t), problem.Join(path, "targets"), "", "%v is no projection", t)
	}
}
