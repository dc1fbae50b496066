package decision

import (
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
)

// Criterion is one respect in which candidates are scored.
type Criterion uint8

// The criteria.
const (
	CriterionIsolation  Criterion = iota // mean isolation level over the axes, 0 (none) to 1 (hardware)
	CriterionLatency                     // expected slowdown, 1 = none: by neighbours and by the slice
	CriterionThroughput                  // what saturated tenants together deliver, against one on a whole GPU
	CriterionCost                        // cost of a replica as a share of a whole GPU
	CriterionComplexity                  // operational complexity, 0 (nothing to run) to 4 (very high)
	CriterionDensity                     // replicas on a GPU
)

// CriterionCount is the number of criteria.
const CriterionCount = 6

var criterionNames = enum.Of[Criterion](ErrUnknownName, "criterion", "isolation", "latency", "throughput", "cost",
	"complexity", "density")

// Weights say how much each criterion counts, from 0 to 100; only their proportions matter.
type Weights struct {
	Isolation  float64 `yaml:"isolation"`
	Latency    float64 `yaml:"latency"`
	Throughput float64 `yaml:"throughput"`
	Cost       float64 `yaml:"cost"`
	Complexity float64 `yaml:"complexity"`
	Density    float64 `yaml:"density"`
}

func (w Weights) array() [CriterionCount]float64 {
	return [CriterionCount]float64{w.Isolation, w.Latency, w.Throughput, w.Cost, w.Complexity, w.Density}
}

func (w Weights) validate() error {
	var l problem.List
	sum := 0.0
	for c, v := range w.array() {
		if !(v >= 0 && v <= 100) {
			l.Addf(Criterion(c).String(), "use 0 to 100", "%v is out of range", v)
		}
		sum += v
	}
	if l.Len() == 0 && sum == 0 {
		l.Addf("", "weigh at least one criterion", "are all 0")
	}
	return l.Err()
}

// normalised divides the weights by their sum.
func (w Weights) normalised() [CriterionCount]float64 {
	a := w.array()
	sum := 0.0
	for _, v := range a {
		sum += v
	}
	if sum <= 0 {
		return [CriterionCount]float64{}
	}
	for i := range a {
		a[i] /= sum
	}
	return a
}
