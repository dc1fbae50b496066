// SPDX-License-Identifier: Apache-2.0

package observe_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/cotenant/cotenant/decision/observe"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// pages reads metrics pages that were kept of a server on an H100.
func pages(name string) []serving.Reading {
	f, err := os.Open("testdata/" + name)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		log.Fatal(err)
	}
	readings, err := serving.Parse(z)
	if err != nil {
		log.Fatal(err)
	}
	return readings
}

// What do a step and a prefill of a server in production take, and what do its pages not tell?
func ExampleProfiles() {
	profiles, err := observe.Profiles(pages("h100-vllm.prom.gz"))
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range profiles {
		f := p.Fit
		fmt.Printf("%s on %s at %.1f requests/s, from %d pairs of pages\n", p.Server.Model, p.Engine, p.Load.Rate, f.Windows)
		fmt.Printf("a step of %.1f sequences: %.1f ms (%.1f to %.1f)\n", f.Batch, f.StepAt.Value, f.StepAt.Low, f.StepAt.High)
		fmt.Printf("a prefill of %.0f tokens: %.1f ms (%.1f to %.1f)\n", f.Prompt, f.PrefillAt.Value, f.PrefillAt.Low, f.PrefillAt.High)
		for _, u := range f.Unknown {
			fmt.Println("not told:", u)
		}
	}
	// Output:
	// rand-8b on vllm at 6.5 requests/s, from 17 pairs of pages
	// a step of 17.2 sequences: 9.4 ms (9.1 to 9.7)
	// a prefill of 327 tokens: 21.6 ms (19.4 to 23.9)
}

// A server that was started again with another model makes no profile with what came before: a step would be of both.
func ExampleProfiles_mixed() {
	readings := pages("h100-vllm.prom.gz")
	for i := range readings[9:] {
		readings[9+i].Model = "rand-1b"
	}
	_, err := observe.Profiles(readings)
	fmt.Println(errors.Is(err, observe.ErrMixed), err)
	before, err := observe.Profiles(readings[:9])
	fmt.Println(len(before), err)
	// Output:
	// true observe: pages of more than one engine or model: vllm "rand-8b" and vllm "rand-1b" of replica "0": give one server's pages, by instance
	// 1 <nil>
}

// What would the server see beside a second one of its kind, without a benchmark of either?
func ExampleProfile() {
	profiles, err := observe.Profiles(pages("h100-vllm.prom.gz"))
	if err != nil {
		log.Fatal(err)
	}
	seen := profiles[0].SoloProfile
	seen.GPU = "H100 80GB HBM3" // a page does not say
	known, err := profile.NewProfiles(seen)
	if err != nil {
		log.Fatal(err)
	}
	solo, err := known.Solo(seen.Server, seen.Load)
	if err != nil {
		log.Fatal(err)
	}
	predictor := predict.NewPredictor()
	beside, err := predictor.Predict(sharing.MechanismTimeSlicing, []profile.Solo{solo, solo}, predict.MethodClosedForm)
	if err != nil {
		log.Fatal(err)
	}
	alone, _ := seen.Metric(profile.MetricTPOTP50)
	tpot, _ := beside[0].Get(profile.MetricTPOTP50)
	fmt.Printf("%.1f ms a token alone, %.1f (%.1f to %.1f) beside another, %v\n", alone, tpot.Value, tpot.Low, tpot.High, beside[0].Basis)
	// Output:
	// 11.9 ms a token alone, 22.4 (18.3 to 27.4) beside another, transferred
}
