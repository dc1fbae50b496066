package timeslice

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
)

type tenantsDocument struct {
	Tenants []struct {
		Name          string        `yaml:"name,required"`
		Step          time.Duration `yaml:"step,required"`
		StepCV        float64       `yaml:"step_cv"`
		Think         time.Duration `yaml:"think"`
		ThinkCV       float64       `yaml:"think_cv"`
		Steps         int           `yaml:"steps"`
		Pause         time.Duration `yaml:"pause"`
		PauseCV       float64       `yaml:"pause_cv"`
		RatePerSecond float64       `yaml:"rate_per_second"`
	} `yaml:"tenants,required"`
}

// ParseTenants reads a document of tenants, YAML or JSON of at most 1 MiB, for example:
//
//	tenants:
//	  - {name: chat, step: 1.8ms, think: 150us, steps: 64, pause: 8ms, pause_cv: 1}
//	  - {name: api, step: 900us, steps: 4, rate_per_second: 20}
//
// The keys are Tenant's fields; each name is needed once. Unknown keys are
// errors; one error names every problem. Simulate checks the values.
func ParseTenants(data []byte) ([]Tenant, error) {
	var doc tenantsDocument
	if err := strictyaml.Decode(data, &doc, strictyaml.Options{MaxBytes: 1 << 20}); err != nil {
		return nil, err
	}
	var l problem.List
	if n := len(doc.Tenants); n == 0 || n > maxTenants {
		l.Addf("tenants", "", "must be 1 to %d, are %d", maxTenants, n)
	}
	seen := map[string]bool{}
	out := make([]Tenant, len(doc.Tenants))
	for i, t := range doc.Tenants {
		at := fmt.Sprintf("tenants[%d].name", i)
		l.If(seen[t.Name], at, "give each tenant a name of its own", "%q is there twice", problem.Clip(t.Name))
		if n := len([]rune(t.Name)); n == 0 || n > 40 {
			l.Addf(at, "", "must have 1 to 40 characters, has %d", n)
		}
		l.If(strings.ContainsFunc(t.Name, unicode.IsControl), at, "use letters, digits and signs",
			"%q holds control characters", problem.Clip(t.Name))
		seen[t.Name] = true
		out[i] = Tenant{Name: t.Name, Steps: t.Steps, RatePerSecond: t.RatePerSecond,
			Step: Dist{t.Step, t.StepCV}, Think: Dist{t.Think, t.ThinkCV}, Pause: Dist{t.Pause, t.PauseCV}}
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	return out, nil
}
