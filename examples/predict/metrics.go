package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cotenant/cotenant/decision/observe"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// observe makes profiles of servers from their metrics.
func (o *options) observe(stdout, stderr io.Writer) error {
	var readings []serving.Reading
	for _, name := range o.metrics {
		data, err := os.ReadFile(name)
		if err != nil {
			return page.BadInput(err)
		}
		parse := serving.Parse
		if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
			parse = serving.ParseRange
		}
		read, err := parse(bytes.NewReader(data))
		if err != nil {
			return page.BadInput(fmt.Errorf("%s: %w", name, err))
		}
		info, err := os.Stat(name)
		if err != nil {
			return page.BadInput(err)
		}
		for i := range read {
			if read[i].At.IsZero() {
				read[i].At = info.ModTime()
			}
		}
		readings = append(readings, read...)
	}
	found, err := observe.Profiles(readings)
	if len(found) == 0 {
		return page.BadInput(err)
	}
	var profiles []profile.SoloProfile
	for i := range found {
		found[i].GPU = o.gpu
		profiles = append(profiles, found[i].SoloProfile)
		for _, left := range slices.Concat(found[i].Left, found[i].Fit.Unknown) {
			fmt.Fprintf(stderr, "predict: %s: not told: %s\n", found[i].Server.Model, left)
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "predict: left out: %v\n", err)
	}
	if o.save != "" {
		return page.WriteJSON(o.save, profiles)
	}
	return page.JSON(stdout, profiles)
}
