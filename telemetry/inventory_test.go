// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"fmt"
	"testing"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// A driver's name of a GPU, or its PCI id, finds its row in sharing's table.
func ExampleGPU_Model() {
	g := telemetry.GPU{Name: "NVIDIA H100 80GB HBM3", PCIID: "10DE:2330"}
	model, err := g.Model()
	if err != nil {
		fmt.Println(err)
		return
	}
	sms, _ := model.SMs.Get()
	fmt.Println(model.Name, sms, "SMs, MIG:", model.MIG.Value)
	// Output: H100 80GB HBM3 132 SMs, MIG: yes
}

func TestModelByPCIID(t *testing.T) {
	g := telemetry.GPU{Name: "Graphics Device", PCIID: "10DE:2335"}
	if m, err := g.Model(); err != nil || m.Name != "H200" {
		t.Errorf("%v, %v", m, err)
	}
	g.PCIID = "10DE:FFFF"
	if m, err := g.Model(); err == nil {
		t.Errorf("%v", m)
	}
}

func TestSeesMPS(t *testing.T) {
	for _, c := range []struct {
		listed    sharing.Answer
		processes []telemetry.Process
		want      sharing.Answer
	}{
		{sharing.AnswerYes, nil, sharing.AnswerNo},
		{sharing.AnswerUnknown, nil, sharing.AnswerUnknown},
		{sharing.AnswerYes, []telemetry.Process{{Name: "python3"}}, sharing.AnswerNo},
		{sharing.AnswerYes, []telemetry.Process{{Name: "python3"}, {}}, sharing.AnswerUnknown}, // one that is hidden
		{sharing.AnswerUnknown, []telemetry.Process{{Name: "nvidia-cuda-mps-server"}}, sharing.AnswerYes},
	} {
		g := telemetry.GPU{ProcessesListed: c.listed, Processes: c.processes}
		if got := g.SeesMPS(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.processes, got, c.want)
		}
	}
}
