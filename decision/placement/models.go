package placement

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Calibrated holds the measurements of GPUs of one model.
type Calibrated struct {
	Model     string // as nodes name it: Node.Model
	Predictor predict.Predictor
	Profiles  *profile.Profiles // of workloads alone; read by NewModels only
}

// Models predicts what tenants of one GPU see beside each other, with decision's closed forms, for time-slicing and
// MPS. Everything else is not known: other mechanisms, GPU models that were not calibrated, groups with a workload
// that was not measured alone. Answers are kept (about 300 bytes a tenant of a group, at most 8,192 groups), so
// that asking again does not allocate. It is safe for concurrent use.
type Models struct {
	workloads map[string]uint16 // its number
	names     []string
	gpus      map[string]*calibrated

	mu   sync.RWMutex
	kept map[groupKey]groupAnswer
}

type calibrated struct {
	number    uint8
	predictor predict.Predictor
	solos     []profile.Solo // by workload number
	why       []error        // instead of a solo
}

const (
	maxTenantsPredicted = 48 // what MPS admits on one GPU
	maxGroupsKept       = 8192
)

// groupKey is a group whatever the order of its tenants: their numbers plus one, ascending.
type groupKey struct {
	gpu       uint8
	mechanism uint8
	tenants   [maxTenantsPredicted]uint16
}

// groupAnswer is by the order of the key; why says that there is none.
type groupAnswer struct {
	predictions []predict.Prediction
	why         error
}

// NewModels returns the predictions for workloads by the names that requests use. A workload without a profile on a
// GPU model is no error: it is unknown there, and Why says so. The error is an ErrInvalid that names every problem.
func NewModels(workloads map[string]profile.ProfileRef, gpus ...Calibrated) (*Models, error) {
	var l problem.List
	m := &Models{workloads: map[string]uint16{}, names: slices.Sorted(maps.Keys(workloads)),
		gpus: map[string]*calibrated{}, kept: map[groupKey]groupAnswer{}}
	if len(workloads) > 1<<16-2 {
		l.Addf("workloads", "", "%d are over the limit of %d", len(workloads), 1<<16-2)
	}
	for i, name := range m.names {
		m.workloads[name] = uint16(i + 1)
		if name == "" {
			l.Addf("workloads", "requests without a workload are never predicted", "a workload has no name")
		}
	}
	for i, g := range gpus {
		path := fmt.Sprintf("gpus[%d]", i)
		switch {
		case g.Model == "":
			l.Addf(path+".Model", "name it as Node.Model does", "empty")
		case m.gpus[g.Model] != nil:
			l.Addf(path+".Model", "", "%q is calibrated twice", g.Model)
		case i > 255:
			l.Addf("gpus", "", "more than 256 GPU models")
		case g.Profiles == nil:
			l.Addf(path+".Profiles", "measure the workloads alone", "there are none")
		default:
			c := &calibrated{number: uint8(i), predictor: g.Predictor, solos: make([]profile.Solo, len(m.names)),
				why: make([]error, len(m.names))}
			for k, name := range m.names {
				if c.solos[k], c.why[k] = g.Profiles.Solo(workloads[name].Server, workloads[name].Load); c.why[k] != nil {
					c.why[k] = fmt.Errorf("%s: %w", name, c.why[k])
				}
			}
			m.gpus[g.Model] = c
		}
	}
	if err := l.Err(); err != nil {
		return nil, invalid(err)
	}
	return m, nil
}

// Predict implements Forecaster.
func (m *Models) Predict(out []*predict.Prediction, gpu string, mechanism sharing.Mechanism,
	group []string) []*predict.Prediction {
	key, ok := m.key(gpu, mechanism, group)
	var a groupAnswer
	if ok {
		a = m.answer(gpu, mechanism, &key, len(group))
	}
	for _, name := range group {
		if a.predictions == nil {
			out = append(out, nil)
			continue
		}
		at, _ := slices.BinarySearch(key.tenants[:len(group)], m.workloads[name])
		out = append(out, &a.predictions[at])
	}
	return out
}

// Why returns the reason why nothing is predicted for a group; nil where something is. The error names every tenant
// without a profile; predict.ErrNoProfile, ErrOtherGPU and ErrUnpredictable are in its tree.
func (m *Models) Why(gpu string, mechanism sharing.Mechanism, group []string) error {
	c := m.gpus[gpu]
	if c == nil {
		return fmt.Errorf("placement: nothing was measured on a GPU of model %q", gpu)
	}
	var errs []error
	for _, name := range group {
		if k, ok := m.workloads[name]; !ok {
			errs = append(errs, fmt.Errorf("placement: %w: %q is no workload that was named", profile.ErrNoProfile, name))
		} else if c.why[k-1] != nil {
			errs = append(errs, fmt.Errorf("placement: %w", c.why[k-1]))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	key, ok := m.key(gpu, mechanism, group)
	if !ok {
		return fmt.Errorf("placement: groups of 1 to %d tenants are predicted, not of %d", maxTenantsPredicted, len(group))
	}
	return m.answer(gpu, mechanism, &key, len(group)).why
}

// key sorts a group; false when one of it can't be predicted.
func (m *Models) key(gpu string, mechanism sharing.Mechanism, group []string) (groupKey, bool) {
	c := m.gpus[gpu]
	if c == nil || len(group) == 0 || len(group) > maxTenantsPredicted {
		return groupKey{}, false
	}
	key := groupKey{gpu: c.number, mechanism: uint8(mechanism)}
	for i, name := range group {
		k, ok := m.workloads[name]
		if !ok || c.why[k-1] != nil {
			return groupKey{}, false
		}
		at := i
		for ; at > 0 && key.tenants[at-1] > k; at-- {
			key.tenants[at] = key.tenants[at-1]
		}
		key.tenants[at] = k
	}
	return key, true
}

// answer predicts for a group, or remembers.
func (m *Models) answer(gpu string, mechanism sharing.Mechanism, key *groupKey, n int) groupAnswer {
	m.mu.RLock()
	a, ok := m.kept[*key]
	m.mu.RUnlock()
	if ok {
		return a
	}
	c := m.gpus[gpu]
	solos := make([]profile.Solo, n)
	for i, k := range key.tenants[:n] {
		solos[i] = c.solos[k-1]
	}
	if a.predictions, a.why = c.predictor.Predict(mechanism, solos, predict.MethodClosedForm); a.why != nil {
		a.predictions = nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.kept) >= maxGroupsKept {
		clear(m.kept)
	}
	m.kept[*key] = a
	return a
}
