package decision

import (
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
)

// TestWhyNamesWhatIsAssumed: a figure that rests on an assumed latency alone says so.
func TestWhyNamesWhatIsAssumed(t *testing.T) {
	f := &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: "L40S", Count: 4}}, Workloads: []Workload{{Name: "w", Kind: KindOnlineInference, Replicas: Replicas{Max: 2}, Memory: gib8, GPUBusy: busy10,
		SLO: predict.SLO{E2EP99: Some(predict.Duration(1e9))}}}}
	if why := decide(t, f).Decision("w").Why; !strings.Contains(why, "of 1000, assumed to be 500 alone") {
		t.Error(why)
	}
	f.Workloads[0].Solo.E2EP99 = Some(predict.Duration(5e8))
	if why := decide(t, f).Decision("w").Why; strings.Contains(why, "assumed") {
		t.Error(why)
	}
}
