package cost

import (
	"fmt"

	"github.com/cotenant/cotenant/internal/problem"
)

// TokenRates are the tokens that a server takes in and gives each second. 0 is none, or not known.
type TokenRates struct {
	Input, Output float64
	// Good are the output tokens of requests that kept their objective.
	Good float64
}

// TokenCosts say what a million tokens cost, by kind. Each kind bears the whole price: they are three answers to
// one question and do not add up. A kind of which there were none, or nobody knows, is missing.
type TokenCosts struct {
	Input  Optional[Money] `json:"cost_per_million_input_tokens,omitzero"`
	Output Optional[Money] `json:"cost_per_million_output_tokens,omitzero"`
	Good   Optional[Money] `json:"cost_per_million_good_tokens,omitzero"`
}

// PerMillionTokens returns what a million tokens of each kind cost one of so many
// tenants that have GPUs of an hourly price in equal parts.
func PerMillionTokens(hourly Money, tenants int, rates TokenRates) (TokenCosts, error) {
	var c TokenCosts
	if tenants < 1 {
		var l problem.List
		l.Addf("tenants", "give 1 or more", "there are %d", tenants)
		return c, inputErr(&l)
	}
	for _, kind := range []struct {
		name string
		rate float64
		to   *Optional[Money]
	}{{"input", rates.Input, &c.Input}, {"output", rates.Output, &c.Output}, {"good", rates.Good, &c.Good}} {
		if kind.rate == 0 {
			continue
		}
		m, err := PerUnits(hourly, 1e6, kind.rate*float64(tenants))
		if err != nil {
			return TokenCosts{}, fmt.Errorf("%s tokens: %w", kind.name, err)
		}
		*kind.to = Some(m)
	}
	return c, nil
}

// Texts are the costs of input, output and good tokens for a table: rounded to
// three decimals, "-" where one is missing.
func (c TokenCosts) Texts() []string {
	var out []string
	for _, o := range []Optional[Money]{c.Input, c.Output, c.Good} {
		if m, ok := o.Get(); ok {
			out = append(out, m.Round(3).String())
		} else {
			out = append(out, "-")
		}
	}
	return out
}
