package pages_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/decision/pages"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/mig"
)

// The first sentence of a page is the answer; its sections draw each pool's GPUs.
func ExampleDecide() {
	fleet, err := decision.LoadFleet("../../examples/quickstart/fleet.yaml")
	if err != nil {
		log.Fatal(err)
	}
	result, err := decision.Decide(context.Background(), fleet, decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	page := pages.Decide(fleet, result)
	fmt.Println(page.Answer)
	for _, section := range page.Sections[2:5] {
		fmt.Println(section.Title+":", section.Maps[0].Nodes[0].Name)
	}
	// Output:
	// The plan frees 12,439.20 USD a month. 5 of 5 workloads have a place, at 97% confidence, on 14 GPUs; 22 are there today.
	// dev: 2 of 6 GPUs in use
	// prod: 4 of 8 GPUs in use
	// train: 8 of 8 GPUs in use
}

// A change of what runs, with its money and each node's GPUs before and after.
func ExamplePlan() {
	fleet, err := decision.LoadFleet("../migrate/testdata/known.yaml")
	if err != nil {
		log.Fatal(err)
	}
	plan, err := migrate.Make(context.Background(), fleet, decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pages.Plan(plan).Answer)
	// Output:
	// The plan frees 18,980.00 USD a month. It empties 1 node of 4.
	// 4 nodes with GPUs today, 3 after.
}

// How many GPUs hold a demand for instances, in which layouts? A page is one file that opens without a network.
func ExamplePacked() {
	model, err := mig.Lookup("A100-SXM4-80GB")
	if err != nil {
		log.Fatal(err)
	}
	demand, err := mig.ParseCounts("1g.10gb=40,3g.40gb=12")
	if err != nil {
		log.Fatal(err)
	}
	packing, err := model.Pack(demand)
	if err != nil {
		log.Fatal(err)
	}
	page := pages.Packed(&packing)
	fmt.Println(page.Answer)
	var file bytes.Buffer
	if err := page.Write(&file); err != nil {
		log.Fatal(err)
	}
	fmt.Println("loads something:", bytes.Contains(file.Bytes(), []byte(" src=")))
	// Output:
	// 11 GPUs hold what is asked for; no fewer do.
	// loads something: false
}

// What a change of a GPU's layout destroys and creates.
func ExampleChanged() {
	model, err := mig.Lookup("A100-SXM4-80GB")
	if err != nil {
		log.Fatal(err)
	}
	have, err := model.ParseLayout("3g.40gb@4!busy,2g.20gb@0")
	if err != nil {
		log.Fatal(err)
	}
	plan, err := mig.Diff(model, have, []mig.Count{{Profile: "3g.40gb", N: 2}}, mig.DiffOptions{})
	if err != nil {
		log.Fatal(err)
	}
	page := pages.Changed(&plan)
	fmt.Println(page.Answer)
	for _, m := range page.Sections[1].Maps {
		fmt.Print(m.Title + ":")
		for _, slice := range m.Nodes[0].GPUs[0].Parts {
			fmt.Printf(" %s (%.0f%%)", slice.Name, 100*slice.Share)
		}
		fmt.Println()
	}
	// Output:
	// 1 instance destroyed, 1 created, 1 kept.
	// Before: 2g.20gb (25%) free (12%) free (12%) 3g.40gb (50%)
	// After: 3g.40gb (50%) 3g.40gb (50%)
}

// How far are predictions from what was measured, here of an H100 by the constants of an H200?
func ExamplePredicted() {
	rows, err := profile.LoadRows("../predict/testdata/h100-colocation.json")
	if err != nil {
		log.Fatal(err)
	}
	predictor := predict.NewPredictor()
	measured, err := predictor.PredictRows(predict.MethodClosedForm, rows, nil)
	if err != nil {
		log.Fatal(err)
	}
	page := pages.Predicted(measured, "by the built-in constants")
	fmt.Println(page.Answer)
	// Output:
	// TPOT P50 is missed by 10.5% on average under time-slicing (73% of 11 outcomes lie in the 90% intervals), and by 2.77% on average under mps (100% of 11 outcomes lie in the 90% intervals).
}
