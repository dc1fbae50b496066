// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

// ErrBusy is returned for a change that would destroy instances in use.
var ErrBusy = errors.New("mig: in use")

const (
	opCreate   = "create"
	opDestroy  = "destroy"
	opComplete = "complete"
	opEmpty    = "empty" // undoes completing
)

// Step is one change of a plan.
type Step struct {
	// Op is "create" or "destroy", of a GPU instance with its compute instances, or "complete", of one that has none.
	Op       string   `json:"op"`
	Instance Instance `json:"instance"`
}

// String writes the step: "create 3g.40gb@4".
func (s Step) String() string { return s.Op + " " + s.Instance.String() }

// ChangePlan leads from one layout of a GPU to another. It is plain data: planning touches no device.
type ChangePlan struct {
	Model   *Model     `json:"-"`
	Have    Layout     `json:"have"` // before
	Want    Layout     `json:"want"` // after
	Keep    []Instance `json:"keep,omitempty"`
	Destroy []Instance `json:"destroy,omitempty"`
	Create  []Instance `json:"create,omitempty"`
	// Complete lists GPU instances without compute instances, in their final form: they get compute instances and are not
	// created again.
	Complete []Instance `json:"complete,omitempty"`
	// Steps are the changes in the order in which they are possible: every layout between two steps is valid.
	Steps []Step `json:"steps,omitempty"`
	// Mode is true to leave MIG on. Where it is missing, MIG is switched on if instances are created.
	Mode sharing.Optional[bool] `json:"mig_enabled,omitzero"`
	// BusyDestroyed counts the instances in use that the plan destroys.
	BusyDestroyed int `json:"busy_destroyed"`
	// Empties is true if the GPU holds no instance at some point between two steps, which makes the driver leave and
	// re-enter partitioning: that fails while any client has the GPU open. A plan avoids it if possible.
	Empties bool `json:"empties"`
}

// WriteText prints the layouts before and after as bars, and the steps.
func (p ChangePlan) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "before %s\nafter  %s\n", p.Have.bar(), p.Want.bar())
	if len(p.Steps) == 0 {
		b.WriteString("nothing to do\n")
	}
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, s)
	}
	if mode, ok := p.Mode.Get(); ok {
		fmt.Fprintf(&b, "MIG mode is to be %s: no client may hold the GPU while it changes.\n", modeText(mode))
	}
	if p.Empties {
		b.WriteString("The GPU is empty on the way: no client may hold it then.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// busyError lists the instances in use that are in the way of a change. It is an ErrBusy.
type busyError struct {
	Busy []Instance // the fewest that would have to go
	Plan ChangePlan // the change that destroys them, which AllowBusy would give
}

func (e *busyError) Error() string {
	return fmt.Sprintf("mig: in use: the change can't be made on %s without destroying %s; wait until it is idle, or "+
		"allow it", e.Plan.Model, Layout{Instances: e.Busy})
}

func (e *busyError) Is(target error) bool { return target == ErrBusy }

func modeText(enabled bool) string {
	if enabled {
		return "enabled"
	}
	return "disabled"
}
