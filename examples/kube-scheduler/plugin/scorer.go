package plugin

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cotenant/cotenant/decision/placement"
)

// NewScorer returns the scorer of the plugin under the given arguments, for those who
// replay its decisions with kubegpu.Cluster, and its policy's name. The error is
// an ErrArgs.
func NewScorer(args runtime.Object) (*placement.Scorer, string, error) {
	a, err := decodeArgs(args)
	if err != nil {
		return nil, "", err
	}
	b, err := a.build()
	if err != nil {
		return nil, "", err
	}
	return b.scorer(), b.policy.Name(), nil
}
