package predict

import (
	"fmt"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// Row is one tenant in one case of a co-location measurement. Rows with one
// tenant are profiles; the outcomes of the others, which may be absent, are
// what a Predictor predicts.
type Row struct {
	Mechanism  sharing.Mechanism `yaml:"mechanism,required" json:"mechanism"`
	Case       string            `yaml:"case,required" json:"case"`
	Load       Load              `yaml:"load,required" json:"load"`
	Server     Server            `yaml:"server,required" json:"server"`
	Tenants    int               `yaml:"tenants,required" json:"tenants"`
	Requests   *int              `yaml:"requests" json:"requests,omitempty"`
	Errors     *int              `yaml:"errors" json:"errors,omitempty"`
	TokensPerS *float64          `yaml:"tokens_per_s" json:"tokens_per_s,omitempty"`
	TTFT       *LatencyMS        `yaml:"ttft_ms" json:"ttft_ms,omitempty"`
	TPOT       *LatencyMS        `yaml:"tpot_ms" json:"tpot_ms,omitempty"`
	ITL        *LatencyMS        `yaml:"itl_ms" json:"itl_ms,omitempty"`
	E2E        *LatencyMS        `yaml:"e2e_ms" json:"e2e_ms,omitempty"`
	GPU        *RowGPU           `yaml:"gpu" json:"gpu,omitempty"`
	GPM        *RowGPM           `yaml:"gpm" json:"gpm,omitempty"`
	EngineBusy *float64          `yaml:"engine_busy" json:"engine_busy,omitempty"` // fraction
	WallS      *float64          `yaml:"wall_s" json:"wall_s,omitempty"`
}

// RowGPU are means of NVML's readings over a case: utilisations in percent,
// power in watts, memory in GiB, clock in MHz.
type RowGPU struct {
	Util    *float64 `yaml:"util" json:"util,omitempty"`
	MemUtil *float64 `yaml:"mem_util" json:"mem_util,omitempty"`
	PowerW  *float64 `yaml:"power_w" json:"power_w,omitempty"`
	UsedGiB *float64 `yaml:"used_gib" json:"used_gib,omitempty"`
	SMMHz   *float64 `yaml:"sm_mhz" json:"sm_mhz,omitempty"`
}

// RowGPM are means of GPM's metrics over a case, in percent.
type RowGPM struct {
	GraphicsUtil *float64 `yaml:"graphics_util" json:"graphics_util,omitempty"`
	SMUtil       *float64 `yaml:"sm_util" json:"sm_util,omitempty"`
	SMOccupancy  *float64 `yaml:"sm_occupancy" json:"sm_occupancy,omitempty"`
	TensorUtil   *float64 `yaml:"tensor_util" json:"tensor_util,omitempty"`
	DRAMBwUtil   *float64 `yaml:"dram_bw_util" json:"dram_bw_util,omitempty"`
}

// Figures are the row's metrics; what was not measured is not among them.
func (r *Row) Figures() map[Metric]float64 { return figures(r.Metric) }

// Rows is a file of co-location measurements.
type Rows []Row

// ParseRows reads a list of rows in the co-location format, JSON or YAML,
// strictly: unknown keys, contradictions and values out of range are problems,
// all of them in one error, each with its path. An empty list is an error.
func ParseRows(data []byte) (Rows, error) {
	var rows Rows
	if err := strictyaml.Decode(data, &rows, strictyaml.Options{}); err != nil {
		return nil, err
	}
	var list problem.List
	if len(rows) == 0 {
		list.Addf("", "give at least one row", "there are no rows")
	}
	for i := range rows {
		rows[i].check(&list, fmt.Sprintf("[%d]", i))
	}
	for _, c := range rows.Cases() {
		if r := rows[c.Rows[0]]; len(c.Rows) != r.Tenants {
			list.Addf(fmt.Sprintf("[%d]", c.Rows[0]), "keep the rows of a case together", "case %q under %s has %d tenants and %d rows", clip(c.Name), c.Mechanism, r.Tenants, len(c.Rows))
		}
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	return rows, nil
}

func (r *Row) check(list *problem.List, path string) {
	if r.Tenants < 1 || r.Tenants > 1024 {
		list.Addf(path+".tenants", "", "must lie between 1 and 1024, is %d", r.Tenants)
	}
	if r.Case == "" {
		list.Addf(path+".case", "name the case", "is empty")
	}
	if r.EngineBusy != nil && !(*r.EngineBusy >= 0 && *r.EngineBusy <= 1.02) {
		list.Addf(path+".engine_busy", "", "must be a fraction, is %v", *r.EngineBusy)
	}
	if r.Errors != nil && *r.Errors < 0 {
		list.Addf(path+".errors", "", "is negative")
	}
	if r.WallS != nil && !(*r.WallS >= 0) {
		list.Addf(path+".wall_s", "", "is negative")
	}
	if r.GPM != nil {
		for _, f := range []struct {
			name string
			v    *float64
		}{{"graphics_util", r.GPM.GraphicsUtil}, {"sm_util", r.GPM.SMUtil}, {"sm_occupancy", r.GPM.SMOccupancy},
			{"tensor_util", r.GPM.TensorUtil}, {"dram_bw_util", r.GPM.DRAMBwUtil}} {
			if f.v != nil && !(*f.v >= 0 && *f.v <= 102) {
				list.Addf(path+".gpm."+f.name, "", "must be a percentage, is %v", *f.v)
			}
		}
	}
	if r.Tenants == 1 {
		// A lone tenant's row is a profile, and must hold what a profile holds.
		p := r.profile()
		p.check(list, path)
		return
	}
	if r.Mechanism != sharing.MechanismTimeSlicing && r.Mechanism != sharing.MechanismMPS {
		list.Addf(path+".mechanism", "use time-slicing or mps", "%s cannot be predicted", r.Mechanism)
	}
	if len(r.Server) == 0 {
		list.Addf(path+".server", "", "is empty")
	}
	if c := r.Server.SMPercent(); !(c > 0 && c <= 100) {
		list.Addf(path+".server.sm_percent", "", "must lie above 0 and at most at 100, is %v", c)
	}
	r.Load.check(list, path+".load")
	if r.TokensPerS != nil && !(*r.TokensPerS >= 0) {
		list.Addf(path+".tokens_per_s", "", "is negative")
	}
	r.TTFT.check(list, path+".ttft_ms")
	r.TPOT.check(list, path+".tpot_ms")
	r.ITL.check(list, path+".itl_ms")
	r.E2E.check(list, path+".e2e_ms")
}

func (r *Row) profile() SoloProfile {
	p := SoloProfile{Version: Version, Mechanism: r.Mechanism, Server: r.Server, Load: r.Load, Run: r.Case,
		Requests: r.Requests, TokensPerS: r.TokensPerS, TTFT: r.TTFT, TPOT: r.TPOT, ITL: r.ITL, E2E: r.E2E, EngineFraction: r.EngineBusy}
	percent := func(v *float64) *float64 {
		if v == nil {
			return nil
		}
		f := *v / 100
		return &f
	}
	if g := r.GPM; g != nil {
		p.GPUBusyFraction, p.SMFraction = percent(g.GraphicsUtil), percent(g.SMUtil)
		p.TensorFraction, p.DRAMFraction = percent(g.TensorUtil), percent(g.DRAMBwUtil)
	}
	if r.GPU != nil && r.GPU.UsedGiB != nil && *r.GPU.UsedGiB >= 0 && *r.GPU.UsedGiB < 1<<20 {
		b := sharing.Bytes(*r.GPU.UsedGiB * float64(sharing.GiB))
		p.MemoryUsed = &b
	}
	return p
}

// Profiles returns the profiles in the rows: those of lone tenants.
func (rows Rows) Profiles() ([]SoloProfile, error) {
	var out []SoloProfile
	for i := range rows {
		if rows[i].Tenants == 1 {
			out = append(out, rows[i].profile())
		}
	}
	var ps Profiles
	if err := ps.Add(out...); err != nil {
		return nil, err
	}
	return out, nil
}

// Case is a group of tenants that were measured together.
type Case struct {
	Name      string
	Mechanism sharing.Mechanism
	Rows      []int // indices of its rows, in order
}

// Cases returns the cases in the order of the rows. Rows that follow one
// another with the same mechanism, name and number of tenants make a case,
// until it has its number of tenants.
func (rows Rows) Cases() []Case {
	var out []Case
	for i, r := range rows {
		if n := len(out); n > 0 {
			last := &out[n-1]
			first := rows[last.Rows[0]]
			if last.Name == r.Case && last.Mechanism == r.Mechanism && first.Tenants == r.Tenants && len(last.Rows) < r.Tenants {
				last.Rows = append(last.Rows, i)
				continue
			}
		}
		out = append(out, Case{Name: r.Case, Mechanism: r.Mechanism, Rows: []int{i}})
	}
	return out
}
