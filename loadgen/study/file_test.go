// SPDX-License-Identifier: Apache-2.0

package study

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/loadgen"
)

func FuzzLoadFile(f *testing.F) {
	plan, err := os.ReadFile("testdata/plan.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plan)
	f.Add([]byte("tenants:\n- {name: a, endpoints: [{url: 'http://h'}], rate: 1e9, synthetic: {input: {log_normal: {median: 3, sigma: 1}}, output: {empirical: [1, 2]}}}\n"))
	path := filepath.Join(f.TempDir(), "plan.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		file, err := loadFile(path, FileOptions{})
		if (file == nil) == (err == nil) {
			t.Fatalf("file %v, error %v", file, err)
		}
		if err != nil {
			return
		}
		plan, err := file.plan(make([]loadgen.Endpoint, len(file.Tenants)))
		if err != nil || len(plan.Tenants) != len(file.Tenants) {
			t.Fatalf("a file that was read gives no plan: %v", err)
		}
	})
}

func TestErrorsNameEveryProblem(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	for _, plan := range []string{
		"seed: -1\ntenants:\n- {name: a, concurency: 2}\n- {rate: fast}\n",
		"embedded: sliced\ntenants:\n- {name: a, concurrency: 2, rate: 3, arrivals: weekly}\n" +
			"- {name: b, endpoints: [{url: 'http://x', api_key_env: COTENANT_NO_SUCH_VARIABLE}], rate: 3, prompts: nowhere.jsonl}\n" +
			"- {name: c, rate: 3, synthetic: {input: {fixed: 3, log_normal: {median: 4}}, output: {}}}\n",
		"embedded: concurrent\ntenants:\n- {name: a, concurrency: 2}\n- {name: a, rate: 3, max_tokens: -1}\n",
	} {
		file := filepath.Join(dir, "plan.yaml")
		if err := os.WriteFile(file, []byte(plan), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := loadFile(file, FileOptions{})
		fmt.Fprintln(&b, err)
	}
	// Systems differ in their paths and in how they call a missing file.
	text := strings.NewReplacer(dir+string(filepath.Separator), "", "The system cannot find the file specified.", "no such file or directory").Replace(b.String())
	golden.Check(t, "testdata/errors.golden", []byte(text))
}
