// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Calibrated holds the measurements on one GPU model.
type Calibrated struct {
	Model     string // as in layout.GPU.Name
	Predictor predict.Predictor
	Profiles  *profile.Profiles // of isolated workloads; read by NewModels only
}

// models is the Forecaster of NewModels.
type models struct {
	workloads map[string]uint16 // its number
	gpus      map[string]*calibrated

	mu   sync.RWMutex
	kept map[groupKey][]predict.Prediction // by the order of the key; nil where there is none
}

type calibrated struct {
	number    uint8
	predictor predict.Predictor
	solos     []*profile.Solo // by workload number; nil where there is none
}

const (
	maxTenantsPredicted = 48 // clients of MPS on one GPU
	maxGroupsKept       = 8192
)

// groupKey is a group whatever the order of its tenants: their numbers plus one, ascending.
type groupKey struct {
	gpu       uint8
	mechanism uint8
	method    predict.Method
	tenants   [maxTenantsPredicted]uint16
}

// NewModels returns the predictions for workloads by the names that requests use: the latencies of tenants co-located
// on one GPU under time-slicing and MPS, by closed forms, or a simulation where these leave an objective open. Other
// mechanisms, GPU models that were not calibrated, and groups with a workload that was not measured on such a GPU in
// isolation are not known. The error is an ErrInvalid that names every problem.
//
// A simulation takes 4 to 45 ms, once for each different group. A scheduler with a deadline can wrap them in a
// [Forecaster] that does not simulate: objectives that closed forms leave open are then unknown.
//
// Up to 8,192 predictions are cached, of about 300 bytes per tenant of a group. It is safe for concurrent use.
func NewModels(workloads map[string]profile.ProfileRef, gpus ...Calibrated) (Forecaster, error) {
	var l problem.List
	m := &models{workloads: map[string]uint16{}, gpus: map[string]*calibrated{},
		kept: map[groupKey][]predict.Prediction{}}
	l.If(len(workloads) > 1<<16-2, "workloads", "", "%d are over the limit of %d", len(workloads), 1<<16-2)
	names := slices.Sorted(maps.Keys(workloads))
	for i, name := range names {
		m.workloads[name] = uint16(i + 1)
		l.If(name == "", "workloads", "requests without a workload are never predicted", "a workload has no name")
	}
	for i, g := range gpus {
		path := fmt.Sprintf("gpus[%d]", i)
		switch {
		case g.Model == "":
			l.Addf(path+".Model", "name it as layout.GPU.Name does", "empty")
		case m.gpus[g.Model] != nil:
			l.Addf(path+".Model", "", "%q is calibrated twice", g.Model)
		case i > 255:
			l.Addf("gpus", "", "more than 256 GPU models")
		case g.Profiles == nil:
			l.Addf(path+".Profiles", "measure the workloads in isolation", "there are none")
		default:
			c := &calibrated{uint8(i), g.Predictor, make([]*profile.Solo, len(names))}
			for k, name := range names {
				if solo, err := g.Profiles.Solo(workloads[name].Server, workloads[name].Load); err == nil {
					c.solos[k] = &solo
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

func (m *models) Predict(out []*predict.Prediction, gpu string, mechanism sharing.Mechanism, group []string,
	method predict.Method) []*predict.Prediction {
	key, ok := m.key(gpu, mechanism, group)
	key.method = method
	var a []predict.Prediction
	if ok {
		a = m.answer(gpu, mechanism, &key, len(group))
	}
	for _, name := range group {
		if a == nil {
			out = append(out, nil)
			continue
		}
		at, _ := slices.BinarySearch(key.tenants[:len(group)], m.workloads[name])
		out = append(out, &a[at])
	}
	return out
}

// key sorts a group; false when one of it can't be predicted.
func (m *models) key(gpu string, mechanism sharing.Mechanism, group []string) (groupKey, bool) {
	c := m.gpus[gpu]
	if c == nil || len(group) == 0 || len(group) > maxTenantsPredicted {
		return groupKey{}, false
	}
	key := groupKey{gpu: c.number, mechanism: uint8(mechanism)}
	for i, name := range group {
		k, ok := m.workloads[name]
		if !ok || c.solos[k-1] == nil {
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

// answer predicts for a group, or remembers; nil where it cannot.
func (m *models) answer(gpu string, mechanism sharing.Mechanism, key *groupKey, n int) []predict.Prediction {
	m.mu.RLock()
	a, ok := m.kept[*key]
	m.mu.RUnlock()
	if ok {
		return a
	}
	c := m.gpus[gpu]
	solos := make([]profile.Solo, n)
	for i, k := range key.tenants[:n] {
		solos[i] = *c.solos[k-1]
	}
	a, err := c.predictor.Predict(mechanism, solos, key.method)
	if err != nil {
		a = nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.kept) >= maxGroupsKept {
		clear(m.kept)
	}
	m.kept[*key] = a
	return a
}
