// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// Row is one tenant in one case of a co-location measurement. Rows with one tenant are profiles; a Predictor predicts
// the outcomes of the others, which may be absent.
type Row struct {
	Version   sharing.Optional[int] `yaml:"version" json:"version,omitzero"` // 2 = may be of any Kind; missing = 1
	Kind      Kind                  `yaml:"kind" json:"kind,omitzero"`
	Engine    string                `yaml:"engine" json:"engine,omitempty"` // as in SoloProfile
	Mechanism sharing.Mechanism     `yaml:"mechanism,required" json:"mechanism"`
	Case      string                `yaml:"case,required" json:"case"`
	// session of runs on one machine; "" is not stated
	Series   string                `yaml:"series" json:"series,omitempty"`
	Load     Load                  `yaml:"load" json:"load,omitzero"` // of servers
	Server   Server                `yaml:"server,required" json:"server"`
	Tenants  int                   `yaml:"tenants,required" json:"tenants"`
	Requests sharing.Optional[int] `yaml:"requests" json:"requests,omitzero"`
	Errors   sharing.Optional[int] `yaml:"errors" json:"errors,omitzero"`
	Steps    sharing.Optional[int] `yaml:"steps" json:"steps,omitzero"` // number of steps, for tenants without tokens
	Outcome
	Readings
	Response // of a lone tenant
}

// Readings are mean readings of the GPU and the engine over a case.
type Readings struct {
	// GPU has NVML's figures: utilizations in percent.
	GPU struct {
		Util    sharing.Optional[float64] `yaml:"util" json:"util,omitzero"`
		MemUtil sharing.Optional[float64] `yaml:"mem_util" json:"mem_util,omitzero"`
		PowerW  sharing.Optional[float64] `yaml:"power_w" json:"power_w,omitzero"`
		UsedGiB sharing.Optional[float64] `yaml:"used_gib" json:"used_gib,omitzero"`
		SMMHz   sharing.Optional[float64] `yaml:"sm_mhz" json:"sm_mhz,omitzero"`
	} `yaml:"gpu,null" json:"gpu,omitzero"`
	// GPM has GPM's figures in percent.
	GPM struct {
		GraphicsUtil sharing.Optional[float64] `yaml:"graphics_util" json:"graphics_util,omitzero"`
		SMUtil       sharing.Optional[float64] `yaml:"sm_util" json:"sm_util,omitzero"`
		SMOccupancy  sharing.Optional[float64] `yaml:"sm_occupancy" json:"sm_occupancy,omitzero"`
		TensorUtil   sharing.Optional[float64] `yaml:"tensor_util" json:"tensor_util,omitzero"`
		DRAMBwUtil   sharing.Optional[float64] `yaml:"dram_bw_util" json:"dram_bw_util,omitzero"`
	} `yaml:"gpm,null" json:"gpm,omitzero"`
	GPUName    string                    `yaml:"gpu_name" json:"gpu_name,omitempty"`      // product name; "" is unknown
	EngineBusy sharing.Optional[float64] `yaml:"engine_busy" json:"engine_busy,omitzero"` // fraction
	WallS      sharing.Optional[float64] `yaml:"wall_s" json:"wall_s,omitzero"`
}

// Rows is a file of co-location measurements.
type Rows []Row

