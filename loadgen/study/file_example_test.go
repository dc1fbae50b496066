// SPDX-License-Identifier: Apache-2.0

package study_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/cotenant/cotenant/loadgen/study"
)

const twoTenants = `
scenario: colocated
duration: 30s
window: {from: 5s}
tenants:
  - {name: chat, endpoints: [{url: "http://llm:8000"}], concurrency: 4, slo: {ttft: 200ms}}
  - name: batch
    endpoints: [{url: "http://llm:8000"}]
    rate: 6
    arrivals: poisson
    synthetic: {input: {log_normal: {median: 300, sigma: 0.6}}, output: {fixed: 16}}
`

func write(text string) string {
	dir, err := os.MkdirTemp("", "plan")
	if err != nil {
		log.Fatal(err)
	}
	path := filepath.Join(dir, "plan.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		log.Fatal(err)
	}
	return path
}

// A plan is read with everything that it names.
func ExampleConfig_Resolve() {
	c := study.Config{PlanFile: write(twoTenants)}
	defer os.RemoveAll(filepath.Dir(c.PlanFile))
	if err := c.Resolve(study.FileOptions{}); err != nil {
		log.Fatal(err)
	}
	for _, t := range c.File.Tenants {
		fmt.Println(t.Name, t.Concurrency, t.Rate, t.SLO.TTFT, t.Endpoints[0].URL)
	}
	// Output:
	// chat 4 0 200ms http://llm:8000
	// batch 0 6 0s http://llm:8000
}

// Everything that is wrong with a plan is named at once.
func ExampleConfig_Resolve_problems() {
	path := write("tenants:\n- {name: a, concurrency: 2, rate: 3, arrivals: weekly}\n- {name: b, trace: {file: nowhere.csv}}\n")
	defer os.RemoveAll(filepath.Dir(path))
	c := study.Config{PlanFile: path}
	err := c.Resolve(study.FileOptions{})
	fmt.Println(strings.ReplaceAll(err.Error(), filepath.Dir(path)+string(filepath.Separator), ""))
	// Output:
	// plan.yaml: tenants[0].endpoints: missing (add one, or set the plan's embedded)
	// tenants[0]: 2 of concurrency, rate and trace (set exactly one)
	// tenants[0].arrivals: is "weekly" (use constant, poisson or gamma)
	// tenants[1].endpoints: missing (add one, or set the plan's embedded)
	// tenants[1].trace: open nowhere.csv: no such file or directory
}
