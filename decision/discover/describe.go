// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// WriteText writes the fleet file after comments that people read first: how GPUs are shared today and with which
// isolation, and the findings. Unknown values are marked in the fleet file.
func (d *Discovery) WriteText(w io.Writer) error {
	var out bytes.Buffer
	line := func(format string, args ...any) {
		for text := range strings.SplitSeq(plaintext.Wrap(fmt.Sprintf(format, args...), decision.DefaultWidth-2, 2), "\n") {
			fmt.Fprintln(&out, "# "+text)
		}
	}
	gpus := 0
	for i := range d.Fleet.Pools {
		gpus += d.Fleet.Pools[i].Count
	}
	line("%s in %s, %s", plaintext.Count(gpus, "GPU"), plaintext.Count(len(d.Fleet.Pools), "pool"),
		plaintext.Count(len(d.Fleet.Workloads), "workload"))
	for i := range d.Today {
		line("%s", d.sharing(&d.Today[i]))
	}
	for _, f := range d.Findings {
		line("%s %s: %s: %s [%s]", f.Severity, f.Code, f.Object, f.Message, f.Source)
	}
	if err := d.WriteFleet(&out); err != nil {
		return err
	}
	_, err := out.WriteTo(w)
	return err
}

// sharing describes how GPUs of a pool are shared.
func (d *Discovery) sharing(s *Sharing) string {
	text := fmt.Sprintf("%s %v: %s, %s", s.Pool, s.Mechanism, plaintext.Count(s.GPUs, "GPU"),
		plaintext.Count(s.Tenants, "tenant"))
	for k := range d.Fleet.Pools {
		v := &d.Fleet.Pools[k]
		if v.Name != s.Pool || s.Mechanism == sharing.MechanismExclusive {
			continue
		}
		if len(s.Inside) > 0 {
			text += "; between instances"
		}
		text += "; isolation: " + isolation(v, s.Mechanism)
		for _, in := range s.Inside {
			text += fmt.Sprintf("; each %s is shared by %s among %d pods, isolation between them: %s", in.Profile,
				plain(in.Mechanism), in.Pods, isolation(v, in.Mechanism))
		}
	}
	return text
}

// isolation writes a mechanism's isolation on a pool's GPUs, by axis.
func isolation(v *decision.Pool, m sharing.Mechanism) string {
	c, err := score.CompilePool(v)
	if err != nil {
		return "not known"
	}
	var parts []string
	for a := range sharing.AxisCount {
		i := c.Target().Isolation(m, sharing.Axis(a))
		parts = append(parts, fmt.Sprintf("%v %v", i.Axis, i.Level))
	}
	return strings.Join(parts, ", ")
}
