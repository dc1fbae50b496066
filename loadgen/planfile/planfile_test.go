package planfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cotenant/cotenant/loadgen"
)

func FuzzLoad(f *testing.F) {
	plan, err := os.ReadFile("../../examples/benchmark/testdata/plan.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plan)
	f.Add([]byte("tenants:\n- {name: a, endpoints: [{url: 'http://h'}], rate: 1e9, synthetic: {input: {normal: {mean: 3, std_dev: 1}}, output: {empirical: [1, 2]}, turns: {fixed: 2}}}\n"))
	path := filepath.Join(f.TempDir(), "plan.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		file, err := Load(path, Options{})
		if (file == nil) == (err == nil) {
			t.Fatalf("file %v, error %v", file, err)
		}
		if err != nil {
			return
		}
		plan, err := file.Plan(make([]loadgen.Endpoint, len(file.Tenants)))
		if err != nil || len(plan.Tenants) != len(file.Tenants) {
			t.Fatalf("a file that was read gives no plan: %v", err)
		}
	})
}
