// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// Make reviews a discovered cluster. It fails without nodes or pods, or if the input mixes two clusters.
func Make(ctx context.Context, d *discover.Discovery, opts decision.Options) (*Review, error) {
	if err := reviewable(d); err != nil {
		return nil, fmt.Errorf("review: %w", err)
	}
	fleet := d.Fleet
	fleet.Workloads = slices.Clone(fleet.Workloads)
	for i := range fleet.Workloads {
		w := &fleet.Workloads[i]
		if p, ok := d.Profiles[w.Name]; ok && w.Profile == nil && opts.Predictor == nil {
			opts.Profiles = cmp.Or(opts.Profiles, &profile.Profiles{})
			if err := opts.Profiles.Add(p); err != nil {
				return nil, err
			}
			w.Profile = &profile.ProfileRef{Server: p.Server, Load: p.Load}
		}
	}
	r := &Review{Discovery: d, Idle: []Idle{}, Workloads: []Workload{}, Checklist: []Item{}}
	var err error
	if r.Plan, err = migrate.Make(ctx, &fleet, opts); err != nil {
		return nil, err
	}
	r.divide(&fleet)
	r.add()
	r.check(&fleet)
	r.Answer = r.answer()
	return r, nil
}

func reviewable(d *discover.Discovery) error {
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Code == "two-clusters" {
			return fmt.Errorf("%s %s", f.Object, f.Message)
		}
	}
	const how = "kubectl get " + discover.Resources + " -A -o json"
	switch nodes := slices.ContainsFunc(d.Unknown, func(u discover.Unknown) bool { return u.Path == "pools" }); {
	case nodes && d.Pods == 0:
		return fmt.Errorf("neither nodes nor pods are among the input: give both, %s", how)
	case nodes:
		return fmt.Errorf("no node with GPUs is among the input, so that what there is and what it costs is not known: "+
			"give the nodes too, %s", how)
	case d.Pods == 0 && !slices.ContainsFunc(d.Fleet.Pools, func(p decision.Pool) bool { return p.Standalone }):
		return fmt.Errorf("no pod is among the input, so that what runs, and what is idle, is not known: give the pods "+
			"too, %s", how)
	}
	return d.Fleet.Validate()
}

//go:embed items.json
var itemsJSON []byte

// texts has the items of the checklist; NAME is a workload.
var texts = sync.OnceValue(func() (all map[string]Item) {
	_ = json.Unmarshal(itemsJSON, &all) // it is built in
	return all
})

// check fills the checklist, by cost.
func (r *Review) check(f *decision.Fleet) {
	items := map[string]*Item{}
	add := func(id, name string) *Item {
		text := strings.NewReplacer("NAME", name).Replace
		do := text(texts()[id].Do)
		if items[do] == nil {
			items[do] = &Item{Do: do, How: text(texts()[id].How)}
		}
		return items[do]
	}
	for i := range r.Workloads {
		v, w := &r.Workloads[i], r.Workloads[i].of
		concerns := func(it *Item) {
			it.micros += v.micros
			it.Workloads = append(it.Workloads, v.Name)
		}
		lacks := slices.DeleteFunc(slices.Clone(v.lacks), func(key string) bool { return key == migrate.KeySLO })
		if len(lacks) < len(v.lacks) {
			concerns(add("slo", v.Name))
		}
		switch {
		case len(lacks) > 0 && v.Together:
			concerns(add("own", ""))
		case len(lacks) > 0:
			concerns(add("use", ""))
		case len(v.lacks) > 0:
		case v.Verdict == verdictOpen:
			it := add("assumed", v.Name)
			it.Do += v.Why
			concerns(it)
		case v.Verdict == verdictMoves || w.Today == nil || w.Today.Stays != "" || strings.HasPrefix(v.Why, used):
		case w.Today.Object == "StatefulSet" && w.Today.Mechanism != sharing.MechanismHAMi && !budgeted(f, w.Name):
			concerns(add("budget", ""))
		case w.Today.Object == "Pod":
			concerns(add("pod", ""))
		}
	}
	for _, u := range r.Discovery.Unknown {
		switch {
		case strings.HasPrefix(u.Path, "nodes."):
			name := strings.TrimSuffix(strings.TrimPrefix(u.Path, "nodes."), ".gpu")
			items[u.Path] = &Item{Do: "name the GPU of " + name + ": " + u.Why, How: u.Remedy}
		case strings.HasSuffix(u.Path, ".price_per_gpu_hour"):
			add("price", "")
		}
	}
	for _, it := range items {
		if it.micros > 0 {
			it.Monthly = r.decimal(it.micros)
		}
		r.Checklist = append(r.Checklist, *it)
	}
	slices.SortFunc(r.Checklist, func(a, b Item) int {
		return cmp.Or(cmp.Compare(b.micros, a.micros), strings.Compare(a.Do, b.Do))
	})
}

