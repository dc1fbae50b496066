package decision

import "github.com/cotenant/cotenant/cost"

// GPUPrice returns what a GPU of a pool costs an hour, on demand, and whether the pool says.
func GPUPrice(p *Pool) (cost.Money, bool) {
	if m, ok := p.PricePerGPUHour.Get(); ok {
		return m, true
	}
	m, ok := p.NodePricePerHour.Get()
	each, known := p.GPUsPerNode.Get()
	if !ok || !known {
		return cost.Money{}, false
	}
	m, err := m.MulFrac(1, int64(each))
	return m, err == nil
}
