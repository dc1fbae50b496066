package predict

import "github.com/cotenant/cotenant/decision/predict/profile"

// SparedAlone says that a workload's profile under MPS was spared most of what MPS costs it.
func (p *Predictor) SparedAlone(s *profile.Solo) bool {
	if s.MPS == nil {
		return false
	}
	_, spared := p.unspared(s.MPS, s.Siblings)
	return spared
}
