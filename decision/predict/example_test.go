package predict_test

import (
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// Two servers were measured alone. What will each see beside the other?
func Example() {
	profiles, err := predict.LoadProfiles("../../examples/predict/testdata/h200-colocation.json")
	if err != nil {
		log.Fatal(err)
	}
	load := predict.Load{Concurrency: 4, Prompt: 128, Output: 64}
	chat, err1 := profiles.Solo(predict.Server{Model: "8b"}, load)
	tags, err2 := profiles.Solo(predict.Server{Model: "1b"}, load)
	if err := errors.Join(err1, err2); err != nil {
		log.Fatal(err)
	}
	predictor := predict.NewPredictor()
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		tenants, err := predictor.Predict(m, []predict.Solo{chat, tags}, predict.MethodClosedForm)
		if err != nil {
			log.Fatal(err)
		}
		for i, name := range []string{"chat", "tags"} {
			tpot, _ := tenants[i].Get(predict.MetricTPOTP50)
			fmt.Printf("%s: %s TPOT %.1f ms (%.1f to %.1f), %.1fx\n", m, name, tpot.Value, tpot.Low, tpot.High, tenants[i].Slowdown.Value)
		}
	}
	// Output:
	// time-slicing: chat TPOT 14.5 ms (13.2 to 16.1), 2.0x
	// time-slicing: tags TPOT 4.4 ms (4.0 to 4.9), 1.9x
	// mps: chat TPOT 9.5 ms (8.6 to 10.6), 1.3x
	// mps: tags TPOT 4.5 ms (4.1 to 5.0), 1.9x
}

// From which number of saturated pods on does which mechanism answer faster?
// The figures are those of YOLOS-small on an A100.
func ExampleCrossings() {
	ms := func(n int, v float64) timeslice.SaturatedPoint {
		return timeslice.SaturatedPoint{Tenants: n, Latency: time.Duration(v * float64(time.Millisecond))}
	}
	mps, err := predict.FitSaturated(sharing.MechanismMPS, []timeslice.SaturatedPoint{ms(1, 88), ms(3, 164), ms(5, 240.9), ms(7, 319.8)})
	if err != nil {
		log.Fatal(err)
	}
	mig, err := predict.FitSaturated(sharing.MechanismMIG, []timeslice.SaturatedPoint{ms(1, 342.4), ms(7, 344.2)})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range predict.Crossings(mps, mig, 10) {
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
		log.Fatal(err)
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
