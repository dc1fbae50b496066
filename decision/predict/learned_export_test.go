package predict

import "github.com/cotenant/cotenant/decision/predict/profile"

// Corrected is a row's prediction as it would be with what was learned, which may be nil.
func Corrected(l *Learned, m *Measured, neighbours []profile.ProfileRef) Prediction {
	p := *m.Prediction
	if l != nil {
		l.apply(m.Row.Mechanism, SoloOf(m).Uncontended(), neighbours, &p)
	}
	return p
}

// SoloOf is a profile that says of a row's tenant what learning asks of it.
func SoloOf(m *Measured) *profile.Solo {
	r := m.Row
	return &profile.Solo{Server: r.Server, Load: r.Load, TimeSlicing: &profile.SoloProfile{Kind: r.Kind, Engine: r.Engine, Server: r.Server, Load: r.Load}}
}

// Mixes is the number of tenants in mixes that a metric's errors are of.
func (l *Learned) Mixes(m profile.Metric) (n int) {
	for key, g := range l.groups {
		if key.metric == m {
			n += len(g.items)
		}
	}
	return n
}
