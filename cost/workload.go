package cost

import (
	"fmt"
	"math"
	"math/big"

	"github.com/cotenant/cotenant/internal/problem"
)

// HoursPerMonth is the month that cloud price lists and the sources count with.
const HoursPerMonth = 730

// hoursPerDay is the day over which recovered hours are counted.
const hoursPerDay = 24

// PerWorkloadHour returns what one of the tenants that share a GPU pays for an
// hour: price / tenants * (1 + overhead), exact inside and rounded once. It is
// the formula that the calculator of asleekgeek-sharing is consistent with
// (3.50 among 4 with 8 % is 0.945). The overhead makes a tenant's figure comparable with an
// exclusive GPU's: it counts the capacity that sharing itself uses up. It does
// not allocate, so that schedulers can call it.
func PerWorkloadHour(price Money, tenants int, overhead PPM) (Money, error) {
	return perShare(price, 1, int64(tenants), overhead, "tenants")
}

// PerShareHour returns the price of part out of whole equal shares of a GPU
// for an hour, with overhead: price * part / whole * (1 + overhead), exact
// inside and rounded once. For a MIG instance part and whole are slices.
func PerShareHour(price Money, part, whole int64, overhead PPM) (Money, error) {
	return perShare(price, part, whole, overhead, "whole")
}

const (
	maxShares   = 1_000_000_000 // with maxOverhead, keeps the products within 64 bits
	maxOverhead = 1000 * Whole
)

func perShare(price Money, part, whole int64, overhead PPM, wholeName string) (Money, error) {
	if price.micros < 0 || part < 1 || whole < part || whole > maxShares || overhead < 0 || overhead > maxOverhead {
		return Money{}, shareErr(price, part, whole, overhead, wholeName)
	}
	return price.MulFrac(part*int64(Whole+overhead), whole*int64(Whole))
}

func shareErr(price Money, part, whole int64, overhead PPM, wholeName string) error {
	var l problem.List
	if price.micros < 0 {
		l.Addf("price", "give 0 or more", "%s is below zero", price)
	}
	switch {
	case whole < 1 || whole > maxShares:
		l.Addf(wholeName, fmt.Sprintf("give 1 to %d", maxShares), "a GPU is not shared by %d", whole)
	case part < 1 || part > whole:
		l.Addf("part", fmt.Sprintf("give 1 to %d", whole), "%d is no part of %d shares", part, whole)
	}
	if overhead < 0 || overhead > maxOverhead {
		l.Addf("overhead", fmt.Sprintf("give 0%% to %s", maxOverhead), "%s is out of range", overhead)
	}
	return inputErr(&l)
}

// Monthly returns a month of an hourly amount: 730 hours.
func Monthly(hourly Money) (Money, error) { return hourly.Mul(HoursPerMonth) }

// Annual returns twelve months of an hourly amount.
func Annual(hourly Money) (Money, error) { return hourly.Mul(12 * HoursPerMonth) }

// CapacityHours returns the GPU-hours a day that sharing frees when each GPU
// takes tenants workloads in place of one: 24 * gpus * (1 - 1/tenants). It is
// capacity that need not be bought, whether or not anyone was using it.
func CapacityHours(gpus, tenants int) (float64, error) {
	if err := fleetErr(gpus, tenants, 0); err != nil {
		return 0, err
	}
	return hoursPerDay * float64(gpus) * float64(tenants-1) / float64(tenants), nil
}

// UtilisationHours returns the GPU-hours a day of work that sharing adds when
// each workload keeps a GPU busy for a fraction u of the time, from 0 to 1:
// 24 * gpus * (min(1, tenants*u) - u). A GPU that is already full gains
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
	if gpus < 0 || gpus > 1_000_000_000 {
		l.Addf("gpus", "give 0 to 1000000000", "%d is no number of GPUs", gpus)
	}
	if tenants < 1 {
		l.Addf("tenants", "give 1 or more", "a GPU is not shared by %d", tenants)
	}
	if !(u >= 0 && u <= 1) {
		l.Addf("utilisation", "give a fraction from 0 to 1", "%v is out of range", u)
	}
	return inputErr(&l)
}

// SharedFleet is a number of GPUs of one kind, each shared by equally many
// like workloads: the inputs of the calculator of asleekgeek-sharing.
type SharedFleet struct {
	GPUs            int
	PricePerGPUHour Money
	Tenants         int     // workloads on each GPU
	Utilisation     float64 // fraction of a GPU that one workload keeps busy, 0 to 1
	Overhead        PPM     // of the mechanism; see OverheadRange
}

// FleetFigures is what sharing does for a SharedFleet.
type FleetFigures struct {
	PerWorkloadHour Money `json:"cost_per_workload_hour"`
	// Saving is that of one workload against a GPU of its own.
	Saving Saving `json:"saving_per_workload"`
	// CapacityHours and UtilisationHours are GPU-hours a day over all GPUs; see
	// the functions of these names.
	CapacityHours    float64 `json:"capacity_gpu_hours_per_day"`
	UtilisationHours float64 `json:"utilisation_gpu_hours_per_day"`
}

// Figures computes the figures. Its error names everything wrong with f.
func (f SharedFleet) Figures() (FleetFigures, error) {
	var l problem.List
	if f.PricePerGPUHour.micros == 0 {
		l.Addf("price", "give what a GPU costs", "0 leaves nothing to save")
	}
	each, err := PerWorkloadHour(f.PricePerGPUHour, f.Tenants, f.Overhead)
	addInput(&l, "", err)
	addInput(&l, "", fleetErr(f.GPUs, f.Tenants, f.Utilisation))
	if lerr := inputErr(&l); lerr != nil {
		return FleetFigures{}, lerr
	}
	if err != nil {
		return FleetFigures{}, err
	}
	out := FleetFigures{PerWorkloadHour: each}
	if out.Saving, err = NewSaving(f.PricePerGPUHour, each); err != nil {
		return FleetFigures{}, err
	}
	if out.CapacityHours, err = CapacityHours(f.GPUs, f.Tenants); err != nil {
		return FleetFigures{}, err
	}
	if out.UtilisationHours, err = UtilisationHours(f.GPUs, f.Tenants, f.Utilisation); err != nil {
		return FleetFigures{}, err
	}
	return out, nil
}

// PerUnits returns what a number of units of work costs on a GPU (or a share
// of one) at an hourly price that does ratePerSecond of them each second: a
// million tokens at 2500 tokens/s, say. The rate is taken as the exact binary
// number it is and the result is rounded once.
func PerUnits(hourly Money, units int64, ratePerSecond float64) (Money, error) {
	var l problem.List
	if units < 0 {
		l.Addf("units", "give 0 or more", "%d is below zero", units)
	}
	if !(ratePerSecond > 0) || math.IsInf(ratePerSecond, 0) {
		l.Addf("ratePerSecond", "give a finite rate above 0", "%v is no rate", ratePerSecond)
	}
	if err := inputErr(&l); err != nil {
		return Money{}, err
	}
	r := new(big.Rat).SetFloat64(ratePerSecond)
	r.Mul(r, new(big.Rat).SetInt64(3600))
	r.Quo(new(big.Rat).SetInt64(units), r)
	q := roundRat(r.Mul(r, new(big.Rat).SetInt64(hourly.micros)))
	if !q.IsInt64() {
		return Money{}, ErrOverflow
	}
	return hourly.with(q.Int64(), hourly.currency)
}
