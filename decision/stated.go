// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"path/filepath"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/internal/strictyaml"
)

// The parts of a fleet that every program needs; package fleet has their fields, and the rarer parts.
type (
	Fleet      = fleet.Fleet
	Pool       = fleet.Pool
	Workload   = fleet.Workload
	Kind       = fleet.Kind
	Replicas   = fleet.Replicas
	Assumption = fleet.Assumption
)

// Kinds of workloads; package fleet has the other values of enumerations.
const (
	KindDistributedTraining Kind = "distributed-training"
	KindTraining            Kind = "training"
	KindOnlineInference     Kind = "online-inference"
	KindOfflineInference    Kind = "offline-inference"
	KindBatch               Kind = "batch"
	KindNotebook            Kind = "notebook"
	KindHPC                 Kind = "hpc"
)

// LoadFleet reads a fleet from a file; see [ParseFleet]. The error names the file. The names of models' config.json
// files in it are relative to its folder.
func LoadFleet(path string) (*Fleet, error) {
	return strictyaml.Load(path, func(data []byte) (*Fleet, error) {
		return fleet.ParseFleet(data, func(name string) ([]byte, error) {
			if !filepath.IsAbs(name) {
				name = filepath.Join(filepath.Dir(path), filepath.FromSlash(name))
			}
			return strictyaml.ReadFile(name, strictyaml.Options{MaxBytes: maxConfigBytes})
		})
	})
}

// maxConfigBytes bounds a model's config.json.
const maxConfigBytes = 4 << 20

// ParseFleet reads a fleet from YAML or JSON. The error names every problem with its path and, if there is one, a
// remedy: unknown keys, duplicate keys and names, numbers out of range, unknown GPUs, contradictions. A fleet with
// models that name a config needs [fleet.ParseFleet].
func ParseFleet(data []byte) (*Fleet, error) { return fleet.ParseFleet(data, nil) }
