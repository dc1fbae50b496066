package decision

import (
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/profile"
)

// popular is a server with more requests than one GPU carries.
func popular(replicas, gpus int) *Fleet {
	return &Fleet{Version: "v1", Pools: []Pool{{Name: "h100", GPU: "H100 80GB HBM3", Count: gpus}}, Workloads: []Workload{{
		Name: "popular", Kind: KindOnlineInference, Replicas: Replicas{Max: replicas}, Tenant: "a",
		Model: &LanguageModel{Parameters: 8e9, Weights: PrecisionFP16, Layers: Some(32), KVHeads: Some(8), HeadDim: Some(128)},
		Load:  &Traffic{RequestsPerS: 40, InputTokens: Some(2000), OutputTokens: Some(300)},
		SLO:   profile.SLO{TTFTP99: Some(profile.Duration(3e9)), TPOTP99: Some(profile.Duration(60e6))},
	}}}
}

// TestLoadIsDivided: what is too much for the replicas that there are comes with
// how many would do, and that many then do.
func TestLoadIsDivided(t *testing.T) {
	t.Parallel()
	for replicas, want := range map[int]string{
		1: "; over 26 replicas the load would do, on h100",
		5: "it could not keep up; over 26 replicas the load would do, on h100",
	} {
		if why := decide(t, popular(replicas, 30)).Decisions[0].Why; !strings.HasSuffix(why, want) || strings.Contains(why, "-9223372036854776") {
			t.Errorf("%d replicas: %s", replicas, why)
		}
	}
	if why := decide(t, popular(1, 4)).Decisions[0].Why; !strings.HasSuffix(why, "on h100 with 22 GPUs more") {
		t.Errorf("of 4 GPUs: %s", why)
	}
	if d := decide(t, popular(26, 30)).Decisions[0]; d.Status != StatusDecided || d.Placed != 26 {
		t.Errorf("26 replicas: %s, %d placed, %s", d.Status, d.Placed, d.Why)
	}
	if d := decide(t, popular(25, 30)).Decisions[0]; d.Status == StatusDecided {
		t.Errorf("25 replicas: %s", d.Why)
	}
}
