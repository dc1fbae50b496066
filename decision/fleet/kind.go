// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/optional"
)

// Optional holds a value that may be missing, as the zero one's is: if v, ok := o.Get(); ok { use(v) } or use(o.Or(0)).
// IsZero reports a missing value, Equal compares two; String writes "-" for it, JSON null, or omitzero nothing.
type Optional[T any] = optional.Value[T]

// Some returns an Optional that holds v.
func Some[T any](v T) Optional[T] { return optional.Of(v) }

// ErrUnknownName is wrapped by the errors about texts that name no value of an enumeration.
var ErrUnknownName = errors.New("decision: unknown name")

// Kind is the class of a workload. The zero value, KindUnknown, is refused.
type Kind uint8

// The kinds.
const (
	KindUnknown Kind = iota
	KindDistributedTraining
	KindTraining
	KindOnlineInference
	KindOfflineInference
	KindBatch
	KindNotebook
	KindCI
	KindHPC
	KindCount
)

var kindNames = enum.Of[Kind](ErrUnknownName, "kind", "", "distributed-training", "training", "online-inference",
	"offline-inference", "batch", "notebook", "ci", "hpc")

// Priorities is the number of different priorities.
const Priorities = 10

// Serves reports whether workloads of the kind serve requests, so that objectives can limit latencies.
func (k Kind) Serves() bool { return k == KindOnlineInference || k == KindOfflineInference }

// Evidence is the source of a workload's figures: measured (SM activity or step timing on the GPU), estimated, vendor
// (a vendor's or paper's figure), synthetic (generated example data), nvml-utilization, or equal-concurrency (of a
// comparison at equal load per model, not per GPU). Empty: not stated.
type Evidence string

// The kinds of evidence that package discover finds.
const (
	EvidenceMeasured Evidence = "measured"
	EvidenceNVML     Evidence = "nvml-utilization"
)

var evidences = []Evidence{EvidenceMeasured, "estimated", "vendor", "synthetic", EvidenceNVML, "equal-concurrency"}

// UnmarshalText reads the text of a kind of evidence.
func (e *Evidence) UnmarshalText(text []byte) error {
	return enum.ParseText(e, ErrUnknownName, "evidence", evidences, text)
}

// Precision is the number format of a model's weights. Empty: not known.
type Precision string

// The precisions.
const (
	PrecisionFP32 Precision = "fp32"
	PrecisionFP16 Precision = "fp16"
	PrecisionBF16 Precision = "bf16"
	PrecisionFP8  Precision = "fp8"
	PrecisionINT8 Precision = "int8"
	PrecisionFP4  Precision = "fp4"
	PrecisionINT4 Precision = "int4"
)

var (
	precisions = []Precision{PrecisionFP32, PrecisionFP16, PrecisionBF16, PrecisionFP8, PrecisionINT8, PrecisionFP4,
		PrecisionINT4}
	halfBytes = map[Precision]int64{PrecisionFP32: 8, PrecisionFP16: 4, PrecisionBF16: 4, PrecisionFP8: 2,
		PrecisionINT8: 2, PrecisionFP4: 1, PrecisionINT4: 1}
)

// UnmarshalText reads the text of a precision.
func (p *Precision) UnmarshalText(text []byte) error {
	return enum.ParseText(p, ErrUnknownName, "precision", precisions, text)
}
