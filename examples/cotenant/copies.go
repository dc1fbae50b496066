// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/predict/copies"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

type copiesConfig struct {
	profile, rows, gpu, load string
	metrics                  []string
	mechanisms               []sharing.Mechanism
	server                   copies.Server
	setting                  copies.Setting
	most                     int
	objective                time.Duration
	json, chosen             bool // chosen: the mechanisms are named
}

func runCopies(_ context.Context, fl *call, std stdio) error {
	c := copiesConfig{mechanisms: []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS,
		sharing.MechanismMIG, sharing.MechanismInServer}}
	c.flags(fl.FlagSet)
	if err := fl.parse(0, std); err != nil {
		return err
	}
	if c.rows != "" {
		var others []string
		fl.Visit(func(f *flag.Flag) {
			if f.Name != "rows" && f.Name != "json" {
				others = append(others, f.Name)
			}
		})
		if errs := refuse(fl.FlagSet, "-rows reads these figures from the file", others...); len(errs) > 0 {
			return badInput(errors.Join(errs...))
		}
		return c.answerRows(std)
	}
	if err := c.complete(std); err != nil {
		return badInput(err)
	}
	var curves []copies.Curve
	for _, m := range c.mechanisms {
		c.setting.Mechanism = m
		curve, err := copies.NewCurve(c.server, c.setting, c.most, c.objective)
		if err != nil {
			return badInput(err)
		}
		curves = append(curves, curve)
	}
	return answer(std.out, c.json, copiesReport{c.load, curves}, c.text(curves))
}

// copiesReport is the output of -json.
type copiesReport struct {
	Load   string         `json:"load"`
	Curves []copies.Curve `json:"curves"`
}

func (c *copiesConfig) flags(fl *flag.FlagSet) {
	fraction := func(name, usage string, to *sharing.Optional[float64]) {
		fl.Func(name, usage, func(text string) error {
			v, err := strconv.ParseFloat(text, 64)
			*to = sharing.Some(v)
			return err
		})
	}
	fl.StringVar(&c.profile, "profile", "", "`FILE` of rows that cotenant measure wrote, of one isolated tenant")
	fl.Func("metrics", "`FILE` of a metrics page (TEI, Triton, Infinity, Whisper servers); a later one too adds the rate",
		func(text string) error { c.metrics = append(c.metrics, text); return nil })
	fl.StringVar(&c.rows, "rows", "", "predict the rows of `FILE`, - is standard input")
	fl.Func("rate", "`RATE` of one copy, requests or tokens: 50/s", func(text string) (err error) {
		c.server.Rate, err = strconv.ParseFloat(strings.TrimSuffix(text, "/s"), 64)
		return err
	})
	fl.DurationVar(&c.server.Latency, "latency", 0, "latency of a request with one copy")
	fraction("gpu-busy", "`FRACTION` of the time with a kernel running (nvidia-smi's utilization)", &c.server.Busy)
	fraction("sm-active", "`FRACTION` of SM activity (DCGM_FI_PROF_SM_ACTIVE)", &c.server.SMActive)
	fraction("bandwidth", "`FRACTION` of the memory bandwidth in use (DCGM_FI_PROF_DRAM_ACTIVE)", &c.server.Bandwidth)
	fl.DurationVar(&c.server.GPUTime, "gpu-time", 0, "GPU time of a request")
	fl.DurationVar(&c.server.HostTime, "host-time", 0, "host time of a request, while its GPU part waits")
	fl.TextVar(&c.server.Memory, "memory", sharing.Bytes(0), "memory of one copy")
	fl.BoolVar(&c.server.Decodes, "decodes", false, "a step serves a batch of sequences (LLMs, speech by tokens)")
	fl.BoolVar(&c.server.PythonThreads, "python-threads", false, "instances in one process are threads of one Python")
	fl.IntVar(&c.server.Clients, "clients", 0, "requests in flight at one copy")
	fl.Float64Var(&c.setting.Cores, "cores", 0, "host cores for all copies")
	fl.Float64Var(&c.server.HostThreads, "host-threads", 0, "cores that one copy keeps busy (default 1)")
	fl.StringVar(&c.gpu, "gpu", "", "`NAME` of the GPU, for its memory")
	fl.StringVar(&c.load, "load", "grows", "grows, divided or open")
	fl.IntVar(&c.most, "copies", 8, "most copies to predict")
	fl.DurationVar(&c.objective, "objective", 0, "latency objective of the copies")
	fl.Func("mechanism", "`LIST` of time-slicing, mps, mig, hami, in-server (instances in one process)",
		func(text string) (err error) {
			c.chosen = true
			c.mechanisms, err = sharing.ParseMechanisms(text)
			return err
		})
	fl.BoolVar(&c.json, "json", false, "print JSON")
}

