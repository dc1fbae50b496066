// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

//go:embed words.json
var wordsJSON []byte

// word holds the sentence of a code, with figures of the reason as ${figure}; see [Reason.figure].
type word struct {
	Code   string
	Source sharing.SourceID
	Scope  string
	Text   string
	Alone  string // in the place of Text where the ground is not known; "" = the same
	Short  string // of those that a node refuses for

	scope Scope
}

// words holds every code's text, in the order of the codes.
var words = func() (all [codeCount]word) {
	scopes := []string{ScopeKind: "kind", ScopeChoice: "choice", ScopeEmpty: "empty", ScopeNeighbours: "neighbours",
		ScopeLeft: "left"}
	_ = json.Unmarshal(wordsJSON, &all) // a test reads the file that is built in
	for i := range all {
		all[i].scope = Scope(max(0, slices.Index(scopes, all[i].Scope)))
	}
	return all
}()

// Short returns in a few words, without numbers, why nodes refuse a request, so that those with one reason count as
// one; empty for a code that no node has.
func (c Code) Short() string {
	if c >= codeCount {
		return ""
	}
	return words[c].Short
}

// String puts the reason into words.
func (r Reason) String() string {
	if r.Code >= codeCount {
		return r.Code.String()
	}
	text := words[r.Code].Text
	if alone := words[r.Code].Alone; alone != "" && r.ground == nil {
		text = alone
	}
	return os.Expand(text, r.figure)
}

// figure writes one operand of a reason for a sentence.
func (r *Reason) figure(name string) string {
	d, g := cmp.Or(r.demand, &Demand{}), cmp.Or(r.ground, &Ground{})
	fraction, _ := d.MemoryFraction.Get()
	switch name {
	case "need":
		return fmt.Sprint(r.Need)
	case "have":
		return fmt.Sprint(r.Have)
	case "overloaded":
		return overloaded(r.Have)
	case "need.bytes":
		return sharing.Bytes(r.Need).String()
	case "have.bytes":
		return sharing.Bytes(r.Have).String()
	case "need.share":
		return share(r.Need)
	case "have.share":
		return share(r.Have)
	case "need.ms":
		return plaintext.Digits(millis(r.Need))
	case "have.ms":
		return plaintext.Digits(millis(r.Have))
	case "have.percent":
		return fmt.Sprintf("%.0f", float64(r.Have)/10)
	case "high.percent":
		return fmt.Sprintf("%.0f", float64(r.High)/10)
	case "memory":
		return d.Memory.text(sharing.Bytes(r.Need))
	case "pool":
		return g.name
	case "pinned":
		return d.Pool
	case "kind":
		return d.Kind
	case "mechanism":
		return r.Mechanism.String()
	case "available":
		return g.available[r.Mechanism].Text
	case "not.delivered":
		if g.delivery == sharing.DeliveryBare {
			return fmt.Sprintf("pool %s states no delivery that carries out %s; state it once it is installed, or list the "+
				"mechanism", g.name, r.Mechanism)
		}
		return fmt.Sprintf("delivery %s of pool %s does not carry out %s: %s", g.delivery, g.name, r.Mechanism,
			sharing.Delivers(g.delivery, r.Mechanism).Text)
	case "over.nodes":
		if d.NeverShares && r.Mechanism == sharing.MechanismExclusive {
			return "; write a gang over several nodes as replicas, one a node"
		}
	case "span.shares":
		switch {
		case usesInstances(r.Mechanism):
			return ", and MIG instances cannot reach one another"
		case r.Mechanism == sharing.MechanismTimeSlicing || r.Mechanism == sharing.MechanismMPS:
			return ", and the device plugin may put several shares of one replica on one of them"
		}
		return fmt.Sprintf(", and shares of several by %s are not planned: its ranks wait for one another, and what "+
			"neighbours on each do to that was not measured", r.Mechanism)
	case "axis":
		return r.Axis.String()
	case "level":
		return r.Level.String()
	case "level.here":
		return g.isolation[r.Mechanism][r.Axis].Level.String()
	case "isolation":
		return g.isolation[r.Mechanism][r.Axis].Text
	case "today":
		return d.Today.String()
	case "who.fits":
		if r.Verdict == VerdictPass {
			return ": a whole GPU of its own is the only place that needs no neighbour's memory to fit"
		}
		return ", so nobody knows who fits beside it; measure its most memory in use and state it"
	case "a.gpu":
		return problem.A(g.gpuName())
	case "where":
		if r.Profile != nil {
			return r.Profile.Name + " of " + g.gpuName()
		}
		return g.gpuName()
	case "slice":
		if r.Profile == nil {
			return "a slice"
		}
		return r.Profile.Name
	case "slice.memory":
		if r.Profile != nil {
			return r.Profile.Memory.Value.String()
		}
	case "slice.count":
		if r.Profile != nil {
			return fmt.Sprint(r.Profile.MaxInstances)
		}
	case "slower":
		law := "as programs on A100 slices do"
		if d.Decodes {
			law = "by its share of the memory bandwidth"
		}
		return fmt.Sprintf("%.2f times slower there %s", g.slowdown(r.Profile, d), law)
	case "framework":
		return d.Framework
	case "fraction":
		return fmt.Sprintf("%.2f", fraction)
	case "fraction.bytes":
		return sharing.Bytes(fraction * float64(r.Have)).String()
	case "fraction.needed":
		return fmt.Sprintf("%.2f", math.Ceil(100*float64(r.Need)/float64(max(1, r.Have)))/100)
	case "metric":
		return ObjectiveName(r.Metric)
	case "predicted":
		return predicted(r)
	}
	return ""
}

func usesInstances(m sharing.Mechanism) bool {
	return m == sharing.MechanismMIG || m == sharing.MechanismMIGWithMPS || m == sharing.MechanismMIGBackedVGPU
}
