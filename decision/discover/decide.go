package discover

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/decision/predict/profile"
)

// Decided is a discovery with the plan of its fleet and the files of the plan's steps.
type Decided struct {
	*Discovery
	Plan   *migrate.Plan
	Folder *manifest.Folder
}

// Decide plans the fleet that was discovered, from what runs today. The error says what keeps it from being decided
// (see [Discovery.Valid]).
func (d *Discovery) Decide(ctx context.Context, opts decision.Options) (*Decided, error) {
	if err := d.Valid(); err != nil {
		return nil, fmt.Errorf("%w: the fleet can't be decided:\n%w", ErrInvalid, err)
	}
	fleet := d.Fleet
	if len(d.Profiles) > 0 && opts.Profiles == nil {
		opts.Profiles = &profile.Profiles{}
		fleet.Workloads = slices.Clone(fleet.Workloads)
		for i := range fleet.Workloads {
			w := &fleet.Workloads[i]
			if p, ok := d.Profiles[w.Name]; ok && w.Profile == nil {
				if err := opts.Profiles.Add(p); err != nil {
					return nil, err
				}
				w.Profile = &profile.ProfileRef{Server: p.Server, Load: p.Load}
			}
		}
	}
	plan, err := migrate.Make(ctx, &fleet, opts)
	if err != nil {
		return nil, err
	}
	folder, err := manifest.Migration(plan, manifest.Options{})
	return &Decided{d, plan, folder}, err
}

// WriteJSON writes the discovery's JSON with the keys plan and configuration added, indented, with a final newline.
func (d *Decided) WriteJSON(w io.Writer) error {
	doc, err := d.document()
	if err != nil {
		return err
	}
	type file struct {
		Path string `json:"path"`
		Note string `json:"note"`
		Data string `json:"data"`
	}
	files := []file{}
	for _, f := range d.Folder.Files {
		files = append(files, file{f.Path, f.Note, string(f.Data)})
	}
	return encode(w, struct {
		document
		Plan          *migrate.Plan `json:"plan"`
		Configuration []file        `json:"configuration"`
	}{doc, d.Plan, files}, "  ")
}

// WriteText writes the discovery and the plan for people.
func (d *Decided) WriteText(w io.Writer, opts TextOptions) error {
	if err := d.Discovery.WriteText(w, opts); err != nil {
		return err
	}
	return WritePlan(w, d.Plan, opts)
}

// WritePlan writes a plan for people, wrapped to the width.
func WritePlan(w io.Writer, plan *migrate.Plan, opts TextOptions) error {
	p := opts.page()
	for _, text := range plan.Lines() {
		if strings.HasPrefix(text, " ") {
			p.line(text)
		} else {
			p.head(text)
		}
	}
	_, err := p.out.WriteTo(w)
	return err
}
