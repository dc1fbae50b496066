// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/migrate"
)

func runDiff(ctx context.Context, fl *call, std stdio) error {
	file := fl.String("fleet", "", "fleet `FILE` with today, - for standard input")
	with := fl.String("with", "", "`FILE` of new Kubernetes objects")
	hints := fl.String("hints", "", "`FILE` of further facts about them, as for discover")
	long := fl.Bool("v", false, "show everything, with the reasons for what stays")
	asJSON := fl.Bool("json", false, "print JSON")
	if err := fl.parse(0, std); err != nil {
		return err
	}
	var opts decision.Options
	fleet, err := loadFleet(*file, "", "", std.in, &opts)
	if *file == "" {
		err = errors.New("name a fleet with -fleet; cotenant discover -out writes one")
	}
	if err != nil {
		return badInput(err)
	}
	make, coming := migrate.Make, []decision.Workload(nil)
	if *with != "" {
		make = migrate.Admit
		if coming, err = discover.LoadArrivals(*with, *hints); err != nil {
			return badInput(err)
		}
		fleet.Workloads = append(fleet.Workloads, coming...)
	}
	plan, err := make(ctx, fleet, opts)
	if err != nil {
		return badInput(err)
	}
	var names []string
	for i := range coming {
		names = append(names, coming[i].Name)
	}
	answer, admitted := plan.Admits(names)
	if len(coming) > 0 && !*asJSON {
		fmt.Fprintln(std.out, answer)
	}
	if err := showPlan(plan, *asJSON, *long, std); err != nil {
		return err
	}
	if plan.Disturbs() || !admitted {
		return &exitError{Code: exitNo}
	}
	return nil
}
