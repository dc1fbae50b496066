// SPDX-License-Identifier: Apache-2.0

package parted

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Finding is the result of checking one entry of a configuration for one GPU.
type Finding struct {
	Source string `json:"source,omitempty"` // the ConfigMap that holds the configuration, if there is one
	Label  string `json:"label"`
	Entry  int    `json:"entry"` // index in the label's list
	// GPU is the key of the model, the filter for a GPU outside the catalogue, or "any" for an entry without a filter that
	// does not depend on the GPU.
	GPU      string         `json:"gpu"`
	Feasible sharing.Answer `json:"feasible"`
	Layout   mig.Layout     `json:"layout,omitzero"` // the proof, where Feasible is Yes and there are instances
	// Reason explains No and Unknown.
	Reason string `json:"reason,omitempty"`
	// Note lists the possible names of profiles that drivers name differently.
	Note string `json:"note,omitempty"`
}

// String writes the finding as a line of a table: label and entry, GPU, answer, placements or reason.
func (f Finding) String() string {
	text := f.Reason + strings.ReplaceAll(f.Layout.String(), ",", " ")
	if f.Note != "" {
		text += " (" + f.Note + ")"
	}
	entry := fmt.Sprintf("%s[%d]", f.Label, f.Entry)
	return strings.TrimRight(fmt.Sprintf("%-20s  %-16s  %-8s  %s", entry, f.GPU, f.Feasible, text), " ")
}

// Check reports for every entry whether its devices can be placed. With a model it checks the entries that select it.
// If m is nil, each device filter selects its GPUs; an entry without a filter is feasible when one GPU of the catalogue
// can hold it; a filter outside the catalogue is Unknown unless MIG is disabled. Findings are ordered by label, entry
// and GPU.
func Check(c *Config, m *mig.Model) []Finding {
	var out []Finding
	for _, label := range c.Labels() {
		for i, e := range c.Configs[label] {
			for _, f := range e.check(m) {
				f.Label, f.Entry = label, i
				out = append(out, f)
			}
		}
	}
	return out
}

// CheckFile checks every configuration of a file for the models, or without models for those that its device filters
// select; see ParseFile and Check.
func CheckFile(data []byte, models ...*mig.Model) ([]Finding, error) {
	configs, err := ParseFile(data)
	if err != nil {
		return nil, err
	}
	if len(models) == 0 {
		models = []*mig.Model{nil}
	}
	out := []Finding{}
	for _, c := range configs {
		for _, m := range models {
			for _, f := range Check(c.Config, m) {
				f.Source = c.Source
				out = append(out, f)
			}
		}
	}
	return out, nil
}

func (e Entry) check(m *mig.Model) []Finding {
	// Where the model has several PCI identities, one is enough for a filter to let it through.
	selects := func(f mig.DeviceFilter) bool { return slices.Contains(f.Models(), m) }
	switch {
	case m != nil && len(e.Filter) > 0 && !slices.ContainsFunc(e.Filter, selects):
		return nil
	case m != nil:
		return []Finding{e.checkOn(m)}
	case len(e.Filter) == 0:
		return []Finding{e.checkAny()}
	}
	var out []Finding
	var seen []*mig.Model
	for _, f := range e.Filter {
		models := f.Models()
		switch {
		case len(models) > 0:
		case e.MIGEnabled:
			out = append(out, Finding{GPU: f.String(), Reason: "the catalogue has no GPU with this device filter"})
		default:
			out = append(out, Finding{GPU: f.String(), Feasible: sharing.AnswerYes})
		}
		for _, m := range models {
			if !slices.Contains(seen, m) {
				seen = append(seen, m)
				out = append(out, e.checkOn(m))
			}
		}
	}
	return out
}

func (e Entry) checkOn(m *mig.Model) Finding {
	f := Finding{GPU: m.Key, Feasible: sharing.AnswerYes}
	if !e.MIGEnabled || len(e.MIGDevices) == 0 {
		return f
	}
	var err error
	var conflict string
	if f.Note, conflict = e.names(m); conflict != "" {
		f.Feasible, f.Reason = sharing.AnswerNo, conflict
		return f
	}
	if f.Layout, err = m.Place(e.counts(), mig.Layout{}); err == nil {
		return f
	}
	f.Layout, f.Feasible = mig.Layout{}, sharing.AnswerUnknown
	f.Reason = strings.ReplaceAll(strings.TrimPrefix(err.Error(), "mig: "), "\n", "; ")
	if errors.Is(err, mig.ErrInfeasible) || len(m.Profiles) > 0 && anyUnknownName(m, e) {
		f.Feasible = sharing.AnswerNo
	}
	return f
}

// anyUnknownName reports whether the entry names a profile that m does not have.
func anyUnknownName(m *mig.Model, e Entry) bool {
	for name := range e.MIGDevices {
		if _, err := m.Profile(name); err != nil {
			return true
		}
	}
	return false
}

// checkAny looks for a GPU that can hold the entry, and otherwise gives the
// reason of the first GPU that has all its profiles.
func (e Entry) checkAny() Finding {
	if !e.MIGEnabled || len(e.MIGDevices) == 0 {
		return Finding{GPU: "any", Feasible: sharing.AnswerYes}
	}
	first := map[sharing.Answer]*Finding{}
	for _, m := range mig.Models() {
		if !anyUnknownName(m, e) {
			f := e.checkOn(m)
			if f.Feasible == sharing.AnswerYes {
				return f
			}
			first[f.Feasible] = cmp.Or(first[f.Feasible], &f)
		}
	}
	if f := cmp.Or(first[sharing.AnswerUnknown], first[sharing.AnswerNo]); f != nil {
		return *f
	}
	return Finding{GPU: "any", Feasible: sharing.AnswerNo, Reason: e.noGPU()}
}

func (e Entry) noGPU() string {
	var all, missing []string
	for _, m := range mig.Models() {
		all = append(all, m.ProfileNames()...)
	}
	for _, c := range e.counts() {
		has := func(m *mig.Model) bool {
			_, err := m.Profile(c.Profile)
			return err == nil
		}
		if n, err := mig.ParseName(c.Profile); err == nil && !slices.ContainsFunc(mig.Models(), has) {
			text := c.Profile
			n.ComputeSlices = n.Slices // of the whole GPU instance
			if near := problem.Nearest(n.String(), all); near != "" {
				text += fmt.Sprintf(" (did you mean %s?)", near)
			}
			missing = append(missing, text)
		}
	}
	return "no GPU of the catalogue has " + cmp.Or(strings.Join(missing, ", "), "all of these profiles")
}
