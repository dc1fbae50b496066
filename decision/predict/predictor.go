// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// calibrationEngine is the engine of the rows that the built-in constants describe (decision/predict/testdata).
const calibrationEngine = "cotenant-testbed"

// home reports whether a server's engine is the one of the built-in constants, or a simulated one.
func home(b *profile.SoloProfile) bool { return b.Engine == calibrationEngine || SimulatedGPU(b.GPU) }

// seen reports whether the predictor knows the engine of a server: also one that it was calibrated on.
func (p *Predictor) seen(b *profile.SoloProfile) bool {
	return home(b) || slices.Contains(p.Engines, b.Engine)
}

// table holds the constants.
var table = &costs.Table

func sameName(a, b string) bool {
	trim := func(s string) string { return strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "nvidia ") }
	return trim(a) == trim(b)
}

func driverBranch(s string) string {
	branch, _, _ := strings.Cut(s, ".")
	return branch
}

// Errors of predictions; test for them with errors.Is.
var (
	// ErrOtherGPU is returned for a profile of a GPU to which the predictor's parameters do not apply.
	ErrOtherGPU = errors.New("predict: the profile is of another GPU than the predictor")
	// ErrUnpredictable is returned for a profile that lacks figures that a prediction needs.
	ErrUnpredictable = errors.New("predict: the profile does not allow a prediction")
)

// ParsePredictor reads a predictor from JSON, strictly: the error names every problem with its path, or only the
// version if that differs.
func ParsePredictor(data []byte) (*Predictor, error) {
	var head struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(data, &head) == nil && head.Version > 0 && head.Version != version {
		why, remedy := "the models have other parameters since", "calibrate again on the measurements that it was "+
			"calibrated on"
		if head.Version > version {
			why, remedy = "a later version of the package wrote it", "update the package"
		}
		var list problem.List
		list.Addf("version", remedy, "is %d, and this package reads %d: %s", head.Version, version, why)
		return nil, list.Err()
	}
	var p Predictor
	if err := strictyaml.Decode(data, &p, strictyaml.Options{}); err != nil {
		return nil, err
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &p, nil
}

// LoadPredictor reads a file in the format of [ParsePredictor].
func LoadPredictor(path string) (*Predictor, error) { return strictyaml.Load(path, ParsePredictor) }

// KnowsMPS reports whether the predictor's constants of MPS apply to a GPU: MPS before Volta differs.
func (p *Predictor) KnowsMPS(on *sharing.GPU) bool {
	here, err := sharing.LookupGPU(p.GPU)
	return err != nil || (on.Architecture < sharing.ArchitectureVolta) == (here.Architecture < sharing.ArchitectureVolta)
}

// SimulatedGPU reports whether a GPU name is that of a simulation by package probe or cotenant measure, so that figures
// with it do not describe a product.
func SimulatedGPU(name string) bool { return sameName(name, "simulated GPU") }

// On returns the predictor for a GPU and driver, as a start for calibration there: parameters measured or fitted on
// another GPU become transferred, and the expected errors grow by those of a transfer, until it is fitted again.
func (p Predictor) On(gpu, driver string) Predictor {
	if !sameName(gpu, p.GPU) {
		there, _ := sharing.LookupGPU(gpu)
		here, _ := sharing.LookupGPU(p.GPU)
		by := transferSigma(here, there)
		p.TimeSlicing, p.MPS = widened(p.TimeSlicing, by), widened(p.MPS, by)
		for _, q := range p.Parameters.Named() {
			if q.Basis == sharing.BasisMeasured || q.Basis == sharing.BasisFitted {
				q.Basis, q.Independent = sharing.BasisTransferred, sharing.Optional[float64]{}
			}
		}
	}
	p.GPU, p.Driver = gpu, driver
	return p
}
