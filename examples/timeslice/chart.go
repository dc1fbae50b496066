package main

import (
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/examples/internal/chart"
)

// writeChart draws P50 and P99 of each tenant's requests against the number of tenants, as the file's name says (.svg,
// .png, .pdf).
func writeChart(path string, s *study) error {
	c := chart.Chart{Title: "Request latency by tenants on the GPU", Simulated: true}
	c.X.Label, c.Y.Label, c.Y.Log = "tenants", "latency (ms)", true
	c.X.Min, c.X.Max = 1, float64(len(s.Together))
	for i := range s.Together {
		for _, q := range []float64{0.50, 0.99} {
			line := fmt.Sprintf("%s P%g", s.Together[i].Tenants[i].Name, 100*q)
			for n, res := range s.Together[i:] {
				if d, ok := res.Tenants[i].Request.Quantile(q); ok && d > 0 {
					c.Add(line, chart.Point{X: float64(i + n + 1), Y: ms(d)})
				}
			}
		}
	}
	if len(c.Series) == 0 {
		return errors.New("no request ended in the simulated time, so there is nothing to draw")
	}
	return chart.WriteFile(path, &c)
}
