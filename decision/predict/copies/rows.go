// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Row is a published comparison of copies with a single one; only the figures of the single copy are read.
type Row struct {
	ID        string         `json:"id"`
	GPU       string         `json:"gpu"`
	Class     string         `json:"model_class"`
	Engine    string         `json:"engine"`
	Mechanism string         `json:"mechanism"`
	Copies    int            `json:"copies"`
	Solo      map[string]any `json:"solo"`
	Load      struct {
		Kind     string `json:"kind"`
		Matching string `json:"matching"`
		Clients  int    `json:"clients_per_copy"`
		Total    int    `json:"clients_total"`
		Alone    int    `json:"clients_solo"`
	} `json:"load"`
	Busy     *float64 `json:"busy_alone_fraction"`
	BusyKind string   `json:"busy_alone_kind"`
}

// Answer is the prediction of a row, or the reason why there is none.
type Answer struct {
	ID     string            `json:"id"`
	Ratio  *profile.Interval `json:"ratio,omitempty"`
	Pays   *float64          `json:"pays,omitempty"`
	Reason string            `json:"reason,omitempty"`
}

// ReadRows reads {"rows": [...]} in the columns of testdata/copies-published.json. Every row needs a unique id.
func ReadRows(r io.Reader) ([]Row, error) {
	var f struct {
		Rows []Row `json:"rows"`
	}
	if err := json.NewDecoder(r).Decode(&f); err != nil {
		return nil, fmt.Errorf("copies: rows: %w", err)
	}
	var l problem.List
	seen := map[string]bool{}
	l.If(len(f.Rows) == 0, "rows", `give {"rows": [{"id": ..., "mechanism": ..., "copies": 2, "solo": {...}}]}`,
		"there are none")
	for i, row := range f.Rows {
		path := fmt.Sprintf("rows[%d].id", i)
		l.If(row.ID == "", path, "give each row a name of its own", "is missing")
		l.If(row.ID != "" && seen[row.ID], path, "give each row a name of its own", "%s is there twice", problem.Clip(row.ID))
		seen[row.ID] = true
	}
	return f.Rows, l.Err()
}

// Answer predicts the row.
func (r *Row) Answer() Answer {
	s, q, err := r.read()
	if err == nil {
		var e Estimate
		if e, err = Predict(s, q); err == nil {
			return Answer{ID: r.ID, Ratio: &e.Ratio, Pays: &e.Pays}
		}
	}
	return Answer{ID: r.ID, Reason: err.Error()}
}

// decoders are engines that serve a batch of sequences in each step.
var decoders = []string{"vllm", "sglang", "trt-llm", "tensorrt-llm", "llama.cpp", "lmdeploy",
	"text-generation-inference"}

// read makes a server and a setting of a row's columns.
func (r *Row) read() (s Server, q Setting, err error) {
	name, slice, _ := strings.Cut(r.Mechanism, ":")
	if name == "instances-in-process" {
		name = sharing.MechanismInServer.String()
	}
	if q.Mechanism, err = sharing.ParseMechanism(name); err != nil {
		return s, q, err
	}
	engine := strings.ToLower(r.Engine)
	whole := []string{"embedding", "reranker", "encoder", "vision"} // answered in one pass
	language := strings.Contains(r.Class, "llm") || strings.HasSuffix(r.Class, "-lm")
	batches := slices.ContainsFunc(decoders, func(d string) bool { return strings.Contains(engine, d) })
	s.Decodes = !slices.Contains(whole, r.Class) && (batches || language && !strings.Contains(engine, "transformers"))
	s.OwnProcesses = strings.Contains(engine, "python backend")
	s.PythonThreads = !s.OwnProcesses && slices.ContainsFunc([]string{"transformers", "pytorch", "python"},
		func(e string) bool { return strings.Contains(engine, e) })
	q.Copies = r.Copies
	s.Clients = r.Load.Clients
	switch {
	case r.Load.Matching == "same-total":
		q.Load, s.Clients = LoadDivided, r.Load.Total
	case r.Load.Kind == "open":
		q.Load = LoadOpen
	}
	s.Clients = max(s.Clients, r.Load.Alone)
	r.figures(&s)
	if slice != "" {
		compute, _, _ := strings.Cut(slice, "g")
		n, err := strconv.Atoi(compute)
		if err != nil {
			return s, q, fmt.Errorf("%w: MIG profile %s", sharing.ErrUnknownName, problem.Clip(slice))
		}
		q.SlicePart = float64(n) / 7
	}
	return s, q, nil
}

// figures reads the figures of the single copy.
func (r *Row) figures(s *Server) {
	percent := func(prefix string) (out sharing.Optional[float64]) {
		for key, v := range r.Solo {
			if f, is := v.(float64); is && strings.HasPrefix(key, prefix) && strings.Contains(key, "percent") {
				out = sharing.Some(f / 100)
			}
		}
		return out
	}
	s.SMActive, s.Busy = percent("sm_active"), percent("gpu_util")
	if derived := percent("gpu_busy"); !derived.IsZero() {
		s.Busy = derived
	}
	if r.Busy != nil {
		if r.BusyKind == "sm_active" {
			s.SMActive = sharing.Some(*r.Busy)
		} else {
			s.Busy = sharing.Some(*r.Busy)
		}
	}
	s.Bandwidth = percent("memory_bandwidth")
	s.Rate, _ = r.Solo["throughput"].(float64)
	if ms, is := r.Solo["engine_alone_ms"].(float64); is && ms*s.Rate <= 1000 {
		s.GPUTime = time.Duration(ms * 1e6)
	}
	for _, key := range []string{"itl_p50_ms", "latency_mean_ms", "latency_p50_ms", "latency_p95_ms"} {
		if ms, is := r.Solo[key].(float64); is {
			s.Latency = time.Duration(ms * 1e6)
			break
		}
	}
	if ms, is := r.Solo["latency_in_one_slice_mean_ms"].(float64); is {
		s.SliceLatency = time.Duration(ms * 1e6)
	}
}
