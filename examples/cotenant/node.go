// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"math"
	"math/rand/v2"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/guard"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// nodeRows are those of an H200 of its own: a 3B server, and an 8B server at two loads.
//
//go:embed guard/rows.json
var nodeRows []byte

// node is the simulated node through a day: four GPUs, which monitor reads, and the tenants on them, which guard
// watches. The latency of its server is predicted, isolated or co-located with the batch job of the afternoon.
type node struct {
	*telemetrytest.Reader
	config         guard.Config
	isolated, slow float64 // TPOT of chat in milliseconds
	noise          *rand.Rand
	moved, gone    string // tenants that guard moved and reaped
}

const chatPID, batchPID = 2101, 2102 // of the script

func newNode(seed uint64) (*node, error) {
	reader, err := telemetrytest.New(telemetrytest.Day(seed))
	if err != nil {
		return nil, err
	}
	rows, err := profile.ParseRows(nodeRows)
	if err != nil {
		return nil, err
	}
	profiles, err := profile.NewProfiles(rows.Profiles()...)
	if err != nil {
		return nil, err
	}
	n := &node{Reader: reader, noise: rand.New(rand.NewPCG(seed, 0x6b)),
		config: guard.Config{Profiles: profiles, Reap: true}}
	h200 := layout.GPUOf("NVIDIA H200")
	for range 4 {
		n.config.GPUs = append(n.config.GPUs, layout.Device{GPU: h200, Mode: sharing.MechanismTimeSlicing})
	}
	chat, batch := profile.Server{Model: "3b"}, profile.Server{Model: "8b"}
	n.config.Tenants = []guard.Tenant{
		{Name: "llm/chat", Kind: decision.KindOnlineInference, Holds: 0.5, PIDs: []uint32{chatPID}, LimitMS: 6,
			Server: chat, Load: profile.Load{Rate: 4, Prompt: 128, Output: 64}},
		{Name: "llm/summaries", Kind: decision.KindBatch, Holds: 0.5, PIDs: []uint32{batchPID}, Owner: "eve",
			Server: batch, Load: profile.Load{Rate: 2, Prompt: 256, Output: 64}},
		{Name: "lab/notebook", Kind: decision.KindNotebook, GPU: 1, Holds: 1, PIDs: []uint32{3300}, MayReap: true,
			Owner: "ann"},
		{Name: "lab/training", Kind: decision.KindTraining, GPU: 2, Holds: 1, PIDs: []uint32{4711}, Owner: "bob"},
	}
	if n.isolated, err = n.predict(1); err == nil {
		n.slow, err = n.predict(2)
	}
	return n, err
}

// predict returns the median TPOT of the first of several co-located tenants.
func (n *node) predict(tenants int) (float64, error) {
	var group []profile.Solo
	for _, t := range n.config.Tenants[:tenants] {
		solo, err := n.config.Profiles.Solo(t.Server, t.Load)
		if err != nil {
			return 0, err
		}
		group = append(group, solo)
	}
	predictor := predict.NewPredictor()
	all, err := predictor.Predict(sharing.MechanismTimeSlicing, group, predict.MethodClosedForm)
	if err != nil {
		return 0, err
	}
	v, _ := all[0].Get(profile.MetricTPOTP50)
	return v.Value, nil
}

// observe returns the observation of the window that ends at a time.
func (n *node) observe(ctx context.Context, at time.Duration) guard.Observation {
	n.SetTime(at - time.Second)
	o := guard.Observation{At: at, GPUs: make([]guard.GPUSeen, len(n.config.GPUs)),
		Tenants: make([]guard.TenantSeen, len(n.config.Tenants))}
	there, share := map[uint32]bool{}, map[uint32]float64{}
	for i := range o.GPUs {
		seen := &o.GPUs[i]
		seen.At = at
		for _, group := range []telemetry.Groups{telemetry.GroupBasic, telemetry.GroupEnergy, telemetry.GroupProcesses,
			telemetry.GroupProcessUtil} {
			var r telemetry.Reading
			if err := n.Read(ctx, i, group, &r); err != nil {
				seen.Down = err.Error()
				break
			}
			for _, p := range r.Processes {
				there[p.PID], share[p.PID] = true, p.SMUtilPercent.Or(0)/100
			}
			for m, to := range map[telemetry.Metric]*sharing.Optional[float64]{
				telemetry.MetricGPUUtilPercent: &seen.UtilPercent, telemetry.MetricPowerWatts: &seen.Watts,
				telemetry.MetricEnergyJoules: &seen.Joules,
			} {
				if v, ok := r.Get(m); ok {
					*to = sharing.Some(v)
				}
			}
		}
	}
	for k, t := range n.config.Tenants {
		pid := t.PIDs[0]
		o.Tenants[k] = guard.TenantSeen{At: at, Gone: !there[pid] || t.Name == n.gone, Activity: sharing.Some(share[pid])}
	}
	if chat := &o.Tenants[0]; share[chatPID] > 0 {
		tpot := n.isolated
		if there[batchPID] && n.moved == "" {
			tpot = n.slow
		}
		chat.TPOT = sharing.Some(tpot * math.Exp(0.02*n.noise.NormFloat64()))
	}
	return o
}

// carry carries out a proposal in the node, and reports whether it did.
func (n *node) carry(p *guard.Proposal) bool {
	switch {
	case p.Withheld != "":
		return false
	case p.Action == guard.ActionMove:
		n.moved = p.Target
	case p.Action == guard.ActionReap:
		n.gone = p.Target
	}
	return p.Action != guard.ActionKeep && p.Action != guard.ActionSplit
}
