// SPDX-License-Identifier: Apache-2.0

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

// RunAlone simulates the workload of a profile alone.
func (p *Predictor) RunAlone(s *profile.SoloProfile) (profile.Figures, error) {
	t, err := p.isolated(s)
	if err != nil {
		return profile.Figures{}, err
	}
	out, err := p.runEngines(s.Mechanism, []tenantModel{t})
	if err != nil {
		return profile.Figures{}, err
	}
	return out[0].Figures, nil
}