func budgeted(f *decision.Fleet, workload string) bool {
	return slices.ContainsFunc(f.Today.Budgets, func(b fleet.Budget) bool {
		return b.Workload == workload && b.Allowed > 0
	})
}

// answer is the first line: the change, its gain and risk, the idle devices, and the open workloads.
func (r *Review) answer() string {
	text := ""
	if r.idleNodes > 0 {
		text = fmt.Sprintf("Give back %d of %s, on which nothing runs: %s. ", r.idleNodes, plaintext.Count(r.nodes, "node"),
			r.worth(r.idleMicros)+map[bool]string{true: " a month"}[r.priced])
	}
	if text == "" || r.Plan.Changes() {
		text += r.Plan.Summary()
	}
	text = strings.TrimSpace(text)
	if len(r.Idle) > 0 {
		text += " Idle today: " + r.idleText() + "."
	}
	open, n := int64(0), 0
	for i := range r.Workloads {
		if v := &r.Workloads[i]; v.Verdict == verdictOpen {
			open, n = open+v.micros, n+1
		}
	}
	if n > 0 {
		text += fmt.Sprintf(" Open: %s of %s, see the checklist.", r.worth(open)+map[bool]string{true: " a month"}[r.priced],
			plaintext.Count(n, "workload"))
	}
	return text
}

func (r *Review) idleText() string {
	gpus, instances, micros := 0, 0, int64(0)
	for i := range r.Idle {
		if at := &r.Idle[i]; at.Profile == "" {
			gpus += at.Count
		} else {
			instances += at.Count
		}
		micros += r.Idle[i].micros
	}
	var parts []string
	if instances > 0 {
		parts = append(parts, plaintext.Count(instances, "MIG instance"))
	}
	if gpus > 0 {
		parts = append(parts, plaintext.Count(gpus, "GPU"))
	}
	text := strings.Join(parts, ", ")
	if r.priced {
		text += fmt.Sprintf(" (%s a month)", r.worth(micros))
	}
	return text
}

const mostRows = 12 // workloads of the short text

// WriteText writes the answer, then the costs, the workloads, the plan, the findings and the checklist, within a number
// of columns (0 means 100). The long form has the steps, all workloads, and the reasons why workloads are not moved.
func (r *Review) WriteText(w io.Writer, width int, long bool) error {
	width = cmp.Or(width, 100)
	var out bytes.Buffer
	line := func(hang int, format string, args ...any) {
		fmt.Fprintln(&out, plaintext.Wrap(fmt.Sprintf(format, args...), width, hang))
	}
	line(0, "%s", r.Answer)
	r.money(&out)
	r.workloads(&out, width, long)
	steps := r.Plan.StepLines(mostRows)
	if long {
		steps = r.Plan.Lines(true)[1:]
	}
	for _, text := range steps {
		if !strings.HasPrefix(text, " ") {
			fmt.Fprintln(&out)
		}
		line(3, "%s", text)
	}
	r.noticed(long, line)
	if len(r.Checklist) > 0 {
		line(0, "\nCHECKLIST: facts that could free more, by the cost of the GPUs concerned")
	}
	for i := range r.Checklist {
		it := &r.Checklist[i]
		worth := ""
		if it.micros > 0 {
			worth = r.worth(it.micros) + "  "
		}
		of := ""
		if n := len(it.Workloads); n > 1 || n == 1 && !strings.Contains(it.Do, it.Workloads[0]) {
			of = ": " + plaintext.Some(it.Workloads, 3, n)
		}
		line(5, "%3d. %s%s%s", i+1, worth, it.Do, of)
		line(0, "     -> %s", it.How)
	}
	_, err := out.WriteTo(w)
	return err
}

