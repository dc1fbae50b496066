// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"encoding/json"
	"fmt"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Server is the configuration of a server under test. Two servers are the same if all fields are equal.
type Server struct {
	Model string                `yaml:"model" json:"model,omitempty"` // "" when not stated
	Slots sharing.Optional[int] `yaml:"slots" json:"slots,omitzero"`  // requests that it serves at once
	// MPS active thread percentage; missing = not capped
	SMPercent sharing.Optional[float64] `yaml:"sm_percent" json:"sm_percent,omitzero"`
	// another distinction of servers, e.g. "vllm 0.9, fp8"
	Variant string `yaml:"variant" json:"variant,omitempty"`
}

// String is the server's JSON, for example {"model":"8b","sm_percent":50}.
func (s Server) String() string {
	b, _ := json.Marshal(s) // nothing in it that JSON cannot hold
	return string(b)
}

// uncapped is the same server without an active thread percentage.
func (s Server) uncapped() Server {
	s.SMPercent = sharing.Optional[float64]{}
	return s
}

func (s Server) check(list *problem.List, path string) {
	list.If(s == (Server{}), path, `say at least {"model": ...}`, "is empty")
	if v, ok := s.Slots.Get(); ok && (v < 1 || v >= 1<<20) {
		list.Addf(path+".slots", "", "must lie between 1 and %d, is %d", 1<<20-1, v)
	}
	if v, ok := s.SMPercent.Get(); ok && !(v > 0 && v <= 100) {
		list.Addf(path+".sm_percent", "", "must lie above 0 and at most at 100, is %v", v)
	}
}

// Load is the demand of a server's clients: in a closed loop of Concurrency clients that each send the next request
// when the last one ends, or in an open loop of Rate requests a second (Poisson). Exactly one of the two is set.
type Load struct {
	Server      int                   `yaml:"server" json:"server"` // index among a case's servers
	Concurrency int                   `yaml:"concurrency" json:"concurrency,omitempty"`
	Rate        float64               `yaml:"rate" json:"rate,omitempty"` // requests a second
	Prompt      int                   `yaml:"prompt,required" json:"prompt"`
	Output      int                   `yaml:"output,required" json:"output"`
	Seed        sharing.Optional[int] `yaml:"seed" json:"seed,omitzero"`
	// OutputSpread is the fraction of Output by which answers are shorter or longer, uniformly; 0 = constant length. With
	// answers of constant length clients of a closed loop synchronize, or alternate, for seconds.
	OutputSpread float64 `yaml:"output_spread" json:"output_spread,omitempty"`
}

// Closed reports whether the load is a closed loop.
func (l Load) Closed() bool { return l.Concurrency > 0 }

// Same returns the load without the server's index, the seed and the spread of answers: two runs with equal results are
// of the same workload.
func (l Load) Same() Load {
	l.Server, l.Seed, l.OutputSpread = 0, sharing.Optional[int]{}, 0
	return l
}

// String returns the load in words, for example "4 clients, 128 in, 64 out".
func (l Load) String() string {
	if l.Closed() {
		return fmt.Sprintf("%d clients, %d in, %d out", l.Concurrency, l.Prompt, l.Output)
	}
	return fmt.Sprintf("%g requests/s, %d in, %d out", l.Rate, l.Prompt, l.Output)
}

// Validate returns an error that names every problem of l, or nil.
func (l Load) Validate() error {
	var list problem.List
	switch {
	case l.Concurrency != 0 && l.Rate != 0:
		list.Addf("", "leave one of them out", "has a concurrency and a rate")
	case l.Concurrency == 0 && l.Rate == 0:
		list.Addf("", "set concurrency (closed loop) or rate (open loop)", "asks for nothing")
	case l.Concurrency < 0 || l.Concurrency > 1<<16:
		list.Addf("concurrency", "", "must lie between 1 and %d, is %d", 1<<16, l.Concurrency)
	case !(l.Rate >= 0 && l.Rate <= 1e5):
		list.Addf("rate", "", "must be positive and at most 1e5 requests a second, is %v", l.Rate)
	}
	list.If(l.Prompt < 1 || l.Prompt > 1<<24, "prompt", "", "must be a number of tokens, at least 1, is %d", l.Prompt)
	list.If(l.Output < 1 || l.Output > 1<<24, "output", "", "must be a number of tokens, at least 1, is %d", l.Output)
	list.If(!(l.OutputSpread >= 0 && l.OutputSpread < 1), "output_spread", "", "must lie at 0 or above and below 1, is %v",
		l.OutputSpread)
	list.If(l.Server < 0, "server", "", "must be an index, is %d", l.Server)
	return list.Err()
}
