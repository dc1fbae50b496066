// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"math"

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

// Precedence is the workload's priority, stated or by its kind.
func (w *Workload) Precedence() int {
	byKind := 4
	switch w.Kind {
	case KindOnlineInference:
		byKind = 6
	case KindNotebook:
		byKind = 2
	}
	return w.Priority.Or(byKind)
}

// Serves reports whether workloads of the kind serve requests, so that objectives can limit latencies.
func (k Kind) Serves() bool { return k == KindOnlineInference || k == KindOfflineInference }

// Evidence is the source of a workload's figures.
type Evidence uint8

// The kinds of evidence for a workload's figures.
const (
	EvidenceUnstated         Evidence = iota
	EvidenceMeasured                  // SM activity or step timing on the GPU
	EvidenceEstimated                 // somebody's estimate
	EvidenceVendor                    // a vendor's or paper's figure
	EvidenceSynthetic                 // generated example data
	EvidenceNVML                      // NVML or nvidia-smi utilisation
	EvidenceEqualConcurrency          // a comparison at equal load per model, not per GPU
)

var evidenceNames = enum.Of[Evidence](ErrUnknownName, "evidence", "", "measured", "estimated", "vendor", "synthetic",
	"nvml-utilization", "equal-concurrency")

// Precision is the number format of a model's weights.
type Precision uint8

// The precisions.
const (
	PrecisionUnknown Precision = iota
	PrecisionFP32
	PrecisionFP16
	PrecisionBF16
	PrecisionFP8
	PrecisionINT8
	PrecisionFP4
	PrecisionINT4
)

var (
	precisionNames = enum.Of[Precision](ErrUnknownName, "precision", "", "fp32", "fp16", "bf16", "fp8", "int8", "fp4",
		"int4")
	halfBytes = [math.MaxUint8 + 1]int64{0, 8, 4, 4, 2, 2, 1, 1} // 0 = not known
)
