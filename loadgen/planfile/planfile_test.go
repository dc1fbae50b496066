package planfile

import (
	"os"
	"path/filepath"
	"strings"
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

// TestAdapters reads a tenant's adapters, and names what is wrong with them.
func TestAdapters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.yaml")
	for text, want := range map[string]string{
		"{names: [sql, chat, law], shares: [70, 20, 10]}": "",
		"{names: [sql, chat], zipf: 1.1}":                 "",
		"{names: [sql, chat], shares: [1]}":               "tenants[0].adapters.shares: 1 for 2 names",
		"{names: [sql], zipff: 1}":                        "tenants[0].adapters.zipff",
	} {
		plan := "duration: 1s\ntenants:\n- {name: a, endpoints: [{url: 'http://h'}], concurrency: 1, adapters: " + text + "}\n"
		if err := os.WriteFile(path, []byte(plan), 0o644); err != nil {
			t.Fatal(err)
		}
		file, err := Load(path, Options{Prompts: []loadgen.Prompt{{Text: "x"}}})
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v", text, err)
		case want == "" && (err != nil || len(file.Tenants[0].Adapters.Names) < 2):
			t.Errorf("%s: %v", text, err)
		}
	}
}
