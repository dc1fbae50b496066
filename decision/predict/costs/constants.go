package costs

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"math"
	"sync"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Constant is a row of the table of constants (constants.json) that predictions rest on.
type Constant struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"` // the median, where it is uncertain
	Unit  string  `json:"unit"`
	Sigma float64 `json:"sigma,omitzero"` // standard deviation of its logarithm; 0 = even over Spread, or not stated
	// Spread bounds an even distribution, and Range what is physically plausible; a fit stays within.
	Spread    [2]float64       `json:"spread,omitzero"`
	Range     [2]float64       `json:"range,omitzero"`
	Worse     int              `json:"worse,omitzero"` // +1: more is worse, -1: less is
	PerTenant bool             `json:"per_tenant,omitzero"`
	Basis     sharing.Basis    `json:"basis"`
	Source    sharing.SourceID `json:"source"`
	// over the rows of decision/predict/testdata, or the source's words
	Query string `json:"query,omitempty"`
}

//go:embed constants.json
var table []byte

// Constants returns the table of constants in its order. A test holds that it can be read and that every row is used.
var Constants = sync.OnceValue(func() (rows []Constant) {
	d := json.NewDecoder(bytes.NewReader(table))
	d.DisallowUnknownFields()
	_ = d.Decode(&rows)
	return rows
})

// Named returns the constant of a name, the zero Constant where there is none.
func Named(name string) Constant { return *cmp.Or(byName()[name], &Constant{}) }

var byName = sync.OnceValue(func() map[string]*Constant {
	rows := map[string]*Constant{}
	for i := range Constants() {
		rows[Constants()[i].Name] = &Constants()[i]
	}
	return rows
})

// Value returns the value of the constant of a name.
func Value(name string) float64 { return Named(name).Value }

// parameter returns the constant as a parameter of a calibration.
func (c Constant) parameter() Parameter {
	return Parameter{Value: c.Value, Unit: c.Unit, Low: c.Range[0], High: c.Range[1], Basis: sharing.BasisPrior,
		Source: string(c.Source), Independent: profile.Optional[float64]{}}
}

// Shifted is the quantity z standard deviations to its bad side (z > 0) or good side. What is even between bounds stays
// within them.
func (c *Constant) Shifted(z float64) float64 {
	z *= float64(c.Worse)
	if c.Sigma > 0 {
		return c.Value * math.Exp(z*c.Sigma)
	}
	return min(max(c.Value+z*(c.Spread[1]-c.Spread[0])/math.Sqrt(12), c.Spread[0]), c.Spread[1])
}

// The quantities that outcomes rest on where nothing was measured, as indices into a Setting: the first rows of the
// table of constants, in its order.
const (
	DecodeEfficiency = iota
	StepPerLayer
	PrefillPerLayer
	PrefillEfficiency
	HostFraction
	SMDecoding
	SMOther
	SliceDecoding
	SliceOther
	TurnsOverhead
	MPSStepPerLayer
	MPSBlocking
	LoadError
	BusyError
	AloneError
	Burstiness
	LengthSigma
	priorCount
)

// Setting is a value for each quantity.
type Setting [priorCount]float64

// Priors are the constants of the quantities.
var Priors = [priorCount]Constant(Constants())

// Medians is the setting in which every quantity has its median.
var Medians = func() (s Setting) {
	for i := range Priors {
		s[i] = Priors[i].Value
	}
	return s
}()

// LaunchBusy is the part of a launch-bound prefill in which the GPU is active.
var LaunchBusy = Value("launch_busy")
