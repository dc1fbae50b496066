package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

type finding struct {
	Source   string `json:"source,omitempty"` // ConfigMap
	Label    string `json:"label"`
	Entry    int    `json:"entry"`
	GPU      string `json:"gpu"`
	Feasible any    `json:"feasible"` // true, false or "unknown"
	// Placements prove a feasible entry.
	Placements   []mig.Instance `json:"placements,omitzero"`
	Reason       string         `json:"reason,omitempty"`
	OverriddenBy []int          `json:"overridden_by,omitempty"`
}

func check(_ context.Context, args []string, c *console) error {
	fs := c.flags("check", "says for each entry of a mig-parted configuration whether it can be placed")
	gpu := fs.String("gpu", "", "check the entries that select this `GPU`; without it each device-filter picks its GPUs")
	asJSON := fs.Bool("json", false, "print JSON")
	rest, err := fs.parse(args, 1)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return errors.New("check: name a file, or - for standard input")
	}
	var model *mig.Model
	if *gpu != "" {
		if model, err = mig.Lookup(*gpu); err != nil {
			return err
		}
	}
	data, err := c.read(rest[0])
	if err != nil {
		return err
	}
	configs, err := mig.ParsePartedFile(data)
	if err != nil {
		return fmt.Errorf("%s: %w", rest[0], err)
	}
	findings := []finding{}
	infeasible := false
	for _, named := range configs {
		for _, f := range mig.CheckParted(named.Config, model) {
			findings = append(findings, newFinding(named.Source, f))
			infeasible = infeasible || f.Feasible == sharing.AnswerNo
		}
	}
	if *asJSON {
		err = c.json(findings)
	} else {
		err = c.findings(findings)
	}
	if err == nil && infeasible {
		return errInfeasible
	}
	return err
}

func newFinding(source string, f mig.PartedFinding) finding {
	out := finding{Source: source, Label: f.Label, Entry: f.Entry, GPU: f.GPU, Feasible: "unknown", Reason: f.Reason, OverriddenBy: f.OverriddenBy}
	switch f.Feasible {
	case sharing.AnswerYes:
		out.Feasible = true
		out.Placements = list(f.Layout.Instances)
	case sharing.AnswerNo:
		out.Feasible = false
	}
	return out
}

// list is never nil, so that JSON has [] and not null.
func list(instances []mig.Instance) []mig.Instance { return append([]mig.Instance{}, instances...) }

// maxFile is more than the largest configuration that is accepted.
const maxFile = 16 << 20

// read reads a file, or standard input for "-".
func (c *console) read(name string) ([]byte, error) {
	in := c.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, maxFile))
}

func (c *console) json(v any) error {
	enc := json.NewEncoder(c.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func (c *console) findings(findings []finding) error {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LABEL\tENTRY\tGPU\tFEASIBLE\tPLACEMENTS OR REASON")
	for _, f := range findings {
		text := f.Reason
		for i, p := range f.Placements {
			if i > 0 {
				text += " "
			}
			text += fmt.Sprintf("%s@%d", p.Profile, p.Start)
		}
		if len(f.OverriddenBy) > 0 {
			text += fmt.Sprintf(" (later entries select some of the same GPUs: %v)", f.OverriddenBy)
		}
		answer := map[any]string{true: "yes", false: "no", "unknown": "unknown"}[f.Feasible]
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", f.Label, f.Entry, f.GPU, answer, text)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(c.out, page.Fold(table.String()))
	return err
}
