package discover

import (
	"context"
	"fmt"
	"io"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/manifest/addons"
)

// Decided is a discovery with the decision of its fleet, the decision's
// configuration, and the steps from what runs today to it.
type Decided struct {
	*Discovery
	Result *decision.Result
	Folder *manifest.Folder
	Steps  []Step
}

// Decide decides the fleet that was discovered. The error says what keeps it from
// being decided (see [Discovery.Valid]).
func (d *Discovery) Decide(ctx context.Context, opts decision.Options) (*Decided, error) {
	if err := d.Valid(); err != nil {
		return nil, fmt.Errorf("%w: the fleet can't be decided:\n%w", ErrInvalid, err)
	}
	result, err := decision.Decide(ctx, &d.Fleet, opts)
	if err != nil {
		return nil, err
	}
	folder, err := manifest.Build(&d.Fleet, result, manifest.Options{Extensions: []manifest.Extension{addons.VGPU{}}})
	if err != nil {
		return nil, err
	}
	return &Decided{d, result, folder, d.Migrate(result)}, nil
}

// WriteJSON writes the discovery's JSON with the keys decision, configuration and
// migration added, indented, with a final newline.
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
	return writeIndented(w, struct {
		document
		Decision      *decision.Result `json:"decision"`
		Configuration []file           `json:"configuration"`
		Migration     []Step           `json:"migration"`
	}{doc, d.Result, files, append([]Step{}, d.Steps...)})
}

// WriteText writes the discovery, the decision and the steps for people; decided says how the decision is shown.
func (d *Decided) WriteText(w io.Writer, opts TextOptions, decided decision.TextOptions) error {
	if err := d.Discovery.WriteText(w, opts); err != nil {
		return err
	}
	if _, err := fmt.Fprint(w, "\nDECISION\n"); err != nil {
		return err
	}
	if err := d.Result.WriteText(w, decided); err != nil {
		return err
	}
	return writeSteps(w, d.Steps, opts)
}
