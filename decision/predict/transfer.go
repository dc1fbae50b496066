package predict

import (
	"fmt"
	"math"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// transfer says whether the predictor's parameters carry over to the GPU of a
// profile, and widens the intervals of what is predicted there.
func (p *Predictor) transfer(mechanism sharing.Mechanism, gpu string, t *tenantModel) error {
	if gpu == "" || sameName(gpu, p.GPU) {
		return nil
	}
	if SimulatedGPU(gpu) || SimulatedGPU(p.GPU) {
		return fmt.Errorf("%w: %s; calibrated on %s (a simulation says nothing of a GPU, nor a GPU of it)", ErrOtherGPU,
			problem.Clip(gpu), problem.Clip(p.GPU))
	}
	there, err := sharing.LookupGPU(gpu)
	here, err2 := sharing.LookupGPU(p.GPU)
	if err == nil && there == here {
		return nil
	}
	t.transferred = true
	if err != nil || err2 != nil {
		unknown := gpu
		if err == nil {
			unknown = p.GPU
		}
		wider := costs.Transferred[mechanism][1]
		t.note(wider, "carried over from %s to %s; nothing is known of %s: the interval under %s is wider by up to %.0f%% "+
			"either way, which is assumed and was never measured; calibrate there",
			problem.Clip(p.GPU), problem.Clip(gpu), problem.Clip(unknown), mechanism, 100*wider)
		return nil
	}
	if mechanism == sharing.MechanismMPS && !p.KnowsMPS(there) {
		return fmt.Errorf("%w: %s, calibrated on %s; before Volta MPS clients shared one address space and scheduler, "+
			"so nothing carries over", ErrOtherGPU, there.Name, here.Name)
	}
	wider, says := costs.Transferred[mechanism][1], "carried over from %s to %s, of another architecture: the interval "+
		"under %s is wider by up to %.0f%% either way, which is assumed and was never measured; calibrate there"
	if there.Architecture == here.Architecture {
		wider, says = costs.Transferred[mechanism][0], "carried over from %s to %s, which widens the interval under %s by "+
			"up to %.0f%% either way; calibrate there for a narrower one"
	}
	t.note(wider, says, here.Name, there.Name, mechanism, 100*wider)
	return nil
}

// KnowsMPS reports whether what the predictor knows of MPS says anything of a GPU: MPS was another before Volta.
func (p *Predictor) KnowsMPS(on *sharing.GPU) bool {
	here, err := sharing.LookupGPU(p.GPU)
	return err != nil || (on.Architecture < sharing.ArchitectureVolta) == (here.Architecture < sharing.ArchitectureVolta)
}

// SimulatedGPU says whether a name is of a simulation, as package probe and
// cotenant measure name theirs: no statement about a product rests on it.
func SimulatedGPU(name string) bool { return sameName(name, "simulated GPU") }

// On is the predictor for a GPU and driver of whoever calibrates it there: what was measured or fitted on another
// GPU becomes transferred, and the errors to expect grow by those of a transfer, until it is fitted again.
func (p Predictor) On(gpu, driver string) Predictor {
	if !sameName(gpu, p.GPU) {
		k := 1
		there, err := sharing.LookupGPU(gpu)
		here, err2 := sharing.LookupGPU(p.GPU)
		known := err == nil && err2 == nil
		if known && there.Architecture == here.Architecture {
			k = 0
		}
		if !known || there != here {
			p.TimeSlicing = p.TimeSlicing.Widened(costs.Transferred[sharing.MechanismTimeSlicing][k])
			p.MPS = p.MPS.Widened(costs.Transferred[sharing.MechanismMPS][k])
		}
		for _, q := range p.Parameters.Named() {
			if q.Basis == sharing.BasisMeasured || q.Basis == sharing.BasisFitted {
				q.Basis, q.Independent = sharing.BasisTransferred, profile.Optional[float64]{}
			}
		}
	}
	p.GPU, p.Driver = gpu, driver
	return p
}

// SliceSlowdown returns the factor by which work is slower on a slice with shares of a GPU's SMs and memory
// bandwidth than on the whole of it, and that of decoding, which is bound by bandwidth; priors.
func SliceSlowdown(sms, bandwidth float64) (other, decoding float64) {
	return costs.OnSlice(costs.Medians[costs.SliceOther], sms),
		math.Pow(1/bandwidth, costs.Medians[costs.SliceDecoding])
}
