package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// report is the JSON report.
type report struct {
	Source    telemetry.ReaderInfo `json:"source"`
	Start     time.Time            `json:"start"`
	DurationS float64              `json:"duration_s"`
	GPUs      []gpuReport          `json:"gpus"`
	Policies  []recovery           `json:"policies"`
	Events    []telemetry.Event    `json:"events"`
	Sources   sharing.Citations    `json:"sources,omitzero"` // of the policies
}

// recovery is what a policy would give back, and what that is worth.
type recovery struct {
	telemetry.Recovery
	Money    json.Number `json:"money,omitempty"`
	Currency string      `json:"currency,omitempty"`
	worth    string      // as the table shows it
}

type gpuReport struct {
	Index  int              `json:"index"`
	Device telemetry.Device `json:"device"`
	// Means are of the readings, by metric; counters are left out.
	Means map[telemetry.Metric]float64 `json:"means"`
	// HoursByState and KWhByState are by state.
	HoursByState map[telemetry.State]float64 `json:"hours_by_state"`
	KWhByState   map[telemetry.State]float64 `json:"kwh_by_state"`
	Verdict      string                      `json:"verdict"`
	Energy       telemetry.Energy            `json:"energy"`
	Throttled    telemetry.Throttle          `json:"throttled"`
}

const joulesPerKWh = 3.6e6

// finish prints the report of what was seen.
func (m *monitor) finish() error {
	rep := report{Source: m.h.Info, Start: m.h.Start.UTC(), DurationS: m.last.Seconds(), Events: m.events, Policies: []recovery{}}
	var idle []telemetry.IdleReport
	for d, dev := range m.h.Devices {
		r, errIdle := m.idle.Report(d)
		e, errEnergy := m.energy.Energy(d)
		if err := errors.Join(errIdle, errEnergy); err != nil {
			return err
		}
		idle = append(idle, r)
		g := gpuReport{Index: d, Device: dev, Means: map[telemetry.Metric]float64{}, HoursByState: map[telemetry.State]float64{},
			KWhByState: map[telemetry.State]float64{}, Verdict: verdict(&r), Energy: e, Throttled: m.means.throttled[d]}
		for _, metric := range telemetry.Metrics() {
			if v, ok := m.means.mean(d, metric).Get(); ok && metric != telemetry.MetricEnergyJoules {
				g.Means[metric] = v
			}
		}
		for _, s := range telemetry.States() {
			if t := r.Total(s); t > 0 {
				g.HoursByState[s] = t.Hours()
			}
			if j, ok := r.Joules(s).Get(); ok {
				g.KWhByState[s] = j / joulesPerKWh
			}
		}
		rep.GPUs = append(rep.GPUs, g)
	}
	for _, p := range m.c.policies {
		rec, err := p.Recoverable(idle)
		if err != nil {
			return err
		}
		r := recovery{Recovery: rec, worth: "-"}
		if m.c.price.Sign() > 0 {
			worth, err := m.c.price.MulFrac(int64(rec.Recoverable), int64(time.Hour))
			if err != nil {
				return err
			}
			r.Money, r.Currency, r.worth = json.Number(worth.Decimal()), worth.Currency(), worth.Round(2).String()
		}
		rep.Policies = append(rep.Policies, r)
		rep.Sources.AddKnown(string(r.Policy.Source))
	}
	if m.expose != nil {
		if err := m.expose(); err != nil {
			return err
		}
	}
	if m.c.json {
		enc := json.NewEncoder(m.out)
		enc.SetIndent("", "  ")
		return enc.Encode(rep)
	}
	return m.print(&rep)
}

