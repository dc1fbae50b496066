// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
)

// guess is a kind and the rule that gave it.
type guess struct {
	kind decision.Kind
	rule string
}

func guessKind(m *metadata, containers []container, o owner) guess {
	for _, r := range names().Rules {
		if r.fits(m, containers, o) {
			return guess{r.Kind, r.Name}
		}
	}
	return guess{}
}

func (r *nameRule) fits(m *metadata, containers []container, o owner) bool {
	if len(r.Labels) > 0 {
		return slices.ContainsFunc(r.Labels, func(l string) bool { return m.Labels[l] != "" })
	}
	owned := slices.ContainsFunc(r.Owners, func(kind string) bool { return kind == "" || kind == o.kind })
	if r.And && !owned {
		return false
	}
	if len(r.Owners) > 0 && !r.And {
		return owned
	}
	return slices.ContainsFunc(containers, func(c container) bool {
		if r.Image != nil && r.Image.MatchString(strings.ToLower(c.Image)) ||
			r.Command != nil && r.Command.MatchString(strings.Join(slices.Concat(c.Command, c.Args), " ")) {
			return true
		}
		for _, p := range c.Ports {
			if slices.Contains(r.Ports, p.ContainerPort) || slices.Contains(r.Ports, 0) {
				return true
			}
		}
		return false
	})
}

// serverOf is the model server that an image or command names, or "".
func serverOf(image string, words []string) string {
	text := strings.ToLower(image) + " " + strings.Join(words, " ")
	for _, s := range names().Servers {
		if s.Image.MatchString(text) {
			return s.Name
		}
	}
	return ""
}

// owner identifies the object that made a pod, as far as it is known.
type owner struct{ kind, name string }

// ownerOf returns the object that a pod belongs to by its owner or its labels.
func ownerOf(m *metadata) owner {
	for _, l := range names().Owners {
		if name := m.Labels[l[0]]; name != "" {
			return owner{l[1], name}
		}
	}
	o := m.controller()
	if o.Kind == "ReplicaSet" {
		// The label has the part that the Deployment's name was extended by.
		if base, ok := strings.CutSuffix(o.Name, "-"+m.Labels["pod-template-hash"]); ok &&
			m.Labels["pod-template-hash"] != "" {
			return owner{"Deployment", base}
		}
	}
	if o.Name == "" {
		return owner{"Pod", m.Name}
	}
	return owner{o.Kind, o.Name}
}
