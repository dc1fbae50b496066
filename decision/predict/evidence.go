package predict

import (
	"slices"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// Evidence says what a prediction rests on, which decides how wide its intervals are.
type Evidence uint8

// The kinds of evidence.
const (
	// EvidenceCalibrated: all of the group are servers of engines that the models were calibrated on.
	EvidenceCalibrated Evidence = iota
	// EvidenceResponse: the tenant was measured beside standard neighbours, and so were the others under MPS.
	EvidenceResponse
	// EvidenceIsolated: of the tenant only figures alone are known.
	EvidenceIsolated
)

var evidences = enum.Of[Evidence](profile.ErrUnknownName, "evidence", "calibrated", "response", "isolated")

// calibratedOn says that all tenants are servers whose steps the models were calibrated on.
func calibratedOn(models []tenantModel) bool {
	return !slices.ContainsFunc(models, func(t tenantModel) bool {
		return t.kind != profile.KindServer || t.gaps || !t.seen
	})
}

// unseenWidths are half-widths of the 90% intervals of what nothing was calibrated on: of times and rates, of tails, of
// the first token and of its tail. To them come, in quadrature, shares of the distance of the simulation from the
// measured response, and of what is doubtful of the tenant itself (its host's pace above all). They are the conformal
// ones of whole engines and kinds of tenants left out of decision/predict/testdata: each class is held to 82 to 97% by
// the widths that the others need.
type unseenWidths struct{ times, tails, first, firstTail, apart, doubt float64 }

var unseenByMechanism = map[sharing.Mechanism]unseenWidths{
	sharing.MechanismTimeSlicing: {times: 0.15, tails: 0.2, first: 0.29, firstTail: 0.46, apart: 0.5, doubt: 0.75},
	sharing.MechanismMPS:         {times: 0.12, tails: 0.18, first: 0.25, firstTail: 0.43, apart: 0.75, doubt: 1.25},
}

func (w *unseenWidths) of(m profile.Metric) float64 {
	switch m {
	case profile.MetricTTFTP50:
		return w.first
	case profile.MetricTTFTP99:
		return w.firstTail
	case profile.MetricTPOTP99, profile.MetricE2EP99, profile.MetricStepP99:
		return w.tails
	}
	return w.times
}
