// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// TestMeasurementIsOfAReplica: the load is that of one replica, and the text has the command of the front end.
func TestMeasurementIsOfAReplica(t *testing.T) {
	f := &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: "L4", Count: 4}}, Workloads: []Workload{
		{Name: "chat", Kind: KindOnlineInference, Model: &fleet.LanguageModel{Parameters: 3e9, Weights: "fp16"}, Load: &fleet.Traffic{RequestsPerS: 1.5},
			Replicas: Replicas{Max: 2}, SLO: profile.SLO{TPOTP99: sharing.Some(profile.Duration(50e6))}}}}
	r := decide(t, f)
	s := r.Decision("chat").Measurement
	if s == nil {
		t.Fatal("not provisional")
	}
	if !s.Endpoint || s.Rate != 0.75 || s.Workload != "chat" || !slices.Contains(s.Figures, profile.MetricTPOTP99.String()) {
		t.Errorf("half of the load on one of two replicas: %+v", s)
	}
	if text := oneLine(textOf(t, r, TextOptions{})); !strings.Contains(text, "0.75 requests a second") {
		t.Error(text)
	}
	command := func(s *Measurement) string { return "measure-" + s.Workload }
	if text := oneLine(textOf(t, r, TextOptions{Command: command})); !strings.Contains(text, "measure-chat") {
		t.Error(text)
	}
}

// oneLine joins the lines of a text with single spaces.
func oneLine(lines []string) string {
	return strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
}