// verdict says in a sentence what to do about a device.
func verdict(r *telemetry.IdleReport) string {
	seen := r.Observed()
	if seen == 0 {
		return "not seen"
	}
	share := func(s telemetry.State) float64 { return r.Total(s).Hours() / seen.Hours() }
	wasted := share(telemetry.StateExecutionIdle) + share(telemetry.StateResidentIdle)
	longest := time.Duration(0)
	for _, in := range r.Intervals {
		if in.State == telemetry.StateExecutionIdle || in.State == telemetry.StateResidentIdle {
			longest = max(longest, in.Length())
		}
	}
	switch {
	case share(telemetry.StateUnknown) > 0.5:
		return "unknown most of the time"
	case share(telemetry.StateStalled) > 0.1:
		return "STALLED: busy without working; look for a hang"
	case wasted > 0.5 && longest >= time.Hour:
		return "HELD IDLE: a candidate for reaping"
	case wasted > 0.1:
		return "SHORT GAPS: a candidate for sharing"
	case share(telemetry.StateDeepIdle) > 0.5:
		return "FREE"
	case r.Pauses.Hours()/seen.Hours() > 0.5:
		return "idle most of the time, too briefly each time to count"
	}
	return "in use"
}

func (m *monitor) print(rep *report) error {
	fmt.Fprintf(m.out, "\nWhat they did in %v (%s; hours)\n", m.last, rep.Source.Basis)
	w := tabwriter.NewWriter(m.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "GPU\t")
	for _, s := range telemetry.States() {
		fmt.Fprintf(w, "%v\t", s)
	}
	fmt.Fprintln(w, "kWh\tby counter\t")
	for _, g := range rep.GPUs {
		fmt.Fprintf(w, "%d\t", g.Index)
		for _, s := range telemetry.States() {
			fmt.Fprintf(w, "%.2f\t", g.HoursByState[s])
		}
		kwh := "-"
		if j, ok := g.Energy.IntegratedJoules.Get(); ok {
			kwh = fmt.Sprintf("%.2f", j/joulesPerKWh)
		}
		fmt.Fprintf(w, "%s\t%s\t\n", kwh, map[sharing.Answer]string{sharing.AnswerYes: "agrees", sharing.AnswerNo: "differs"}[g.Energy.Agree])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, g := range rep.GPUs {
		fmt.Fprintf(m.out, "  GPU %d is %s\n", g.Index, g.Verdict)
	}
	fmt.Fprintf(m.out, "\nWhat reaping would give back (GPU hours of %.1f seen)\n", rep.Policies[0].Observed.Hours())
	w = tabwriter.NewWriter(m.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "policy\tafter\tidle\tepisodes\treaped\trecoverable\ta GPU and day\tmoney\t")
	for _, r := range rep.Policies {
		fmt.Fprintf(w, "%s\t%v\t%.1f\t%d\t%d\t%.1f\t%.2f\t%s\t\n", r.Policy.Name, r.Policy.ReapAfter, r.Idle.Hours(), r.Episodes, r.Reaped,
			r.Recoverable.Hours(), r.HoursPerDay.Or(0), r.worth)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(rep.Events) > 0 {
		fmt.Fprintln(m.out, "\nWhat happened to the sampling")
	}
	for _, e := range rep.Events {
		var line strings.Builder
		which := "all GPUs"
		if d, ok := e.Device.Get(); ok {
			which = fmt.Sprintf("GPU %d", d)
		}
		fmt.Fprintf(&line, "  %v  %s: %v", e.At.Round(time.Millisecond), which, e.Kind)
		if e.Count > 0 {
			fmt.Fprintf(&line, " x%d", e.Count)
		}
		if e.Length != 0 {
			fmt.Fprintf(&line, " of %v", e.Length.Round(time.Millisecond))
		}
		if e.Detail != "" {
			fmt.Fprintf(&line, " (%s)", e.Detail)
		}
		fmt.Fprint(m.out, page.Fold(line.String()+"\n"))
	}
	if rep.Source.Basis == sharing.BasisSimulated {
		fmt.Fprintln(m.out, "\nAll figures are simulated. With -real this machine's GPUs are read.")
	}
	return nil
}
