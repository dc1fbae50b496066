package cost

import (
	"math"

	"github.com/cotenant/cotenant/internal/problem"
)

// hoursPerDay is the day over which recovered hours are counted.
const hoursPerDay = 24

// CapacityHours returns the GPU-hours a day that sharing frees when each GPU takes tenants workloads in place of
// one: 24 * gpus * (1 - 1/tenants). It is capacity that need not be bought, whether or not anyone was using it.
func CapacityHours(gpus, tenants int) (float64, error) {
	if err := fleetErr(gpus, tenants, 0); err != nil {
		return 0, err
	}
	return hoursPerDay * float64(gpus) * float64(tenants-1) / float64(tenants), nil
}

// UtilisationHours returns the GPU-hours a day of work that sharing adds when each workload keeps a GPU busy for a
// fraction u of the time, from 0 to 1: 24 * gpus * (min(1, tenants*u) - u). A GPU that is already full gains
// nothing. u is used as it is, not rounded.
func UtilisationHours(gpus, tenants int, u float64) (float64, error) {
	if err := fleetErr(gpus, tenants, u); err != nil {
		return 0, err
	}
	// The conversions forbid a fused multiply-add, which rounds differently.
	gain := math.Min(1, float64(float64(tenants)*u)) - u
	return hoursPerDay * float64(gpus) * gain, nil
}

func fleetErr(gpus, tenants int, u float64) error {
	var l problem.List
	l.If(gpus < 0 || gpus > 1_000_000_000, "gpus", "give 0 to 1000000000", "%d is no number of GPUs", gpus)
	l.If(tenants < 1, "tenants", "give 1 or more", "a GPU is not shared by %d", tenants)
	l.If(!(u >= 0 && u <= 1), "utilisation", "give a fraction from 0 to 1", "%v is out of range", u)
	return inputErr(&l)
}

// SharedFleet is a number of GPUs of one kind, each shared by equally many
// like workloads: the inputs of the economics article's calculator.
type SharedFleet struct {
	GPUs            int
	PricePerGPUHour Money
	Tenants         int     // workloads on each GPU
	Utilisation     float64 // fraction of a GPU that one workload keeps busy, 0 to 1
	Overhead        PPM     // of the mechanism; see OverheadRange
}

// FleetFigures holds the effects of sharing on a SharedFleet.
type FleetFigures struct {
	PerWorkloadHour Money `json:"cost_per_workload_hour"`
	// Saving is that of one workload against a GPU of its own.
	Saving Saving `json:"saving_per_workload"`
	// CapacityHours and UtilisationHours are GPU-hours a day over all GPUs; see the functions of these names.
	CapacityHours    float64 `json:"capacity_gpu_hours_per_day"`
	UtilisationHours float64 `json:"utilisation_gpu_hours_per_day"`
}

// Figures computes the figures. Its error names everything wrong with f.
func (f SharedFleet) Figures() (FleetFigures, error) {
	var l problem.List
	l.If(f.PricePerGPUHour.micros == 0, "price", "give what a GPU costs", "0 leaves nothing to save")
	each, err := PerWorkloadHour(f.PricePerGPUHour, f.Tenants, f.Overhead)
	addInput(&l, "", err)
	addInput(&l, "", fleetErr(f.GPUs, f.Tenants, f.Utilisation))
	if lerr := inputErr(&l); lerr != nil {
		return FleetFigures{}, lerr
	}
	if err != nil {
		return FleetFigures{}, err
	}
	saving, err := NewSaving(f.PricePerGPUHour, each)
	if err != nil {
		return FleetFigures{}, err
	}
	// The counts were checked above.
	capacity, _ := CapacityHours(f.GPUs, f.Tenants)
	work, _ := UtilisationHours(f.GPUs, f.Tenants, f.Utilisation)
	return FleetFigures{each, saving, capacity, work}, nil
}
