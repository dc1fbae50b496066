package cost

import (
	"fmt"
	"slices"
	"strings"
)

// Bill adds up the charges of tenants over several splits: the GPUs of a node or the
// hours of a month. Its amounts add up to Price exactly.
type Bill struct {
	Price   Money    `json:"price"`
	Charges []Charge `json:"charges"` // by tenant name
	Idle    Money    `json:"idle"`
	// IdleShare is the part of the price that Idle is, for display.
	IdleShare PPM `json:"idle_share"`
}

// NewBill adds splits of one currency up, tenant by tenant. Since each adds up
// to its price, so does the bill: nothing is rounded again.
func NewBill(splits ...Split) (Bill, error) {
	b := Bill{Charges: []Charge{}}
	at := map[string]int{}
	for i, s := range splits {
		err := accumulate(&b.Price, s.Price)
		if err == nil {
			err = accumulate(&b.Idle, s.Idle)
		}
		for _, c := range s.Charges {
			j, ok := at[c.Tenant]
			if !ok {
				j = len(b.Charges)
				at[c.Tenant] = j
				b.Charges = append(b.Charges, Charge{Tenant: c.Tenant})
			}
			if err == nil {
				err = accumulate(&b.Charges[j].Amount, c.Amount)
			}
		}
		if err != nil {
			return Bill{}, fmt.Errorf("split %d: %w", i, err)
		}
	}
	slices.SortFunc(b.Charges, func(x, y Charge) int { return strings.Compare(x.Tenant, y.Tenant) })
	if b.Price.micros > 0 {
		var err error
		for i := range b.Charges {
			c := &b.Charges[i]
			if c.Share, err = ratio(c.Amount.micros, b.Price.micros); err != nil {
				return Bill{}, err
			}
		}
		if b.IdleShare, err = ratio(b.Idle.micros, b.Price.micros); err != nil {
			return Bill{}, err
		}
	}
	return b, nil
}

func accumulate(sum *Money, m Money) error {
	v, err := sum.Add(m)
	if err == nil {
		*sum = v
	}
	return err
}
