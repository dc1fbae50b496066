// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Problem is a contradiction in a layout, or a state that cannot be delivered.
type Problem struct {
	Node   string // its name
	Path   string // "nodes[2].devices[0].mode"
	Text   string
	Remedy string // may be empty
	// Source is the source of the violated rule; empty for arithmetic.
	Source sharing.SourceID
}

// String writes the problem on a line.
func (p Problem) String() string {
	text := p.Path + ": " + p.Text
	if p.Node != "" {
		text = p.Path + " (" + p.Node + "): " + p.Text
	}
	if p.Remedy != "" {
		text += " (" + p.Remedy + ")"
	}
	if p.Source != "" {
		text += fmt.Sprintf(" [%s]", p.Source)
	}
	return text
}

var errInvalid = errors.New("layout: invalid")

// Err returns an error that names every problem with its path; nil without problems.
func Err(problems []Problem) error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = errors.New(p.String())
	}
	return problem.Under(errInvalid, errors.Join(errs...))
}

type problems []Problem

func (l *problems) add(n *Node, path, remedy string, source sharing.SourceID, format string, args ...any) {
	*l = append(*l, Problem{Node: n.Name, Path: path, Remedy: remedy, Source: source, Text: fmt.Sprintf(format, args...)})
}
