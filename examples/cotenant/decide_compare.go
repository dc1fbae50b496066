// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

// compareFleet prints the answer for a fleet next to those with other options.
func (c *decideConfig) compareFleet(ctx context.Context, fleet *decision.Fleet, plain decision.Options,
	std stdio) error {
	columns, err := columnsOf(c.compare, plain)
	if err != nil {
		return badInput(err)
	}
	found, err := decision.Compare(ctx, fleet, columns...)
	if err != nil {
		return badInput(err)
	}
	if c.json {
		return page.JSON(std.out, found)
	}
	return found.WriteText(std.out)
}

// columnsOf reads options to compare, after the plain ones: columns are parted by commas, the changes of one by colons.
// The error names every problem.
func columnsOf(text string, plain decision.Options) ([]decision.Options, error) {
	var errs []error
	columns := []decision.Options{plain}
	for column := range strings.SplitSeq(text, ",") {
		o := plain
		headroom := decision.DefaultHeadroom
		for change := range strings.SplitSeq(column, ":") {
			key, value, _ := strings.Cut(strings.TrimSpace(change), "=")
			var err error
			switch key {
			case "confidence":
				if o.Confidence, err = number(value); err == nil && o.Confidence == 0 {
					err = errors.New("0 is out of range; use 0.5 to 0.999")
				}
			case "headroom":
				headroom.Fragmentation, err = number(value)
				o.Headroom = &headroom
			case "allow":
				var m sharing.Mechanism
				if m, err = sharing.ParseMechanism(value); err == nil {
					o.Allow = append(o.Allow[:len(o.Allow):len(o.Allow)], m)
				}
			default:
				err = errors.New("no option; use confidence=C, headroom=H or allow=MECHANISM")
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("-compare %s: %w", change, err))
			}
		}
		if err := o.Check(); err != nil {
			for problem := range strings.SplitSeq(err.Error(), "\n") {
				errs = append(errs, fmt.Errorf("-compare %s: %s", column, problem))
			}
		}
		columns = append(columns, o)
	}
	return columns, errors.Join(errs...)
}

func number(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		err = fmt.Errorf("%q is no number", text)
	}
	return v, err
}