// ParseRows reads a list of rows in the co-location format, JSON or YAML, strictly: unknown keys, contradictions
// and values out of range are problems, all of them in one error, each with its path. An empty list is an error.
func ParseRows(data []byte) (Rows, error) {
	var rows Rows
	if err := strictyaml.Decode(data, &rows, strictyaml.Options{}); err != nil {
		return nil, err
	}
	var list problem.List
	list.If(len(rows) == 0, "", "give at least one row", "there are no rows")
	for i := range rows {
		rows[i].check(&list, fmt.Sprintf("[%d]", i))
	}
	for _, c := range rows.Cases() {
		if r := &c.Rows[0]; len(c.Rows) != r.Tenants {
			list.Addf(fmt.Sprintf("[%d]", c.At), "keep the rows of a case together",
				"case %q under %s has %d tenants and %d rows", problem.Clip(r.Case), r.Mechanism, r.Tenants, len(c.Rows))
		}
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	return rows, nil
}

func (r *Row) check(list *problem.List, path string) {
	list.If(r.Tenants < 1 || r.Tenants > 1024, path+".tenants", "", "must lie between 1 and 1024, is %d", r.Tenants)
	list.If(r.Case == "", path+".case", "name the case", "is empty")
	for _, name := range [][2]string{{"case", r.Case}, {"series", r.Series}, {"gpu_name", r.GPUName},
		{"engine", r.Engine}, {"server.model", r.Server.Model}} {
		list.If(strings.ContainsFunc(name[1], unicode.IsControl), path+"."+name[0], "write it on one line",
			"%q holds what no screen shows", problem.Clip(name[1]))
	}
	if v := r.Version.Or(1); v < 1 || v > VersionOfKinds {
		list.Addf(path+".version", fmt.Sprintf("this package reads 1 to %d", VersionOfKinds), "is %d", v)
	}
	checkFraction(list, path+".engine_busy", r.EngineBusy, 1)
	list.If(r.Errors.Or(0) < 0, path+".errors", "", "is negative")
	list.If(r.WallS.Or(0) < 0, path+".wall_s", "", "is negative")
	checkFraction(list, path+".gpm.graphics_util", r.GPM.GraphicsUtil, 100)
	checkFraction(list, path+".gpm.sm_util", r.GPM.SMUtil, 100)
	checkFraction(list, path+".gpm.sm_occupancy", r.GPM.SMOccupancy, 100)
	checkFraction(list, path+".gpm.tensor_util", r.GPM.TensorUtil, 100)
	checkFraction(list, path+".gpm.dram_bw_util", r.GPM.DRAMBwUtil, 100)
	if r.Tenants == 1 {
		p := r.Profile()
		p.check(list, path)
		return
	}
	const remedy, why = "put it into the row of the isolated tenant", "belongs to an isolated tenant"
	list.If(r.Pressure != nil, path+".pressure", remedy, why)
	list.If(!r.SlicesPerStep.IsZero(), path+".turns", remedy, why)
	list.If(!r.TTFTGrowth.IsZero(), path+".ttft_growth", remedy, why)
	checkRun(list, path, r.Mechanism, r.Version.Or(1), r.Kind, r.Engine, r.Server, r.Load)
	r.Outcome.check(list, path)
}

// Profile returns the row of an isolated tenant as a profile.
func (r *Row) Profile() SoloProfile {
	percent := func(v sharing.Optional[float64]) sharing.Optional[float64] {
		if f, ok := v.Get(); ok {
			return sharing.Some(f / 100)
		}
		return v
	}
	p := SoloProfile{Version: r.Version.Or(firstVersion), Kind: r.Kind, Engine: r.Engine, Mechanism: r.Mechanism,
		Server: r.Server, Load: r.Load, Run: r.Case, GPU: r.GPUName, Requests: r.Requests, Outcome: r.Outcome,
		Utilization: Utilization{percent(r.GPM.GraphicsUtil), percent(r.GPM.SMUtil), percent(r.GPM.TensorUtil),
			percent(r.GPM.DRAMBwUtil), r.EngineBusy}, Response: r.Response}
	if r.Kind != KindServer {
		p.Requests = r.Steps
	}
	if gib, ok := r.GPU.UsedGiB.Get(); ok && gib >= 0 && gib < 1<<20 {
		p.MemoryUsed = sharing.Some(sharing.Bytes(gib * float64(sharing.GiB)))
	}
	return p
}

// Profiles returns the rows of isolated tenants as profiles.
func (rows Rows) Profiles() []SoloProfile {
	var out []SoloProfile
	for i := range rows {
		if rows[i].Tenants == 1 {
			out = append(out, rows[i].Profile())
		}
	}
	return out
}

// Case is a group of tenants that were measured co-located: as many consecutive rows as tenants, with the same series,
// mechanism, name and number of tenants.
type Case struct {
	At   int // index of the first row
	Rows Rows
}

// Cases groups the rows that were measured co-located, in their order.
func (rows Rows) Cases() []Case {
	var out []Case
	for i, r := range rows {
		if n := len(out); n > 0 {
			c := &out[n-1]
			if f := &c.Rows[0]; f.Case == r.Case && f.Series == r.Series && f.Mechanism == r.Mechanism &&
				f.Tenants == r.Tenants && len(c.Rows) < r.Tenants {
				c.Rows = rows[c.At : i+1]
				continue
			}
		}
		out = append(out, Case{i, rows[i : i+1]})
	}
	return out
}

// Compared returns a row's metric if predictions are compared by it.
func (r *Row) Compared(m Metric) (float64, bool) {
	v, ok := r.Metric(m)
	return v, ok && (m != MetricTokensPerSecond || r.Load.Closed())
}

// LoadProfiles reads a file of profiles ([ParseProfiles]) or of rows in the
// co-location format ([ParseRows]); rows with one tenant are the profiles.
func LoadProfiles(path string) (*Profiles, error) {
	return strictyaml.Load(path, func(data []byte) (*Profiles, error) {
		list, err := ParseProfiles(data)
		if err != nil {
			rows, err := ParseRows(data)
			if err != nil {
				return nil, fmt.Errorf("neither profiles nor co-location rows: %w", err)
			}
			list = rows.Profiles()
		}
		if len(list) == 0 {
			return nil, errors.New("holds nothing that was measured isolated (give profiles, or rows with one tenant)")
		}
		return NewProfiles(list...)
	})
}

// LoadRows reads a file in the format of [ParseRows]. Rows without a series belong to one with the file's name.
func LoadRows(path string) (Rows, error) {
	rows, err := strictyaml.Load(path, ParseRows)
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	for i := range rows {
		if rows[i].Series == "" {
			rows[i].Series = name
		}
	}
	return rows, err
}
