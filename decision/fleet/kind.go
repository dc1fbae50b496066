// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// Kind is the class of a workload: distributed-training, training, online-inference, offline-inference, batch,
// notebook, ci or hpc. It must not be empty.
type Kind string

var kinds = []Kind{"distributed-training", "training", "online-inference", "offline-inference", "batch", "notebook",
	"ci", "hpc"}

// UnmarshalText reads the text of a kind.
func (k *Kind) UnmarshalText(text []byte) error {
	return enum.ParseText(k, sharing.ErrUnknownName, "kind", kinds, text)
}

// Priorities is the number of priorities, 0 to 9.
const Priorities = 10

// Serves reports whether workloads of the kind serve requests, so that latency objectives apply.
func (k Kind) Serves() bool { return k == "online-inference" || k == "offline-inference" }

// Evidence is the source of a workload's figures: measured (SM activity or step timing on the GPU), estimated, vendor
// (a vendor's or paper's figure), synthetic (generated example data), nvml-utilization, or equal-concurrency (of a
// comparison at equal load per model, not per GPU). Empty: not stated.
type Evidence string

var evidences = []Evidence{"measured", "estimated", "vendor", "synthetic", "nvml-utilization", "equal-concurrency"}

// UnmarshalText reads one of these texts.
func (e *Evidence) UnmarshalText(text []byte) error {
	return enum.ParseText(e, sharing.ErrUnknownName, "evidence", evidences, text)
}

// Assumption is an assumption of an answer about a figure missing from the input.
type Assumption struct {
	What string `json:"what"`
	Why  string `json:"why"`
	// Basis is the kind of evidence behind it; zero if it was not computed.
	Basis sharing.Basis `json:"basis,omitzero"`
	// Own means that it concerns the isolated workload and excludes no neighbours; its interval has transfer errors.
	Own bool `json:"-"`
}

// Precision is the number format of a model's weights: fp32, fp16, bf16, fp8, int8, fp4 or int4. Empty: not known.
type Precision string

const (
	precisionFP32 Precision = "fp32"
	precisionFP16 Precision = "fp16"
	precisionBF16 Precision = "bf16"
	precisionFP8  Precision = "fp8"
	precisionINT8 Precision = "int8"
	precisionFP4  Precision = "fp4"
	precisionINT4 Precision = "int4"
)

var (
	precisions = []Precision{precisionFP32, precisionFP16, precisionBF16, precisionFP8, precisionINT8, precisionFP4,
		precisionINT4}
	halfBytes = map[Precision]int64{precisionFP32: 8, precisionFP16: 4, precisionBF16: 4, precisionFP8: 2,
		precisionINT8: 2, precisionFP4: 1, precisionINT4: 1}
)

// UnmarshalText reads the text of a precision.
func (p *Precision) UnmarshalText(text []byte) error {
	return enum.ParseText(p, sharing.ErrUnknownName, "precision", precisions, text)
}
