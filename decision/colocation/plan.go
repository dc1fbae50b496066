// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Plan lists the runs on one GPU: under each mode each load isolated, then the cases.
type Plan struct {
	Version     string              `yaml:"version,required"`
	Seconds     float64             `yaml:"seconds,nonzero"` // of load in each run; default 8
	WarmSeconds float64             `yaml:"warm_seconds"`    // at the start, not counted; default 15%, at most 1.5 s
	Seed        int                 `yaml:"seed"`            // of prompts and arrivals
	Device      int                 `yaml:"device"`          // GPU index in NVML
	Modes       []sharing.Mechanism `yaml:"modes"`           // time-slicing, mps, mig-like-emulation; default all
	StartSecs   float64             `yaml:"start_seconds"`   // longest wait for the servers to answer; default 300
	Servers     []Server            `yaml:"servers"`
	Tenants     []Server            `yaml:"tenants"` // workloads without tokens
	Loads       []Load              `yaml:"loads"`   // of servers
	Cases       []Case              `yaml:"cases"`   // default: the tenants and the first load of each server in one case

	text    []byte // as it was read
	serving int    // so many of Servers serve tokens; then come Tenants
	copied  bool   // all servers are copies of one, of which the first is run isolated
}

// modes returns the mechanisms by which processes share a whole GPU: time-slicing, the GPU's default, clients of
// one MPS server, and those with active thread percentages and memory limits.
func modes() []sharing.Mechanism {
	return []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIGLikeEmulation}
}

// Server is a server under test, or a tenant without tokens. With a command it is started and stopped for each mode;
// without one it must already run, and is left running.
type Server struct {
	Name    string   `yaml:"name,required"`
	Model   string   `yaml:"model"` // as in requests and profiles; default for tenants: Name
	Command []string `yaml:"command"`
	URL     string   `yaml:"url"`
	API     string   `yaml:"api"`
	Slots   int      `yaml:"slots,nonzero"` // requests served at once; 0 = not known
	Engine  string   `yaml:"engine"`        // for its rows, e.g. vllm; "" means unknown and widens intervals
	// Kind of a tenant is stepper or burster, and Progress the source of its steps. It runs in each case that names it,
	// and is halted (SIGSTOP) between them.
	Kind     profile.Kind `yaml:"kind"`
	Progress Progress     `yaml:"progress"`
	// Percent (of active threads) and MemoryLimit are for mig-like-emulation; the default limit is Percent of the memory.
	Percent     float64          `yaml:"percent,nonzero"`
	MemoryLimit sharing.Bytes    `yaml:"memory_limit,nonzero"`
	Simulated   *SimulatedServer `yaml:"simulated"`
}

// Progress defines the source of a tenant's steps.
type Progress struct {
	// Line is a regular expression for the lines on standard output that end a step. A group named ms or s holds the
	// step's length, which a burster needs; otherwise it is the time since the last such line.
	Line string `yaml:"line"`

	line *regexp.Regexp
}

// Load describes the requests of a server's clients, and their objectives.
type Load struct {
	Name        string      `yaml:"name,required"`
	Server      string      `yaml:"server,required"`
	Concurrency int         `yaml:"concurrency,nonzero"`
	Rate        float64     `yaml:"rate,nonzero"`
	Prompt      int         `yaml:"prompt,required"`
	Output      int         `yaml:"output,required"` // mean: answers are up to a quarter shorter or longer
	SLO         profile.SLO `yaml:"slo"`
}

// Case is a set of loads to run co-located, each on a different server.
type Case struct {
	Name  string   `yaml:"name,required"`
	Loads []string `yaml:"loads,required"`
}

// SimulatedServer is a server or tenant on a simulated GPU; zero fields mean the simulation's defaults.
type SimulatedServer struct {
	StepKernels     int              `yaml:"step_kernels"`
	KernelMean      profile.Duration `yaml:"kernel_mean"`
	PrefillPerToken profile.Duration `yaml:"prefill_per_token"`
	SMDemand        float64          `yaml:"sm_demand"`
	BandwidthDemand float64          `yaml:"bandwidth_demand"`
	SMHold          float64          `yaml:"sm_hold"` // fraction of time that others' kernels wait for its own under MPS
	Think           profile.Duration `yaml:"think"`   // pause of a burster between two steps
}

// load returns the load of a name, nil where there is none.
func (p *Plan) load(name string) *Load {
	if i := slices.IndexFunc(p.Loads, func(l Load) bool { return l.Name == name }); i >= 0 {
		return &p.Loads[i]
	}
	return nil
}

// serverFor returns a load's server, and its index.
func (p *Plan) serverFor(l *Load) (*Server, int) {
	i := slices.IndexFunc(p.Servers, func(s Server) bool { return s.Name == l.Server })
	return &p.Servers[i], i
}

// used lists the loads that any case needs, in the plan's order: each of them is also run isolated. Of copies
// the first is.
func (p *Plan) used() []string {
	if p.copied {
		return []string{p.Loads[0].Name}
	}
	var out []string
	for _, l := range p.Loads {
		if slices.ContainsFunc(p.Cases, func(c Case) bool { return slices.Contains(c.Loads, l.Name) }) {
			out = append(out, l.Name)
		}
	}
	return out
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }
