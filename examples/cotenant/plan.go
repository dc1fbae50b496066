// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/pages"
	"github.com/cotenant/cotenant/decision/review"
	"github.com/cotenant/cotenant/examples/internal/page"
)

func runPlan(ctx context.Context, fl *call, std stdio) error {
	var o discoverOptions
	o.inputFlags(fl.FlagSet)
	asJSON := fl.Bool("json", false, "print JSON: answer, money, idle, workloads, checklist, plan, discovery")
	long := fl.Bool("v", false, "show all workloads, the changes of each node, and why the rest stays")
	out := fl.String("out", "", "`DIR` to write the steps' files, plan.md and fleet.yaml to; it must not exist yet, "+
		"or be empty")
	report, demo := "", fl.Bool("demo", false, "plan a built-in cluster")
	page.Report(fl.FlagSet, &report, "write a page with the GPUs today and after")
	if err := fl.parse(anyNumber, std); err != nil {
		return err
	}
	o.files = fl.Args()
	if o.kube = o.kube || len(o.files) == 0 && !*demo && !o.real; *demo && len(o.files) > 0 {
		return badInput(errors.New("-demo plans a built-in cluster; leave the files out"))
	}
	c, part, err := o.read(ctx, std)
	if err != nil {
		return err
	}
	d := c.Discover()
	r, err := review.Make(ctx, d, decision.Options{})
	if err != nil {
		return badInput(errors.Join(part, err))
	}
	if *out != "" {
		var fleet bytes.Buffer
		folder, err := manifest.Migration(r.Plan)
		if err == nil {
			err = d.WriteFleet(&fleet)
		}
		if err == nil {
			folder.Files = append(folder.Files, manifest.File{Path: "fleet.yaml", Data: fleet.Bytes()})
			err = writeFolder(folder, *out, "plan", std.err)
		}
		if err != nil {
			return badInput(err)
		}
	}
	if err := page.WriteHTML(report, pages.Plan(r.Plan).Write); err != nil {
		return err
	}
	if *asJSON {
		err = page.JSON(std.out, r)
	} else {
		if err = r.WriteText(std.out, columns(std.out), *long); err == nil && !*long {
			_, err = fmt.Fprintln(std.out, "\nFor more: -v, -json, -out DIR, -report FILE.html")
		}
	}
	return errors.Join(err, part)
}
