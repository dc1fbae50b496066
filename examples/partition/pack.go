package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/mig"
)

func pack(_ context.Context, args []string, c *console) error {
	fs := c.flags("pack", "packs a demand on as few GPUs as possible")
	gpu := fs.String("gpu", "", "`GPU` to pack on")
	text := fs.String("demand", "", "`COUNTS` such as 1g.10gb=40,3g.40gb=12")
	asJSON := fs.Bool("json", false, "print JSON")
	svg := fs.String("svg", "", "write a drawing of the distinct layouts to this `FILE`")
	parted := fs.Bool("parted", false, "print a mig-parted configuration, a label for each distinct layout")
	if _, err := fs.parse(args, 0); err != nil {
		return err
	}
	m, err := lookup(*gpu)
	if err != nil {
		return err
	}
	demand, err := mig.ParseCounts(*text)
	if err != nil {
		return fmt.Errorf("-demand: %w", err)
	}
	if *asJSON && *parted {
		return errors.New("pack: ask for one of -json and -parted")
	}
	if len(demand) == 0 {
		return errors.New("pack: say what is wanted, for example -demand 1g.10gb=40,3g.40gb=12")
	}
	p, err := m.Pack(demand)
	if err != nil {
		return err
	}
	if *svg != "" {
		var layouts []mig.Layout
		var labels []string
		for _, g := range p.Groups {
			layouts, labels = append(layouts, g.Layout), append(labels, fmt.Sprintf("%d x %s", g.GPUs, m.Key))
		}
		if err := writeSVG(*svg, layouts, labels); err != nil {
			return err
		}
	}
	if *asJSON {
		out := struct {
			GPUs       int              `json:"gpus"`
			LowerBound int64            `json:"lower_bound"`
			Optimal    bool             `json:"optimal"`
			Layouts    [][]mig.Instance `json:"layouts"`
		}{p.GPUs, p.LowerBound, p.Optimal, [][]mig.Instance{}}
		for _, l := range p.Layouts() {
			out.Layouts = append(out.Layouts, list(l.Instances))
		}
		return c.json(out)
	}
	if *parted {
		return c.parted(p)
	}
	fmt.Fprintf(c.out, "%d x %s (lower bound %d, optimal %t)\n", p.GPUs, m.Key, p.LowerBound, p.Optimal)
	for _, g := range p.Groups {
		fmt.Fprintf(c.out, "%6d x %s\n", g.GPUs, g.Layout.Bar())
	}
	return nil
}

// parted prints a label for each layout, and as comments how many GPUs get it.
func (c *console) parted(p mig.Packing) error {
	config := mig.PartedConfig{Configs: map[string][]mig.PartedEntry{}}
	for i, g := range p.Groups {
		label := fmt.Sprintf("layout-%d", i+1)
		config.Configs[label] = []mig.PartedEntry{g.Layout.PartedEntry()}
		fmt.Fprintf(c.out, "# %d x %s: %s\n", g.GPUs, label, g.Layout)
	}
	text, err := config.Marshal()
	if err == nil {
		_, err = c.out.Write(text)
	}
	return err
}

func writeSVG(name string, layouts []mig.Layout, labels []string) error {
	return page.WriteFile(name, []byte(mig.SVG(layouts, labels)))
}

func generate(_ context.Context, args []string, c *console) error {
	fs := c.flags("generate", "writes a mig-parted configuration for the GPUs of a node")
	gpus := fs.String("gpu", "", "`GPUs`, separated by commas; more than one get device filters")
	balanced := fs.Bool("balanced", false, "only the label all-balanced")
	name := fs.String("configmap", "", "write it as a ConfigMap of this `NAME` for the GPU Operator")
	namespace := fs.String("namespace", "", "`NAMESPACE` of the ConfigMap")
	if _, err := fs.parse(args, 0); err != nil {
		return err
	}
	var models []*mig.Model
	for s := range strings.SplitSeq(*gpus, ",") {
		m, err := lookup(strings.TrimSpace(s))
		if err != nil {
			return err
		}
		models = append(models, m)
	}
	config, err := mig.GenerateParted(models...)
	if err != nil {
		return err
	}
	if *balanced {
		for _, m := range models {
			if _, err := m.Balanced(); err != nil {
				return err
			}
		}
		config.Configs = map[string][]mig.PartedEntry{"all-balanced": config.Configs["all-balanced"]}
	}
	text, err := config.Marshal()
	if *name != "" {
		text, err = config.ConfigMap(*name, *namespace)
	}
	if err != nil {
		return err
	}
	_, err = c.out.Write(text)
	return err
}

func enumerate(_ context.Context, args []string, c *console) error {
	fs := c.flags("enumerate", "counts the ways to partition an empty GPU")
	gpu := fs.String("gpu", "", "`GPU` to count for")
	names := fs.String("profiles", "", "only these `PROFILES`, separated by commas")
	asJSON := fs.Bool("json", false, "print JSON")
	if _, err := fs.parse(args, 0); err != nil {
		return err
	}
	m, err := lookup(*gpu)
	if err != nil {
		return err
	}
	var profiles []string
	if *names != "" {
		for s := range strings.SplitSeq(*names, ",") {
			profiles = append(profiles, strings.TrimSpace(s))
		}
	}
	e, err := m.Enumerate(profiles...)
	if err != nil {
		return err
	}
	if *asJSON {
		return c.json(e)
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "sets of placed instances\t%d\n", e.Placed)
	fmt.Fprintf(w, "to which nothing can be added\t%d\n", e.MaximalPlaced)
	fmt.Fprintf(w, "distinct counts of profiles\t%d\n", e.Multisets)
	fmt.Fprintf(w, "of the maximal placed sets\t%d\n", e.MaximalPlacedMultisets)
	fmt.Fprintf(w, "that no other counts exceed\t%d\n", e.MaximalMultisets)
	return w.Flush()
}
