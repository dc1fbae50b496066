package main

import (
	"errors"
	"flag"
	"time"

	"github.com/cotenant/cotenant/cost"
)

func sla(fs *flag.FlagSet) func(*answer) error {
	saving := moneyFlag(fs, "saving", "1518.40 USD",
		"what sharing saves in a month, as an `amount`; the default is the article's")
	revenue := moneyFlag(fs, "revenue", "0", "monthly revenue that depends on the latency, as an `amount`; shows the "+
		"net saving")
	added := fs.Duration("added", 618*time.Millisecond,
		"`latency` that sharing adds; the article measured 618ms and 643ms")
	rate := ppmFlag(fs, "loss-per-100ms", 1*cost.Percent, "`percent` of revenue lost for each 100 ms; the article "+
		"quotes 1% to 3%, without a measurement")
	return func(a *answer) error {
		latencies, rates := []time.Duration{*added}, []cost.PPM{*rate}
		if !given(fs, "added", "loss-per-100ms") {
			latencies = append(latencies, 643*time.Millisecond)
			rates = append(rates, 3*cost.Percent)
		}
		rows := [][]string{{"added", "loss per 100 ms", "revenue lost", "sharing loses money"}}
		if given(fs, "revenue") {
			rows[0] = append(rows[0], "net saving at "+revenue.String())
		}
		for _, l := range latencies {
			for _, p := range rates {
				loss, err := cost.RevenueLoss(l, p)
				if err != nil {
					return err
				}
				loses := "never"
				switch at, err := cost.BreakEvenRevenue(*saving, loss); {
				case err == nil:
					loses = "above " + at.Round(2).String() + " a month"
				case !errors.Is(err, cost.ErrNoBreakEven):
					return err
				case saving.Sign() < 0 || loss > 0:
					loses = "at any revenue"
				}
				cells := []string{l.String(), p.String(), loss.String(), loses}
				if given(fs, "revenue") {
					net, err := cost.NetSaving(*saving, *revenue, loss)
					if err != nil {
						return err
					}
					cells = append(cells, net.Round(2).String())
				}
				rows = append(rows, cells)
			}
		}
		a.printf("SLA: sharing saves %s a month and adds latency\n\n", saving)
		a.table(rows)
		if !given(fs) {
			a.sources.Add(eksArticle)
			a.printf("  The calculator of %s multiplies a loss per 100 ms by milliseconds: 100 ms lose 100%% there, and 1%% "+
				"by the units.\n", eksArticle)
		}
		return nil
	}
}
