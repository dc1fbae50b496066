package decision

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/prospect"
	"github.com/cotenant/cotenant/sharing"
)

// bySize fills in the TPOT P99 alone by what the workload's model reads for a token, and says whether that is
// known. Of what memory alone is stated, that may be little of it: then it tells only where even all of it is read
// in less than what would be assumed otherwise.
func (o *outlook) bySize(w *Workload, m costs.Machine) bool {
	least, most, layers := w.reads()
	b := prospect.TokenAlone(m, least, most, layers, w.gpus())
	if b.Value == 0 || w.Model == nil && b.High > assumedAlone*o.demand.Limits[costs.LatencyTPOT] {
		return false
	}
	o.tokens = b
	o.demand.Alone[costs.LatencyTPOT], o.demand.AloneSigma[costs.LatencyTPOT] = b.Value, b.Sigma()
	of := fmt.Sprintf("%.3g GB of weights", least/1e9)
	if w.Model == nil {
		of = fmt.Sprintf("up to %.3g GB to read", most/1e9)
	}
	o.size = fmt.Sprintf("%s to %s ms, from %s and %.3g TB/s", about(1e3*b.Low), about(1e3*b.High), of,
		float64(w.gpus())*m.Bandwidth/1e12)
	o.assumes = append(o.assumes, Assumption{What: fmt.Sprintf("TPOT P99 of %s alone is %s", w.Name, o.size),
		Why: "solo is not stated, and the load does not tell", Basis: sharing.BasisPrior})
	return true
}

// leastOfMemory is the part of a server's stated memory that its weights take at least: the rest is KV cache. Those
// of the 1B of examples/predict/testdata are 13% of what its server took.
const leastOfMemory = 0.1

// reads are the bytes that a token reads at least, on all GPUs together, and with every sequence and the whole KV
// cache at most, and the layers; 0 where neither model nor memory is stated.
func (w *Workload) reads() (least, most, layers float64) {
	n := float64(w.gpus())
	if w.Model == nil {
		all, stated := w.Memory.Get()
		if !stated {
			return 0, 0, 0
		}
		most = n * float64(all)
		return leastOfMemory * most, most, priorLayers(int64(most / 2))
	}
	kv, stated := w.Model.KVCache.Get()
	cache := n * float64(kv)
	if !stated {
		prior, _ := w.kvNeed()
		cache = float64(prior)
	}
	return w.Model.weightBytes(w.Model.active()), w.Model.weightBytes(w.Model.Parameters) + cache, w.Model.depth()
}

// weightBytes returns the memory of so many of a model's parameters.
func (m *LanguageModel) weightBytes(parameters int64) float64 {
	return float64(parameters) * float64(halfBytes[m.Weights]) / 2
}

// active counts the parameters that one token uses.
func (m *LanguageModel) active() int64 { return cmp.Or(m.Active, m.Parameters) }

// depth is the model's layers, stated or a prior.
func (m *LanguageModel) depth() float64 {
	if n, stated := m.Layers.Get(); stated {
		return float64(n)
	}
	return priorLayers(m.Parameters)
}

// about is a figure of two digits, or a whole number.
func about(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}
