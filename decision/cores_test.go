package decision

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/cotenant/cotenant/internal/race"
	"github.com/google/go-cmp/cmp"
)

// TestCores holds that the answers are the same on any number of cores. Each is a process of its own, so that none
// knows what another simulated.
func TestCores(t *testing.T) {
	t.Parallel()
	if os.Getenv("CORES_CHILD") != "" {
		out := json.NewEncoder(os.Stdout)
		for _, size := range [][2]int{{1, 5}, {2, 12}, {5, 50}, {10, 200}}[:min(4, race.Fewer(8))] {
			r, err := Decide(t.Context(), corpusFleet(t, size[0], size[1]), Options{})
			if err == nil {
				err = out.Encode(r)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	answers := map[string]string{}
	for _, cores := range []string{"1", "2", "8"} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCores$")
		child.Env = append(os.Environ(), "CORES_CHILD=1", "GOMAXPROCS="+cores)
		child.Stderr = os.Stderr
		out, err := child.Output()
		if err != nil {
			t.Fatalf("%s cores: %v\n%s", cores, err, out)
		}
		answers[cores] = string(out[:max(0, len(out)-len("PASS\n"))])
	}
	for _, cores := range []string{"2", "8"} {
		if d := cmp.Diff(answers["1"], answers[cores]); d != "" {
			t.Errorf("%s cores answer otherwise than one:\n%s", cores, d)
		}
	}
}