// complete reads the GPU, the profile and the metrics of the flags. The error names every problem.
func (c *copiesConfig) complete(std stdio) error {
	var errs []error
	if len(c.metrics) > 0 {
		errs = append(errs, c.readMetrics(std))
	}
	if c.profile != "" {
		errs = append(errs, c.readProfile())
	}
	loads := map[string]copies.Load{"grows": copies.LoadGrows, "divided": copies.LoadDivided, "open": copies.LoadOpen}
	load, known := loads[c.load]
	if c.setting.Load = load; !known {
		errs = append(errs, fmt.Errorf("-load: %q is none of grows, divided, open", c.load))
	}
	if c.gpu != "" {
		gpu, err := sharing.LookupGPU(c.gpu)
		if err != nil {
			errs = append(errs, fmt.Errorf("-gpu: %w", err))
		} else {
			c.setting.GPUMemory = gpu.Memory.Value
			if i := slices.Index(c.mechanisms, sharing.MechanismMIG); i >= 0 && gpu.MIG.Value == sharing.AnswerNo {
				if c.chosen {
					errs = append(errs, fmt.Errorf("-mechanism: %s has no MIG", gpu.Name))
				}
				c.mechanisms = slices.Delete(c.mechanisms, i, i+1)
			}
		}
	}
	if g, h := c.server.GPUTime, c.server.HostTime; g > 0 && h > 0 && c.server.Latency == 0 {
		c.server.Latency = g + h
	}
	return errors.Join(errs...)
}

// readMetrics takes the times of a request from one or two pages of a server, the rate by the times of their files.
// Figures that flags give stay.
func (c *copiesConfig) readMetrics(std stdio) error {
	readings, err := readPages(c.metrics, std.in)
	if err != nil {
		return fmt.Errorf("-metrics: %w", err)
	}
	last, took := readings[len(readings)-1], 0.0
	if len(readings) == 2 {
		took = last.At.Sub(readings[0].At).Seconds()
		if last, err = last.Since(readings[0]); err != nil {
			return fmt.Errorf("-metrics: %w", err)
		}
	}
	mean, ok := last.Service()
	if !ok || len(readings) > 2 {
		return fmt.Errorf("-metrics: %d pages or models: give one or two pages of one server that speaks no tokens "+
			"and served requests", len(readings))
	}
	if took >= 1 {
		c.server.Rate = cmp.Or(c.server.Rate, mean.Requests/took)
	}
	s := &c.server
	s.Latency, s.GPUTime = cmp.Or(s.Latency, mean.Latency), cmp.Or(s.GPUTime, mean.GPUTime)
	if s.HostTime == 0 && mean.HostTime <= s.Latency {
		s.HostTime = mean.HostTime
	}
	return nil
}

// readProfile takes the figures of the first isolated tenant of a file.
func (c *copiesConfig) readProfile() error {
	rows, err := profile.LoadRows(c.profile)
	if err != nil {
		return err
	}
	all := rows.Profiles()
	if len(all) == 0 {
		return fmt.Errorf("-profile: %s has no row of one isolated tenant: cotenant measure -copies 1 makes one", c.profile)
	}
	c.server = copies.ServerOf(&all[0])
	if all[0].Load.Rate > 0 && c.load == "grows" {
		c.load = "open"
	}
	return nil
}

