package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/timeslice"
)

type slaResult struct {
	Saving  cost.Money  `json:"saving_per_month"`
	Revenue *cost.Money `json:"revenue_per_month,omitempty"`
	Rows    []slaRow    `json:"by_latency"`
	Source  *slaSource  `json:"source_calculator,omitempty"`
	cited
}

type slaRow struct {
	AddedMS      float64     `json:"added_latency_ms"`
	Rate         cost.PPM    `json:"loss_per_100ms"`
	Loss         cost.PPM    `json:"revenue_loss"`
	BreakEven    *cost.Money `json:"break_even_revenue_per_month,omitempty"`
	Net          *cost.Money `json:"net_saving_per_month,omitempty"`
	addedLatency string
}

// slaSource is an article's calculator beside the same with its units right.
type slaSource struct {
	cost.Saving
	TheirLoss cost.PPM `json:"revenue_loss_printed"`
	OurLoss   cost.PPM `json:"revenue_loss"`
	Note      string   `json:"note"`
	// Contention is the measurement that the calculator should have used.
	Contention []contentionRow `json:"contention"`
	SystemLoss cost.PPM        `json:"system_loss"`
}

// contentionRow is one of the article's two models, which share a GPU by time-slicing.
type contentionRow struct {
	AloneMS          float64  `json:"alone_ms"`
	SharedMS         float64  `json:"shared_ms"`
	PredictedMS      float64  `json:"predicted_ms"` // by processor sharing
	LatencyImpact    cost.PPM `json:"latency_impact"`
	ThroughputImpact cost.PPM `json:"throughput_impact"`
	Published        string   `json:"published"`
}

func prepareSLA(fs *flag.FlagSet) func(io.Reader) (result, error) {
	saving := moneyFlag(fs, "saving", "1518.40 USD",
		"what sharing saves in a month, as an `amount`; the default is the article's")
	revenue := moneyFlag(fs, "revenue", "0", "monthly revenue that depends on the latency, as an `amount`; shows the "+
		"net saving")
	added := fs.Duration("added", 618*time.Millisecond,
		"`latency` that sharing adds; the article measured 618ms and 643ms")
	rate := ppmFlag(fs, "loss-per-100ms", 1*cost.Percent, "`percent` of revenue lost for each 100 ms; the article "+
		"quotes 1% to 3%, without a measurement")
	return func(io.Reader) (result, error) {
		r := slaResult{Saving: *saving}
		if given(fs, "revenue") {
			r.Revenue = revenue
		}
		latencies, rates := []time.Duration{*added}, []cost.PPM{*rate}
		if !given(fs, "added", "loss-per-100ms") {
			latencies = append(latencies, 643*time.Millisecond)
			rates = append(rates, 3*cost.Percent)
		}
		for _, l := range latencies {
			for _, p := range rates {
				row, err := newSLARow(r, l, p)
				if err != nil {
					return nil, err
				}
				r.Rows = append(r.Rows, row)
			}
		}
		if given(fs) {
			return r, nil
		}
		var err error
		r.Sources.Add(eksArticle)
		r.Source, err = sourceCalculator()
		return r, err
	}
}

func newSLARow(r slaResult, added time.Duration, rate cost.PPM) (slaRow, error) {
	row := slaRow{AddedMS: ms(added), Rate: rate, addedLatency: added.String()}
	loss, err := cost.RevenueLoss(added, rate)
	if err != nil {
		return row, err
	}
	row.Loss = loss
	switch at, err := cost.BreakEvenRevenue(r.Saving, loss); {
	case err == nil:
		row.BreakEven = &at
	case !errors.Is(err, cost.ErrNoBreakEven):
		return row, err
	}
	if r.Revenue != nil {
		net, err := cost.NetSaving(r.Saving, *r.Revenue, loss)
		if err != nil {
			return row, err
		}
		row.Net = &net
	}
	return row, nil
}

