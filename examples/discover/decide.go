package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/manifest"
)

// decided is a discovery with what follows from it.
type decided struct {
	*discover.Discovery
	result *decision.Result
	folder *manifest.Folder
	steps  []discover.Step
}

// decide decides the fleet and writes its configuration beside the fleet file,
// where there is one.
func decide(d *discover.Discovery, out string, stderr io.Writer) (*decided, error) {
	if err := d.Valid(); err != nil {
		return nil, fmt.Errorf("the fleet can't be decided:\n%w", err)
	}
	input := out
	if input == "" {
		input = "the fleet file that -out writes"
	}
	result, err := decision.Decide(&d.Fleet, decision.Options{Input: input})
	if err != nil {
		return nil, err
	}
	folder, err := manifest.Build(&d.Fleet, result, manifest.Options{})
	if err != nil {
		return nil, err
	}
	if out != "" {
		dir := strings.TrimSuffix(out, filepath.Ext(out)) + "-config"
		if err := folder.Write(dir); err != nil {
			return nil, err
		}
		fmt.Fprintf(stderr, "discover: wrote %d files to %s; read %s/plan.md first\n", len(folder.Files), dir, dir)
	}
	return &decided{d, result, folder, d.Migrate(result)}, nil
}

// writeJSON writes the discovery's JSON with decision, configuration and
// migration beside it.
func (d *decided) writeJSON(w io.Writer) error {
	found, err := json.Marshal(d.Discovery)
	if err != nil {
		return err
	}
	type file struct {
		Path string `json:"path"`
		Note string `json:"note"`
		Data string `json:"data"`
	}
	files := []file{}
	for _, f := range d.folder.Files {
		files = append(files, file{f.Path, f.Note, string(f.Data)})
	}
	steps := d.steps
	if steps == nil {
		steps = []discover.Step{}
	}
	var more, all bytes.Buffer
	enc := json.NewEncoder(&more)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(struct {
		Decision      *decision.Result `json:"decision"`
		Configuration []file           `json:"configuration"`
		Migration     []discover.Step  `json:"migration"`
	}{d.result, files, steps}); err != nil {
		return err
	}
	joined := append(bytes.TrimSuffix(found, []byte("}")), ',')
	joined = append(joined, bytes.TrimPrefix(bytes.TrimSpace(more.Bytes()), []byte("{"))...)
	if err := json.Indent(&all, joined, "", "  "); err != nil {
		return err
	}
	all.WriteByte('\n')
	_, err = all.WriteTo(w)
	return err
}

func (d *decided) writeText(w io.Writer, show discover.TextOptions) error {
	if _, err := fmt.Fprint(w, "\nDECISION\n"); err != nil {
		return err
	}
	if err := d.result.WriteText(w, decision.TextOptions{Width: show.Width, More: "quickstart -input with what -out writes"}); err != nil {
		return err
	}
	if err := discover.WriteSteps(w, d.steps, show); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nCONFIGURATION, which -out writes: %d files, plan.md to read first\n", len(d.folder.Files))
	return err
}
