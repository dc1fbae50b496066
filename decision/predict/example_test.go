package predict_test

import (
	"fmt"
	"os"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// Two servers were measured alone. What will each see beside the other?
func ExamplePredictor_Predict() {
	data, err := os.ReadFile("../../examples/predict/testdata/h200-colocation.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	rows, err := predict.ParseRows(data)
	if err != nil {
		fmt.Println(err)
		return
	}
	alone, err := rows.Profiles()
	if err != nil {
		fmt.Println(err)
		return
	}
	var profiles predict.Profiles
	if err := profiles.Add(alone...); err != nil {
		fmt.Println(err)
		return
	}
	load := predict.Load{Concurrency: 4, Prompt: 128, Output: 64}
	var group []predict.Solo
	for _, model := range []string{"8b", "1b"} {
		s, err := profiles.Solo(predict.Server{"model": model}, load)
		if err != nil {
			fmt.Println(err)
			return
		}
		group = append(group, s)
	}
	predictor := predict.NewPredictor()
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		predictions, err := predictor.Predict(m, group, predict.MethodClosedForm)
		if err != nil {
			fmt.Println(err)
			return
		}
		for i, p := range predictions {
			tpot, _ := p.Get(predict.MetricTPOTP50)
			fmt.Printf("%s: %s TPOT %.1f ms (%.1f to %.1f), %.1fx\n", m, group[i].Server.Model(), tpot.Value, tpot.Low, tpot.High, p.Slowdown.Value)
		}
	}
	// Output:
	// time-slicing: 8b TPOT 14.3 ms (13.1 to 15.7), 1.9x
	// time-slicing: 1b TPOT 4.3 ms (3.9 to 4.7), 1.8x
	// mps: 8b TPOT 9.6 ms (9.0 to 10.3), 1.3x
	// mps: 1b TPOT 4.2 ms (3.9 to 4.5), 1.8x
}

// From which number of saturated pods on does which mechanism answer faster?
// The figures are those of YOLOS-small on an A100.
func ExampleBreakEven() {
	ms := func(n int, v float64) timeslice.SaturatedPoint {
		return timeslice.SaturatedPoint{Tenants: n, Latency: time.Duration(v * float64(time.Millisecond))}
	}
	mps, err := predict.FitSaturated(sharing.MechanismMPS, []timeslice.SaturatedPoint{ms(1, 88), ms(3, 164), ms(5, 240.9), ms(7, 319.8)})
	if err != nil {
		fmt.Println(err)
		return
	}
	mig, err := predict.FitSaturated(sharing.MechanismMIG, []timeslice.SaturatedPoint{ms(1, 342.4), ms(7, 344.2)})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range predict.BreakEven(mps, mig, 10) {
		fmt.Printf("from %d: %s, %v against %v\n", c.Tenants, c.Faster, c.Latency.Round(time.Millisecond), c.SlowerLatency.Round(time.Millisecond))
	}
	// Output:
	// from 1: mps, 88ms against 343ms
	// from 8: mig, 343ms against 358ms
}

// A slice of which nothing but the whole GPU was measured is a prior.
func ExampleFitSlice() {
	c, err := predict.FitSlice([]predict.SlicePoint{{SMFraction: 1, Latency: 88 * time.Millisecond}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Latency(16.0/132).Round(time.Millisecond), c.Basis)
	// Output: 357ms prior
}

// An SLO whose limit lies within the interval is unknown, and says what would
// settle it.
func ExampleInterval_Below() {
	e2e := predict.Interval{Value: 300, Low: 270, High: 330}
	fmt.Println(e2e.Below(400), e2e.Below(310), e2e.Below(250))
	// Output: yes unknown no
}
