// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// A mechanism in some of the places that ARCHITECTURE.md's recipe names, and not in all, is half added.
func TestEveryMechanismIsWhole(t *testing.T) {
	for _, m := range sharing.Mechanisms() {
		if info := sharing.InfoFor(m); info.Mechanism != m || info.Summary == "" {
			t.Errorf("%s: describe it in sharing/data/mechanisms.json", m)
		}
		for a := range sharing.AxisCount {
			if p := sharing.Isolation(m, sharing.Axis(a)); p.Text == "" {
				t.Errorf("%s: say in sharing/data/isolation.json what it isolates in %s", m, sharing.Axis(a))
			}
		}
		if traits.Of(m).Capacity == 0 {
			t.Errorf("%s: give it traits in decision/internal/traits", m)
		}
		if score.TraitOf(m).TradeOff == "" {
			t.Errorf("%s: say in decision/mechanism.go what choosing it accepts", m)
		}
	}
}

// profilesOnly are models of which sources give MIG profiles and little else.
var profilesOnly = []string{"h100-64gb", "pg506-96gb", "rtx-6000d", "jetson-thor-igpu"}

// A GPU with MIG in its row has a model in the catalogue, each model has a row, and a row has all that predictions
// read.
func TestEveryGPUIsWhole(t *testing.T) {
	for _, g := range sharing.GPUs() {
		if yes, known := g.MIG.Get(); known && yes == sharing.AnswerYes {
			if _, err := mig.Lookup(g.Name); err != nil && g.Note == "" {
				t.Errorf("%s: add its model to mig/catalogue.json, or say in its note why there is none: %v", g.Name, err)
			}
		}
		if m := predict.MachineOf(&g); g.SMs.Known && m.FLOPs == 0 {
			t.Errorf("%s: give its architecture a rate in decision/predict/machine.go", g.Name)
		}
	}
	for _, m := range mig.Models() {
		found := false
		for _, p := range m.PCI {
			_, err := sharing.LookupGPU("10DE:" + strings.TrimPrefix(p.Device, "0x"))
			found = found || err == nil
		}
		for _, name := range m.Products {
			_, err := sharing.LookupGPU(name)
			found = found || err == nil
		}
		if !found && !slices.Contains(profilesOnly, m.Key) {
			t.Errorf("%s: add its row to sharing/data/gpus.json", m.Key)
		}
	}
}
