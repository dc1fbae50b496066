// SPDX-License-Identifier: Apache-2.0

package cost_test

import (
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
)

// Three teams share a GPU: its month is split by the GPU-seconds of each, to the last cent.
func Example() {
	hour, err := cost.ParsePrice("3.25 USD")
	if err != nil {
		log.Fatal(err)
	}
	month, err := cost.Monthly(hour)
	if err != nil {
		log.Fatal(err)
	}
	for team, cents := range cost.Apportion(month.Micros()/10_000, []int64{700, 200, 100}) {
		part, err := cost.FromMicros(cents*10_000, month.Currency())
		fmt.Println("team", team, part, err)
	}
	// Output:
	// team 0 1660.75 USD <nil>
	// team 1 474.50 USD <nil>
	// team 2 237.25 USD <nil>
}

func ExamplePerWorkloadHour() {
	price, _ := cost.ParsePrice("3.50 USD")
	each, err := cost.PerWorkloadHour(price, 4, 8*cost.Percent)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(each, "shown as", each.Round(2))
	// Output: 0.945 USD shown as 0.95 USD
}

// The same two CPU nodes on one side, on both, on neither.
func ExampleCompareCompositions() {
	gpu, _ := cost.ParsePrice("2.24 USD")
	cpu, _ := cost.ParsePrice("0.08 USD")
	before := cost.Composition{{Name: "g6e", Count: 2, PricePerHour: gpu}}
	after := cost.Composition{{Name: "g6e", Count: 1, PricePerHour: gpu}, {Name: "t3.large", Count: 2, PricePerHour: cpu, Auxiliary: true}}
	for _, counting := range cost.Countings() {
		s, err := cost.CompareCompositions(before, after, counting)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(counting, s.Monthly, s.Fraction.RoundPercent(1))
	}
	// Output:
	// as-given 1518.40 USD 46.4%
	// auxiliary-on-both 1635.20 USD 48.3%
	// auxiliary-on-neither 1635.20 USD 50%
}

func ExampleBreakEvenRevenue() {
	saving, _ := cost.ParseMoney("1518.40 USD")
	loss, err := cost.RevenueLoss(618*time.Millisecond, 1*cost.Percent)
	if err != nil {
		log.Fatal(err)
	}
	revenue, err := cost.BreakEvenRevenue(saving, loss)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("losing %s of revenue, sharing pays below %s a month\n", loss, revenue.Round(2))
	// Output: losing 6.18% of revenue, sharing pays below 24569.58 USD a month
}

func ExampleOverheadRange() {
	low, high, ok := cost.OverheadRange(sharing.InfoFor(sharing.MechanismTimeSlicing).Overhead)
	fmt.Println(low, high, ok)
	_, _, ok = cost.OverheadRange(sharing.InfoFor(sharing.MechanismHAMi).Overhead)
	fmt.Println("HAMi:", ok)
	// Output:
	// 1% 11% true
	// HAMi: false
}

func ExampleMoney_MarshalJSON() {
	price, _ := cost.ParsePrice("9490 USD")
	b, err := json.Marshal(price)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(b))
	// Output: {"amount":"9490.00","currency":"USD"}
}

// Two tenants have a GPU of 3.25 USD an hour in equal parts; one of them takes in
// 4000 tokens/s, gives 1250, and 1000 of these belong to requests in time.
func ExamplePerMillionTokens() {
	hour, _ := cost.ParsePrice("3.25 USD")
	c, err := cost.PerMillionTokens(hour, 2, cost.TokenRates{Input: 4000, Output: 1250, Good: 1000})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Input, c.Output, c.Good)
	b, _ := json.Marshal(cost.TokenCosts{Output: c.Output}) // unknown kinds are left out
	fmt.Println(string(b))
	// Output:
	// 0.112847 USD 0.361111 USD 0.451389 USD
	// {"cost_per_million_output_tokens":{"amount":"0.361111","currency":"USD"}}
}

func ExamplePerUnits() {
	hour, _ := cost.ParsePrice("0.945 USD")
	million, err := cost.PerUnits(hour, 1_000_000, 1250)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(million, "for a million tokens at 1250 tokens/s")
	// Output: 0.21 USD for a million tokens at 1250 tokens/s
}
