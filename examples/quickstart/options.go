package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// measureOptions are what -measure may be told.
type measureOptions struct {
	mechanisms []sharing.Mechanism // empty = those of the decision, and the usual ones
	seconds    float64             // of each run
	seed       uint64
	dir        string // for the artifacts; "" = none are kept

	simulatedTime bool          // for tests: connections and clocks of a bubble
	quantum       time.Duration // for tests: the simulated GPU's, which the predictor does not know
}

// defaultSeconds keeps the default fleet's five runs under a minute.
const defaultSeconds = 7

// parseMechanisms reads a comma-separated list.
func (o *measureOptions) parseMechanisms(list string) error {
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
		if !slices.Contains(o.mechanisms, m) {
			o.mechanisms = append(o.mechanisms, m)
		}
	}
	return nil
}

// check names what is wrong with the flags.
func (o *measureOptions) check(fs *flag.FlagSet, measuring bool) error {
	var list problem.List
	fs.Visit(func(f *flag.Flag) {
		if !measuring && slices.Contains([]string{"seconds", "seed", "mechanisms"}, f.Name) {
			list.Addf("-"+f.Name, "add -measure", "is for -measure only")
		}
	})
	if !(o.seconds >= 1 && o.seconds <= 600) {
		list.Addf("-seconds", "", "must lie between 1 and 600, is %v", o.seconds)
	}
	return list.Err()
}
