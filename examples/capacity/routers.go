package main

import (
	"strings"

	"github.com/cotenant/cotenant/decision/manifest"
)

// writeRouters writes what puts requests before the chosen arrangement's replicas: a
// pool for each server, by the label app.
func (r *report) writeRouters(dir string) error {
	if dir == "" || r.Chosen == nil {
		return nil
	}
	var policy manifest.RouterPolicy // of one replica each, any does
	if r.Chosen.Router != "none" {
		if err := policy.UnmarshalText([]byte(r.Chosen.Router)); err != nil {
			return err
		}
	}
	var pools []manifest.RouterPool
	for _, s := range r.Chosen.Servers {
		name := strings.ToLower(s.Name)
		pools = append(pools, manifest.RouterPool{Name: name, Model: s.Name, Labels: map[string]string{"app": name}, Policy: policy})
	}
	folder, err := manifest.BuildRouter(pools)
	if err != nil {
		return err
	}
	for _, w := range folder.Warnings {
		r.Notes = append(r.Notes, w.Message)
	}
	return folder.Write(dir)
}
