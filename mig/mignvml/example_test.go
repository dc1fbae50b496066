// SPDX-License-Identifier: Apache-2.0

package mignvml_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/mignvml"
)

// What would it take to give the first GPU three instances? Nothing is changed.
func Example() {
	driver, err := mignvml.Open()
	if errors.Is(err, mignvml.ErrNoDriver) {
		fmt.Println("no NVIDIA driver here")
		return
	}
	defer func() { _ = driver.Close() }()
	ctx := context.Background()
	gpu, err := driver.Device(ctx, "0")
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := gpu.State(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	want := []mig.Count{{Profile: gpu.Model.Profiles[0].Name, N: 3}}
	plan, err := mig.Diff(gpu.Model, state.Layout(), want, mig.DiffOptions{})
	fmt.Println(plan.Steps, err)
}

// Listing the GPUs that can do MIG, with their modes.
func ExampleDriver_Devices() {
	driver, err := mignvml.Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = driver.Close() }()
	gpus, err := driver.Devices(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range gpus {
		state, err := g.State(context.Background())
		fmt.Println(g.Name, g.Model, state.Mode, state.Resetless, state.Layout(), err)
	}
}

// Applying a plan on a real GPU: dry first, then in earnest.
func ExampleDevice() {
	apply := func(ctx context.Context, gpu *mignvml.Device, plan mig.ChangePlan) error {
		if _, err := mig.Apply(ctx, gpu, plan, mig.ApplyOptions{DryRun: true}); err != nil {
			return err
		}
		_, err := mig.Apply(ctx, gpu, plan, mig.ApplyOptions{})
		return err
	}
	_ = apply
}
