package predict_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Two servers were measured alone. What will each see beside the other?
func Example() {
	profiles, err := profile.LoadProfiles("testdata/h200-colocation.json")
	if err != nil {
		log.Fatal(err)
	}
	load := profile.Load{Concurrency: 4, Prompt: 128, Output: 64}
	chat, err1 := profiles.Solo(profile.Server{Model: "8b"}, load)
	tags, err2 := profiles.Solo(profile.Server{Model: "1b"}, load)
	if err := errors.Join(err1, err2); err != nil {
		log.Fatal(err)
	}
	predictor := predict.NewPredictor()
	for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
		tenants, err := predictor.Predict(m, []profile.Solo{chat, tags}, predict.MethodClosedForm)
		if err != nil {
			log.Fatal(err)
		}
		for i, name := range []string{"chat", "tags"} {
			tpot, _ := tenants[i].Get(profile.MetricTPOTP50)
			fmt.Printf("%s: %s TPOT %.1f ms (%.1f to %.1f), %.1fx\n", m, name, tpot.Value, tpot.Low, tpot.High, tenants[i].Slowdown.Value)
		}
	}
	// Output:
	// time-slicing: chat TPOT 14.5 ms (13.2 to 16.1), 2.0x
	// time-slicing: tags TPOT 4.4 ms (4.0 to 4.9), 1.9x
	// mps: chat TPOT 9.5 ms (8.6 to 10.6), 1.3x
	// mps: tags TPOT 4.5 ms (4.1 to 5.0), 1.9x
}

// A slice of an eighth of the GPU slows decoding by its share of the bandwidth, and other work by the SMs that it
// fills.
func ExampleSliceSlowdown() {
	other, decoding := predict.SliceSlowdown(16.0/132, 1.0/8)
	fmt.Printf("%.1f %.1f\n", other, decoding)
	// Output: 4.1 6.9
}

// An SLO whose limit lies within the interval is unknown, and says what would settle it.
func ExampleInterval_Below() {
	e2e := profile.Interval{Value: 300, Low: 270, High: 330}
	fmt.Println(e2e.Below(400), e2e.Below(310), e2e.Below(250))
	// Output: yes unknown no
}
