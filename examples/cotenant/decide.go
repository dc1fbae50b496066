// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/decision/pages"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

//go:embed fleets/*.yaml
var fleetExamples embed.FS

// fleetKinds names the kinds of fleet of which there is an example.
func fleetKinds() (kinds []string) {
	entries, _ := fleetExamples.ReadDir("fleets") // embedded, so it exists
	for _, e := range entries {
		kinds = append(kinds, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return kinds
}

// decideConfig holds the flags of decide.
type decideConfig struct {
	fleet, out, report, profiles, predictor, explain, compare, example string

	confidence                 float64
	json, strict, schema, long bool
}

func (c *decideConfig) flags(fl *flag.FlagSet) {
	fl.BoolVar(&c.json, "json", false, "print JSON")
	fl.StringVar(&c.out, "out", "", "`DIR` to write the configuration and plan.md to; it must not exist, or be empty")
	page.Report(fl, &c.report, "write a page with the money, the GPUs and the reasons")
	fl.StringVar(&c.profiles, "profiles", "", "`FILE` of workloads measured isolated: profiles, or rows in the "+
		"co-location format; those that the fleet names are predicted")
	fl.StringVar(&c.predictor, "predictor", "", "`FILE` of a fitted predictor; needs -profiles")
	fl.Float64Var(&c.confidence, "confidence", decision.DefaultConfidence,
		"probability with which decisions must meet objectives, 0.5 to 0.999")
	fl.BoolVar(&c.long, "v", false, "if the fleet has a today: show everything, with the reasons for what stays")
	fl.BoolVar(&c.strict, "strict", false, "exit 1 unless every workload is decided: all its replicas have a place "+
		"at the confidence")
	fl.StringVar(&c.explain, "explain", "", "show everything about one `WORKLOAD`, every candidate and its reasons")
	fl.StringVar(&c.compare, "compare", "", "decide again with other `OPTIONS`, confidence=0.9,allow=hami, and show all "+
		"side by side; see above")
	fl.StringVar(&c.example, "print-fleet", "", "print the example of a `KIND` of fleet and exit: "+
		strings.Join(fleetKinds(), ", "))
	fl.BoolVar(&c.schema, "schema", false, "print the JSON Schema of a fleet file and exit")
}

func runDecide(ctx context.Context, fl *call, std stdio) error {
	var c decideConfig
	c.flags(fl.FlagSet)
	if err := fl.parse(1, std); err != nil {
		return err
	}
	if c.example != "" {
		text, err := fleetExamples.ReadFile("fleets/" + c.example + ".yaml")
		if err != nil {
			return badInput(fmt.Errorf("-print-fleet: unknown kind %.40q (known: %s)", c.example,
				strings.Join(fleetKinds(), ", ")))
		}
		return printText(std.out, string(text))
	}
	if c.schema {
		return printText(std.out, string(fleet.Schema()))
	}
	c.fleet = fl.Arg(0)
	if err := c.check(); err != nil {
		return badInput(err)
	}
	opts := decision.Options{Confidence: c.confidence}
	fleet, err := loadFleet(c.fleet, c.profiles, c.predictor, std.in, &opts)
	if err != nil {
		return badInput(err)
	}
	fleet, chosen, err := decision.ResolveReplicas(ctx, fleet, opts)
	if err != nil {
		return badInput(err)
	}
	if c.compare != "" {
		return c.compareFleet(ctx, fleet, opts, std)
	}
	if fleet.Today != nil && c.explain == "" {
		return c.planFleet(ctx, fleet, opts, std)
	}
	result, err := decision.Decide(ctx, fleet, opts)
	if err != nil {
		return badInput(err)
	}
	result.Replicas = chosen
	var text bytes.Buffer
	if !c.json {
		err := result.WriteText(&text, decision.TextOptions{Explain: c.explain, Command: measureCommand,
			More: "-explain WORKLOAD, -json", Width: columns(std.out)})
		if err != nil {
			return badInput(err)
		}
	}
	if c.out != "" {
		folder, err := manifest.Build(fleet, result)
		if err == nil {
			err = writeFolder(folder, c.out, "decide", std.err)
		}
		if err != nil {
			return badInput(err)
		}
	}
	if err := page.WriteHTML(c.report, pages.Decide(result).Write); err != nil {
		return err
	}
	if c.json {
		err = page.JSON(std.out, result)
	} else {
		_, err = text.WriteTo(std.out)
	}
	open := func(d decision.Decision) bool { return d.Status != decision.StatusDecided }
	if err == nil && c.strict && slices.ContainsFunc(result.Decisions, open) {
		return &exitError{Code: exitNo}
	}
	return err
}

// check refuses flags that contradict each other.
func (c *decideConfig) check() error {
	switch {
	case c.fleet == "":
		return errors.New("name a fleet file, or - for standard input; cotenant discover -out fleet.yaml writes one")
	case c.json && c.explain != "":
		return errors.New("-explain is text; -json has everything about every workload")
	case c.compare != "" && (c.explain+c.out+c.report != "" || c.strict):
		return errors.New("-compare shows answers side by side; leave -explain, -out, -report and -strict out")
	case !(c.confidence >= 0.5 && c.confidence <= 0.999):
		return fmt.Errorf("-confidence %v: use 0.5 to 0.999", c.confidence)
	case c.predictor != "" && c.profiles == "":
		return errors.New("-predictor needs -profiles")
	}
	return nil
}

// measureCommand returns the command of this program that makes a measurement
// which a result proposes. Capitals are for its user to fill in.
func measureCommand(s *decision.Measurement) string {
	if !s.Endpoint {
		return fmt.Sprintf("cotenant monitor -real -duration %s -json", minutes(s.Duration))
	}
	rate := "PEAK-REQUESTS-A-SECOND"
	if s.Rate > 0 {
		rate = fmt.Sprintf("%.3g", s.Rate)
	}
	line := "cotenant bench -endpoint http://REPLICA:8000 -model ITS-MODEL -rate " + rate
	switch {
	case s.Spread: // constant lengths would pass with any traffic
		line += " -prompts REQUESTS-OF-ITS-TRAFFIC -ignore-eos"
	default:
		if s.InputTokens > 0 {
			line += fmt.Sprintf(" -random-input-len %d", s.InputTokens)
		}
		if s.OutputTokens > 0 {
			line += fmt.Sprintf(" -random-output-len %d -ignore-eos", s.OutputTokens)
		}
	}
	name := strings.ReplaceAll(s.Workload, "/", "-")
	length := minutes(s.Duration)
	return fmt.Sprintf("cotenant monitor -real -duration %s -csv %s-alone.csv & %s -duration %s -out %s-alone",
		length, name, line, length, name)
}

func minutes(d profile.Duration) string { return fmt.Sprintf("%.3gm", time.Duration(d).Minutes()) }

// planFleet plans a fleet from its present state, writes the steps' files and the page of the flags, and prints the
// plan.
func (c *decideConfig) planFleet(ctx context.Context, fleet *decision.Fleet, opts decision.Options, std stdio) error {
	plan, err := migrate.Make(ctx, fleet, opts)
	if err != nil {
		return badInput(err)
	}
	if c.out != "" {
		folder, err := manifest.Migration(plan)
		if err == nil {
			err = writeFolder(folder, c.out, "decide", std.err)
		}
		if err != nil {
			return badInput(err)
		}
	}
	if err := page.WriteHTML(c.report, pages.Plan(plan).Write); err != nil {
		return err
	}
	err = showPlan(plan, c.json, c.long, std)
	if err == nil && c.strict && len(plan.Waits()) > 0 {
		return &exitError{Code: exitNo}
	}
	return err
}

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