// sourceCalculator runs the article's GPUSharingROI(2.24, impact 1.0): two GPUs become
// one. Its assess_business_impact multiplies a loss per 100 ms by milliseconds.
func sourceCalculator() (*slaSource, error) {
	one, err := cost.ParsePrice("2.24 USD")
	if err != nil {
		return nil, err
	}
	two, err := one.Mul(2)
	if err != nil {
		return nil, err
	}
	saving, err := cost.NewSaving(two, one)
	if err != nil {
		return nil, err
	}
	const impact, baseLatencyMS = 1.0, 100
	theirs, err := cost.PPMFromFloat(impact * baseLatencyMS * 0.01)
	if err != nil {
		return nil, err
	}
	ours, err := cost.RevenueLoss(impact*baseLatencyMS*time.Millisecond, 1*cost.Percent)
	if err != nil {
		return nil, err
	}
	s := &slaSource{Saving: saving, TheirLoss: theirs, OurLoss: ours,
		Note: "It multiplies a loss per 100 ms by milliseconds, of a base latency of 100 ms that it assumes."}
	return s, s.contention()
}

// contention adds the article's measurement of a pair of models, and what processor
// sharing predicts for it with nothing fitted.
func (s *slaSource) contention() error {
	alone := []time.Duration{609 * time.Millisecond, 1135 * time.Millisecond}
	shared := []time.Duration{1227 * time.Millisecond, 1778 * time.Millisecond}
	published := []string{"+101.4%, -50.3%", "+56.6%, -36.1%"}
	predicted := timeslice.FinishTimes(alone, 0)
	var err error
	for i := range alone {
		row := contentionRow{AloneMS: ms(alone[i]), SharedMS: ms(shared[i]), PredictedMS: ms(predicted[i]),
			Published: published[i]}
		c := cost.Contention{Alone: alone[i], Shared: shared[i]}
		if row.LatencyImpact, err = c.LatencyImpact(); err != nil {
			return err
		}
		if row.ThroughputImpact, err = c.ThroughputImpact(); err != nil {
			return err
		}
		s.Contention = append(s.Contention, row)
	}
	s.SystemLoss, err = cost.SystemLoss(alone, shared[1])
	return err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (r slaResult) text(w io.Writer) {
	fmt.Fprintf(w, "SLA: sharing saves %s a month and adds latency\n\n", r.Saving)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "  added\tloss per 100 ms\trevenue lost\tsharing loses money above")
	if r.Revenue != nil {
		fmt.Fprintf(t, "\tnet saving at %s", r.Revenue)
	}
	fmt.Fprintln(t)
	for _, row := range r.Rows {
		at := "no revenue"
		if row.BreakEven != nil {
			at = row.BreakEven.Round(2).String() + " a month"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s", row.addedLatency, row.Rate, row.Loss, at)
		if row.Net != nil {
			fmt.Fprintf(t, "\t%s", row.Net.Round(2))
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush()
	if r.Source != nil {
		r.Source.text(w)
	}
}

func (s *slaSource) text(w io.Writer) {
	fmt.Fprintf(w, "\n  The calculator of %s (2.24 USD, latency impact 1.0): %s a month, %s a year, %s saved, as "+
		"printed;\n", eksArticle, s.Monthly, s.Annual, s.Fraction)
	fmt.Fprintf(w, "  revenue lost: it says %s, the units say %s. %s\n", s.TheirLoss, s.OurLoss, s.Note)
	fmt.Fprintf(w, "\n  Its measurement, a pair of models on one time-sliced GPU:\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "    alone\tshared\tpredicted\tlatency\tthroughput\tprinted, cut off")
	for _, c := range s.Contention {
		fmt.Fprintf(t, "    %.0f ms\t%.0f ms\t%.0f ms\t+%s\t%s\t%s\n", c.AloneMS, c.SharedMS, c.PredictedMS, c.LatencyImpact,
			c.ThroughputImpact, c.Published)
	}
	_ = t.Flush()
	fmt.Fprintf(w, "  Predicted is processor sharing with nothing fitted; the GPU as a whole lost %s.\n",
		s.SystemLoss.RoundPercent(1))
}
