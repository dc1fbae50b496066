package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/timeslice"
)

func sla(fs *flag.FlagSet) func(*answer, io.Reader) error {
	saving := moneyFlag(fs, "saving", "1518.40 USD",
		"what sharing saves in a month, as an `amount`; the default is the article's")
	revenue := moneyFlag(fs, "revenue", "0", "monthly revenue that depends on the latency, as an `amount`; shows the "+
		"net saving")
	added := fs.Duration("added", 618*time.Millisecond,
		"`latency` that sharing adds; the article measured 618ms and 643ms")
	rate := ppmFlag(fs, "loss-per-100ms", 1*cost.Percent, "`percent` of revenue lost for each 100 ms; the article "+
		"quotes 1% to 3%, without a measurement")
	return func(a *answer, _ io.Reader) error {
		latencies, rates := []time.Duration{*added}, []cost.PPM{*rate}
		if !given(fs, "added", "loss-per-100ms") {
			latencies = append(latencies, 643*time.Millisecond)
			rates = append(rates, 3*cost.Percent)
		}
		rows, list := [][]string{{"added", "loss per 100 ms", "revenue lost", "sharing loses money above"}}, []object{}
		if given(fs, "revenue") {
			a.json["revenue_per_month"] = revenue
			rows[0] = append(rows[0], "net saving at "+revenue.String())
		}
		for _, l := range latencies {
			for _, p := range rates {
				loss, err := cost.RevenueLoss(l, p)
				if err != nil {
					return err
				}
				row, above := object{"added_latency_ms": ms(l), "loss_per_100ms": p, "revenue_loss": loss}, "no revenue"
				switch at, err := cost.BreakEvenRevenue(*saving, loss); {
				case err == nil:
					row["break_even_revenue_per_month"], above = at, at.Round(2).String()+" a month"
				case !errors.Is(err, cost.ErrNoBreakEven):
					return err
				}
				cells := []string{l.String(), p.String(), loss.String(), above}
				if given(fs, "revenue") {
					net, err := cost.NetSaving(*saving, *revenue, loss)
					if err != nil {
						return err
					}
					row["net_saving_per_month"], cells = net, append(cells, net.Round(2).String())
				}
				rows, list = append(rows, cells), append(list, row)
			}
		}
		a.json["saving_per_month"], a.json["by_latency"] = saving, list
		a.printf("SLA: sharing saves %s a month and adds latency\n\n", saving)
		a.table("  ", rows)
		if given(fs) {
			return nil
		}
		a.sources.Add(eksArticle)
		return errors.Join(a.sourceCalculator(), a.contention())
	}
}

// sourceCalculator runs the article's GPUSharingROI(2.24, impact 1.0): two GPUs become
// one. Its assess_business_impact multiplies a loss per 100 ms by milliseconds.
func (a *answer) sourceCalculator() error {
	one, err1 := cost.ParsePrice("2.24 USD")
	two, err2 := one.Mul(2)
	saving, err3 := cost.NewSaving(two, one)
	const impact, baseLatencyMS = 1.0, 100
	theirs, err4 := cost.PPMFromFloat(impact * baseLatencyMS * 0.01)
	ours, err5 := cost.RevenueLoss(impact*baseLatencyMS*time.Millisecond, 1*cost.Percent)
	const why = "It multiplies a loss per 100 ms by milliseconds, of a base latency of 100 ms that it assumes."
	a.json["source_calculator"] = object{"saving": saving, "revenue_loss_printed": theirs,
		"revenue_loss": ours, "note": why}
	a.printf("\n  The calculator of %s (2.24 USD, latency impact 1.0): %s a month, %s a year, %s saved, as printed;\n",
		eksArticle, saving.Monthly, saving.Annual, saving.Fraction)
	a.printf("  revenue lost: it says %s, the units say %s. %s\n", theirs, ours, why)
	return errors.Join(err1, err2, err3, err4, err5)
}

// contention adds the article's measurement of a pair of models, which its calculator
// should have used, and what processor sharing predicts for it with nothing fitted.
func (a *answer) contention() error {
	alone := []time.Duration{609 * time.Millisecond, 1135 * time.Millisecond}
	shared := []time.Duration{1227 * time.Millisecond, 1778 * time.Millisecond}
	published := []string{"+101.4%, -50.3%", "+56.6%, -36.1%"}
	rows, list := [][]string{{"alone", "shared", "predicted", "latency", "throughput", "printed, cut off"}}, []object{}
	for i, predicted := range timeslice.FinishTimes(alone, 0) {
		c := cost.Contention{Alone: alone[i], Shared: shared[i]}
		latency, err := c.LatencyImpact()
		throughput, err2 := c.ThroughputImpact()
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		list = append(list, object{"alone_ms": ms(c.Alone), "shared_ms": ms(c.Shared), "predicted_ms": ms(predicted),
			"latency_impact": latency, "throughput_impact": throughput, "published": published[i]})
		rows = append(rows, []string{fmt.Sprintf("%.0f ms", ms(c.Alone)), fmt.Sprintf("%.0f ms", ms(c.Shared)),
			fmt.Sprintf("%.0f ms", ms(predicted)), "+" + latency.String(), throughput.String(), published[i]})
	}
	loss, err := cost.SystemLoss(alone, shared[1])
	a.json["contention"], a.json["system_loss"] = list, loss
	a.printf("\n  Its measurement, a pair of models on one time-sliced GPU:\n")
	a.table("    ", rows)
	a.printf("  Predicted is processor sharing with nothing fitted; the GPU as a whole lost %s.\n", loss.RoundPercent(1))
	return err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
