// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/decision/pages"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

func runGPUs(_ context.Context, fl *call, std stdio) error {
	asJSON := fl.Bool("json", false, "JSON with reasons and sources")
	if err := fl.parse(1, std); err != nil {
		return err
	}
	rows := pages.Capabilities(fl.Arg(0))
	if len(rows) == 0 {
		_, err := sharing.LookupGPU(fl.Arg(0))
		return badInput(errors.Join(err, fmt.Errorf("no GPU's name holds %.40q", fl.Arg(0))))
	}
	if *asJSON {
		return page.JSON(std.out, rows)
	}
	t := pages.GPUs(rows)
	return printText(std.out, t.Text())
}

func runIsolation(_ context.Context, fl *call, std stdio) error {
	asJSON := fl.Bool("json", false, "JSON")
	var env sharing.Environment
	fl.Func("gpu", "for this `GPU`", func(name string) (err error) {
		env.GPU, err = sharing.LookupGPU(name)
		return err
	})
	fl.TextVar(&env.Driver, "driver", sharing.Driver{}, "with -gpu: for this `VERSION` of the driver")
	if err := fl.parse(0, std); err != nil {
		return err
	}
	rows := pages.Statements(env)
	if *asJSON {
		return page.JSON(std.out, rows)
	}
	t := pages.Isolation(rows)
	var b strings.Builder
	b.WriteString(t.Text())
	var sources sharing.Citations
	for i, s := range rows {
		if i%sharing.AxisCount == 0 {
			fmt.Fprintf(&b, "\n%s\n", s.Mechanism)
		}
		fmt.Fprintf(&b, "  %-8s%s: %s%s", s.Axis, s.Level, s.Text, sources.Ref(s.Source))
		if s.Conditions != "" {
			fmt.Fprintf(&b, " (%s)", s.Conditions)
		}
		b.WriteByte('\n')
	}
	return printText(std.out, page.Fold(b.String()))
}
