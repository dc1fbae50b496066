package cost

import (
	"fmt"
	"slices"
	"strings"
)

// Bill is what tenants pay over several attributions: the GPUs of a node
// or the hours of a month. Its amounts add up to Price exactly.
type Bill struct {
	Price   Money    `json:"price"`
	Charges []Charge `json:"charges"` // by tenant name
	Idle    Money    `json:"idle"`
	// IdleShare is the part of the price that Idle is, for display.
	IdleShare PPM `json:"idle_share"`
}

// NewStatement adds attributions of one currency up, tenant by tenant. Since
// each adds up to its price, so does the statement: nothing is rounded again.
func NewBill(attributions ...Split) (Bill, error) {
	s := Bill{Charges: []Charge{}}
	at := map[string]int{}
	for i, a := range attributions {
		err := accumulate(&s.Price, a.Price)
		if err == nil {
			err = accumulate(&s.Idle, a.Idle)
		}
		for _, c := range a.Charges {
			j, ok := at[c.Tenant]
			if !ok {
				j = len(s.Charges)
				at[c.Tenant] = j
				s.Charges = append(s.Charges, Charge{Tenant: c.Tenant})
			}
			if err == nil {
				err = accumulate(&s.Charges[j].Amount, c.Amount)
			}
		}
		if err != nil {
			return Bill{}, fmt.Errorf("attribution %d: %w", i, err)
		}
	}
	slices.SortFunc(s.Charges, func(a, b Charge) int { return strings.Compare(a.Tenant, b.Tenant) })
	if s.Price.micros > 0 {
		var err error
		for i := range s.Charges {
			c := &s.Charges[i]
			if c.Share, err = ratio(c.Amount.micros, s.Price.micros); err != nil {
				return Bill{}, err
			}
		}
		if s.IdleShare, err = ratio(s.Idle.micros, s.Price.micros); err != nil {
			return Bill{}, err
		}
	}
	return s, nil
}

func accumulate(sum *Money, m Money) error {
	v, err := sum.Add(m)
	if err == nil {
		*sum = v
	}
	return err
}