func (c *copiesConfig) answerRows(std stdio) error {
	text, err := page.Read(c.rows, std.in)
	if err != nil {
		return badInput(err)
	}
	rows, err := copies.ReadRows(bytes.NewReader(text))
	if err != nil {
		return badInput(err)
	}
	out := struct {
		Rows []copies.Answer `json:"rows"`
	}{}
	for i := range rows {
		out.Rows = append(out.Rows, rows[i].Answer())
	}
	if c.json {
		return page.JSON(std.out, out)
	}
	table := [][]string{{"id", "ratio", "90% interval", "pays"}}
	for _, a := range out.Rows {
		row := []string{a.ID, "unknown: " + a.Reason}
		if a.Ratio != nil {
			row = []string{a.ID, fmt.Sprintf("%.2f", a.Ratio.Value), fmt.Sprintf("%.2f to %.2f", a.Ratio.Low, a.Ratio.High),
				fmt.Sprintf("%.0f%%", 100**a.Pays)}
		}
		table = append(table, row)
	}
	return printText(std.out, page.Table(table))
}

// text prints the curves in one table, with the conclusions from each.
func (c *copiesConfig) text(curves []copies.Curve) string {
	var b, after strings.Builder
	loads := map[copies.Load]string{copies.LoadGrows: "Each copy has the load of the one",
		copies.LoadDivided: "The load of the one is divided over the copies",
		copies.LoadOpen:    "Each copy has requests at the rate of the one"}
	fmt.Fprintf(&b, "%s. Total rate relative to one copy, with 90%% intervals:\n\n", loads[c.setting.Load])
	rows, best := [][]string{{"copies"}}, 0
	for i, curve := range curves {
		rows[0] = append(rows[0], curve.Mechanism.String())
		if curve.Points[curve.Best-1].Ratio.Value > curves[best].Points[curves[best].Best-1].Ratio.Value {
			best = i
		}
	}
	for n := range c.most {
		cells := []string{fmt.Sprint(n + 1)}
		for _, curve := range curves {
			if n >= len(curve.Points) {
				cells = append(cells, "no room")
				continue
			}
			r := curve.Points[n].Ratio
			cells = append(cells, fmt.Sprintf("%.2f (%.2f-%.2f)", r.Value, r.Low, r.High))
		}
		rows = append(rows, cells)
	}
	b.WriteString(page.Table(rows) + "\n")
	for i, curve := range curves {
		e := curve.Points[curve.Best-1]
		fmt.Fprintf(&b, "%s: ", curve.Mechanism)
		if curve.Best == 1 {
			b.WriteString("one copy; a second one adds less than 0.15 of its rate")
		} else {
			fmt.Fprintf(&b, "%d copies, %.2f times the rate at %.2f times the latency; pays off with a "+
				"probability of %.0f%%", curve.Best, e.Ratio.Value, e.Latency.Value, min(99, 100*e.Pays))
		}
		fmt.Fprintf(&b, "; limited by %s\n", bounds(&curve))
		if i == best && curve.Best > 1 && c.server.Rate > 0 {
			fmt.Fprintf(&after, "Best: %d under %s, %.4g/s (%.4g to %.4g).\n", curve.Best, curve.Mechanism,
				e.Ratio.Value*c.server.Rate, e.Ratio.Low*c.server.Rate, e.Ratio.High*c.server.Rate)
		}
	}
	fmt.Fprintf(&b, "\n%sTo narrow the intervals, measure %s.\n", after.String(), curves[best].Narrow)
	return b.String()
}

// bounds lists the limits of a curve with the number of copies from which each applies.
func bounds(c *copies.Curve) string {
	var parts []string
	last := ""
	for _, e := range c.Points[min(1, len(c.Points)-1):] {
		if e.Bound != last {
			parts = append(parts, fmt.Sprintf("%s from %d", e.Bound, e.Copies))
		}
		last = e.Bound
	}
	if c.Ends != "" {
		parts = append(parts, fmt.Sprintf("%s from %d", c.Ends, len(c.Points)+1))
	}
	return strings.Join(parts, ", ")
}
