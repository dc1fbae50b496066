// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"iter"

	"github.com/cotenant/cotenant/sharing"
)

// Names for the tests in package telemetry_test.
const (
	EventGap       = eventGap
	EventReadError = eventReadError
	EventDropped   = eventDropped
	StateUnknown   = stateUnknown
	StateStalled   = stateStalled
)

var (
	ErrNoDevices    = errNoDevices
	ErrNotBegun     = errNotBegun
	ErrNotSimulated = errNotSimulated
)

func (r *IdleReport) Verdict() string                          { return r.verdict() }
func (r *IdleReport) Joules(s State) sharing.Optional[float64] { return r.joules(s) }
func (s *Series) Replay(sink Sink) error                       { return s.replay(sink) }
func (s *Series) All() iter.Seq[*Sample]                       { return s.all() }
func (s *Series) Len() int                                     { return len(s.samples) }
func (s State) Idle() bool                                     { return s.idle() }
