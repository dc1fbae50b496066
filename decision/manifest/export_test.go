package manifest

import (
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
)

// Mixed gives tests outside the package what Build takes for a group of every
// mechanism.
func Mixed(t testing.TB) (*decision.Fleet, *decision.Result, Options) {
	s := mixed(t)
	s.result.Layout, _ = layout.Observe(s.nodes)
	return s.fleet, s.result, s.opts
}

var (
	EveryDelivery = everyDelivery
	Find          = find
	HasCode       = hasCode
	Field         = field
	Text          = text
	Values        = values
	LimitsOf      = limitsOf
	Selects       = selects
)
