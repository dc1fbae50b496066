package main

import (
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/examples/internal/colocation"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// outcome is a workload of a scene in one run, its replicas together.
type outcome struct {
	scene    *scene
	workload string
	sim      *simulated
	row      predict.Row
	replicas int
}

// collect puts the figures of a run's replicas together, by scene and workload.
func collect(u *setup, res *loadgen.Result, series *telemetry.Series) []outcome {
	var out []outcome
	histograms := map[string]map[loadgen.LatencyMetric]*loadgen.Histogram{}
	for _, h := range res.Histograms {
		histograms[h.Tenant] = h.ByMetric
	}
	merged := func(members []int, m loadgen.LatencyMetric) *predict.LatencyMS {
		all := loadgen.NewHistogram()
		for _, i := range members {
			if h := histograms[u.clients[i].tenant][m]; h != nil {
				all.Merge(h)
			}
		}
		return colocation.Millis(all.Figures())
	}
	done := map[[2]string]bool{}
	for i, c := range u.clients {
		key := [2]string{c.scene.Name, c.workload}
		if done[key] {
			continue
		}
		done[key] = true
		var members []int
		for j := i; j < len(u.clients); j++ {
			if o := u.clients[j]; o.scene == c.scene && o.workload == c.workload {
				members = append(members, j)
			}
		}
		g := outcome{scene: c.scene, workload: c.workload, sim: u.sims[i], replicas: len(members)}
		g.row = predict.Row{Mechanism: sharing.MechanismTimeSlicing, Case: "simulated/" + c.workload, Tenants: 1, Server: g.sim.serverKey(0), Load: g.sim.load,
			TTFT: merged(members, loadgen.MetricTTFT), TPOT: merged(members, loadgen.MetricTPOT), ITL: merged(members, loadgen.MetricITL), E2E: merged(members, loadgen.MetricE2E)}
		requests, failed, rate := 0, 0, 0.0
		var rows predict.Rows
		for _, j := range members {
			if t, ok := res.Summary.Tenant(u.clients[j].tenant); ok {
				requests, failed, rate = requests+int(t.Counts.OK), failed+int(t.Counts.Failed), rate+t.OutputTokensPerS
			}
			var r predict.Row
			colocation.AddUtilisation(&r, series, u.clients[j].gpu, res.Summary.Window)
			rows = append(rows, r)
		}
		rate /= float64(len(members)) // of a replica
		g.row.Requests, g.row.Errors, g.row.TokensPerS = &requests, &failed, &rate
		g.row.GPM = &predict.RowGPM{
			GraphicsUtil: mean(rows, func(r *predict.RowGPM) *float64 { return r.GraphicsUtil }),
			SMUtil:       mean(rows, func(r *predict.RowGPM) *float64 { return r.SMUtil }),
			DRAMBwUtil:   mean(rows, func(r *predict.RowGPM) *float64 { return r.DRAMBwUtil }),
		}
		out = append(out, g)
	}
	return out
}

// mean is the mean over rows, nil without a figure.
func mean(rows predict.Rows, of func(*predict.RowGPM) *float64) *float64 {
	sum, n := 0.0, 0
	for i := range rows {
		if v := of(rows[i].GPM); v != nil {
			sum, n = sum+*v, n+1
		}
	}
	if n == 0 {
		return nil
	}
	sum /= float64(n)
	return &sum
}