// fewFindings bounds the kinds of findings of the short text.
const fewFindings = 6

// noticed writes the findings about the cluster or its metrics, the first of each kind, except those of idle GPUs.
func (r *Review) noticed(long bool, line func(hang int, format string, args ...any)) {
	n := map[string]int{}
	for i := range r.Discovery.Findings {
		n[r.Discovery.Findings[i].Code]++
	}
	kinds := 0
	for i := range r.Discovery.Findings {
		f := &r.Discovery.Findings[i]
		more := n[f.Code]
		if n[f.Code] = 0; more == 0 || f.Code == "gpus-not-held" || f.Code == "idle-gpus" ||
			f.Severity < sharing.SeverityMedium && !long {
			continue
		}
		if kinds++; kinds == 1 {
			line(0, "\nNOTICED")
		}
		if kinds > fewFindings && !long {
			line(0, "  and more: -v lists all kinds, cotenant discover all")
			return
		}
		text := ""
		if more > 1 {
			text = fmt.Sprintf(" (and %d more)", more-1)
		}
		line(2, "  %v  %s: %s%s", f.Severity, f.Object, f.Message, text)
	}
}

func (r *Review) money(out io.Writer) {
	if !r.priced {
		return
	}
	m := &r.Money
	fmt.Fprintf(out, "\n%s A MONTH\n", m.Currency)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range []struct{ name, amount string }{{"today", m.Today}, {"moves", m.Moves}, {"shared", m.Shares},
		{"kept", m.Kept}, {"open", m.Open}, {"idle", m.Idle}, {"of which on nodes that nothing runs on", m.IdleNodes},
		{"freed by the plan", m.Freed}} {
		if row.amount != "" && row.amount != "0.00" && row.amount != "0" {
			fmt.Fprintf(tw, "%s\t%s\t\n", row.name, plaintext.Amount(row.amount))
		}
	}
	_ = tw.Flush() // to memory
}

func (r *Review) workloads(out *bytes.Buffer, width int, long bool) {
	fmt.Fprintf(out, "\nWORKLOADS\n")
	var rows bytes.Buffer
	tw := tabwriter.NewWriter(&rows, 0, 0, 2, ' ', 0)
	for i := range r.Workloads {
		if i == mostRows && len(r.Workloads) > mostRows+1 && !long {
			break
		}
		v := &r.Workloads[i]
		use := "not measured"
		busy, ok := v.Busy.Get()
		if memory, known := v.Memory.Get(); ok || known {
			use = ""
			if ok {
				use = fmt.Sprintf("busy %.0f%%", 100*busy)
			}
			if known {
				use = strings.TrimPrefix(use+fmt.Sprintf(", %v", memory), ", ")
			}
			if v.Together {
				use += " with others"
			}
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\t%v: %s\n", v.Name, v.Runs, r.worth(v.micros), use, v.Verdict, v.Why)
	}
	_ = tw.Flush() // to memory
	for text := range strings.Lines(rows.String()) {
		row := []rune(strings.TrimRight(text, "\n"))
		if !long && len(row) > width {
			row = append(row[:width-1], '…')
		}
		fmt.Fprintln(out, string(row))
	}
	if n := len(r.Workloads) - mostRows; n > 1 && !long {
		fmt.Fprintf(out, "  and %d more: -v lists all\n", n)
	}
}
