package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// parseMechanisms reads a comma-separated list.
func (c *config) parseMechanisms(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		m, err := sharing.ParseMechanism(strings.TrimSpace(name))
		if err != nil {
			var names []string
			for _, m := range sharing.Mechanisms() {
				names = append(names, m.String())
			}
			if near := problem.Nearest(strings.TrimSpace(name), names); near != "" {
				return fmt.Errorf("%w; did you mean %q?", err, near)
			}
			return err
		}
		if m == sharing.MechanismNone {
			return errors.New("none is no way to run")
		}
		if !slices.Contains(c.mechanisms, m) {
			c.mechanisms = append(c.mechanisms, m)
		}
	}
	return nil
}

// checkInput names the flags that do not go with -input, or without it.
func (c *config) checkInput(list *problem.List, fl *flag.FlagSet) {
	only := []string{"profiles", "mechanisms", "seed"}
	if c.input != "" {
		only = []string{"real", "plan", "print-plan", "dir", "no-telemetry", "nvml", "control"}
		if c.seconds == 0 {
			c.seconds = defaultSeconds
		}
		if !(c.seconds >= 1 && c.seconds <= 600) {
			list.Addf("-seconds", "", "must lie between 1 and 600, is %v", c.seconds)
		}
	}
	fl.Visit(func(f *flag.Flag) {
		switch {
		case !slices.Contains(only, f.Name):
		case c.input != "":
			list.Addf("-"+f.Name, "leave one of them out", "does not go with -input, which is simulated")
		default:
			list.Addf("-"+f.Name, "add -input", "is for -input only")
		}
	})
}

// defaultSeconds keeps quickstart's fleet's five runs under a minute.
const defaultSeconds = 7
