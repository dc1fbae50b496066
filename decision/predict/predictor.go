package predict

import (
	"encoding/json"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
)

// Predictor predicts co-location from profiles. It is a value: copy it, write it as JSON, read it back with
// ParsePredictor. Make one with NewPredictor, and calibrate it with Fit.
type Predictor struct {
	costs.Calibration
	// Learned moves predictions by what ended canaries showed ([LoadLearned]); nil moves none. It is in no file.
	Learned *Learned `yaml:"-" json:"-"`
}

// NewPredictor returns the predictor for an H200 with driver 580 as measured for this project.
func NewPredictor() Predictor { return Predictor{Calibration: costs.H200()} }

// ParsePredictor reads a predictor that was written as JSON, strictly: the error names every problem with its path.
// One of another version is refused by its version alone.
func ParsePredictor(data []byte) (*Predictor, error) {
	var head struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(data, &head) == nil && head.Version > 0 && head.Version != costs.CalibrationVersion {
		why, remedy := "the models have other parameters since", "calibrate again on the measurements that it was calibrated on"
		if head.Version > costs.CalibrationVersion {
			why, remedy = "a later version of the package wrote it", "update the package"
		}
		var list problem.List
		list.Addf("version", remedy, "is %d, and this package reads %d: %s", head.Version, costs.CalibrationVersion, why)
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

// LoadPredictor reads a file that [ParsePredictor] takes.
func LoadPredictor(path string) (*Predictor, error) { return profile.ReadFile(path, ParsePredictor) }
