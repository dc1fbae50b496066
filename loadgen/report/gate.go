// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
)

// ErrGate is returned for a run that misses an objective or lacks its figure.
var ErrGate = errors.New("loadgen: the run misses its objectives")

// Condition is a bound on a figure of a run beyond which it fails. The zero value names no figure.
type Condition struct {
	text, figure, op string
	bound            float64
}

// ParseCondition reads a condition: the name of a figure in a summary ("failed" and "goodput" mean their shares,
// "ttft.p99" for "ttft_ms.p99"), one of > >= < <=, and a number with %, ms or s where it fits, e.g. "failed>1%",
// "ttft.p99>500ms", "goodput<99%", "output_tokens_per_s<1000".
func ParseCondition(text string) (Condition, error) {
	bad := func(format string, args ...any) (Condition, error) {
		return Condition{}, &problem.Problem{Path: fmt.Sprintf("condition %q", problem.Clip(text)),
			Message: fmt.Sprintf(format, args...), Remedy: "write e.g. failed>1% or ttft.p99>500ms"}
	}
	i := strings.IndexAny(text, "<>")
	if i < 0 {
		return bad("has none of > >= < <=")
	}
	c := Condition{text: text, op: text[i : i+1]}
	value := text[i+1:]
	if rest, ok := strings.CutPrefix(value, "="); ok {
		c.op, value = c.op+"=", rest
	}
	name := strings.TrimSpace(text[:i])
	if c.figure = figureNamed(name); c.figure == "" {
		return bad("has no known figure (%s)",
			didYouMean(strings.Replace(strings.Replace(name, "_ms", "", 1), ".", "_ms.", 1), figureNames()))
	}
	scale := 1.0
	value = strings.TrimSpace(value)
	share, ms := strings.HasSuffix(c.figure, ".share") || strings.HasSuffix(c.figure, ".fraction"),
		strings.Contains(c.figure, "_ms.")
	for _, u := range []struct {
		suffix string
		fits   bool
		scale  float64
	}{{"%", share, 100}, {"ms", ms, 1}, {"s", ms, 0.001}} {
		if rest, ok := strings.CutSuffix(value, u.suffix); ok {
			if !u.fits {
				return bad("%s is not in %s", c.figure, u.suffix)
			}
			value, scale = strings.TrimSpace(rest), u.scale
			break
		}
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return bad("%q is not a number", problem.Clip(value))
	}
	c.bound = v / scale
	return c, nil
}

func (c Condition) holds(v float64) bool {
	switch c.op {
	case ">":
		return v > c.bound
	case ">=":
		return v >= c.bound
	case "<":
		return v < c.bound
	}
	return v <= c.bound
}

// Gate returns nil when the run is valid and complete and none of the conditions holds. A figure that is missing, or
// based on too few requests, is unknown and fails. "goodput" is checked for each tenant with objectives; all other
// figures are those of the totals. The error wraps ErrGate and names every reason.
func Gate(s *loadgen.Summary, failIf ...Condition) error {
	var l problem.List
	for _, fault := range faults(s) {
		l.Addf(s.RunID, "repeat it", "%s", fault)
	}
	for _, c := range failIf {
		type part struct {
			name string
			m    *loadgen.Measures
		}
		parts := []part{{s.RunID, &s.Measures}}
		if c.figure == "goodput.fraction" {
			parts = nil
			for i := range s.Tenants {
				if s.Tenants[i].Goodput != nil {
					parts = append(parts, part{problem.Join(s.RunID, s.Tenants[i].Name), &s.Tenants[i].Measures})
				}
			}
			l.If(len(parts) == 0, s.RunID, "give a tenant an SLO", "%s: no tenant has objectives", c.text)
		}
		for _, p := range parts {
			v, doubt, ok := figureOf(p.m, c.figure)
			switch {
			case !ok:
				l.Addf(p.name, "", "%s: unknown, it was not measured", c.text)
			case c.holds(v):
				l.Addf(p.name, "", "%s: %s is %.4g", c.text, c.figure, v)
			case doubt != "":
				l.Addf(p.name, "make more requests", "%s: unknown, %s", c.text, doubt)
			}
		}
	}
	return l.Under(ErrGate)
}
