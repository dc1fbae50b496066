// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
)

func dump(f *Folder) []byte {
	var b bytes.Buffer
	for _, f := range f.Files {
		fmt.Fprintf(&b, "==> %s  (%s)\n%s\n", f.Path, f.Note, f.Data)
	}
	b.WriteString("==> warnings\n")
	for _, w := range f.Warnings {
		fmt.Fprintf(&b, "%s: %s\n", w.Code, w)
	}
	return b.Bytes()
}

// TestBuildGolden builds several times: the same input gives the same bytes.
func TestBuildGolden(t *testing.T) {
	for range 10 {
		s := mixed(t)
		s.result.Traps = []decision.TrapHit{{ID: "mps-limit-per-process", Severity: sharing.SeverityHigh, Message: "limits | hold\nfor each process"}}
		folder, err := s.build()
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "testdata/mixed.txt", dump(folder))
	}
}

func TestBuildLeavesInputAlone(t *testing.T) {
	s, want := mixed(t), mixed(t)
	if _, err := s.build(); err != nil {
		t.Fatal(err)
	}
	unexported := cmpopts.IgnoreUnexported(cost.Money{})
	if diff := cmp.Diff(want.fleet, s.fleet, unexported) + cmp.Diff(want.result.Decisions, s.result.Decisions); diff != "" {
		t.Error(diff)
	}
}

func find(t *testing.T, f *Folder, path string) string {
	t.Helper()
	i := slices.IndexFunc(f.Files, func(f File) bool { return f.Path == path })
	if i < 0 {
		t.Fatalf("no %s", path)
	}
	return string(f.Files[i].Data)
}

func hasCode(ws []sharing.Warning, path string, code sharing.WarningCode) bool {
	return slices.ContainsFunc(ws, func(w sharing.Warning) bool { return w.Code == code && w.Path == path })
}

func TestBuildWarnings(t *testing.T) {
	seen := map[sharing.WarningCode]bool{}
	for _, c := range []struct {
		name   string
		change func(*scenario)
		path   string
		code   sharing.WarningCode
	}{
		{"research", nil, "lab-research", "not-delivered"},
		{"a machine without an orchestrator", func(s *scenario) { s.fleet.Pools[1].Standalone = true; s.deliver(sharing.DeliveryBare) }, "serve-mps", "not-delivered"},
		{"MIG and MPS in one Operator", nil, "mig.strategy", "mig-strategy-env"},
		{"two namespaces on one claim", func(s *scenario) { s.deliver(sharing.DeliveryDRA) }, "serve-mps", "claim-namespaces"},
		{"two processes", nil, "rerank", "limit-per-process"},
		{"graphs", nil, "on", "cuda-graphs"},
		{"graphs perhaps", func(s *scenario) { s.workload("on").Framework = nil }, "on", "cuda-graphs"},
		{"time-slicing has no limit", nil, "notebook", "no-memory-limit"},
		{"fraction unknown", func(s *scenario) { s.workload("notebook").Memory = sharing.Some(sharing.MiB) }, "notebook", "fraction-unknown"},
		{"node size", func(s *scenario) { s.fleet.Pools[0].GPUsPerNode = sharing.Optional[int]{} }, "prod-mig", "node-size-unknown"},
		{"KAI enforces nothing", func(s *scenario) { s.deliver(sharing.DeliveryKAI) }, "notebook", "not-enforced"},
		{"too many claims", func(s *scenario) {
			s.deliver(sharing.DeliveryDRA)
			n := s.node("serve", 0)
			for len(n.Devices) < 1001 {
				n.Devices = append(n.Devices, n.Devices[0])
			}
		}, "serve-mps", "claims-left-out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mixed(t)
			if c.change != nil {
				c.change(s)
			}
			folder, err := s.build()
			if err != nil {
				t.Fatal(err)
			}
			if !hasCode(folder.Warnings, c.path, c.code) {
				t.Errorf("no %s at %s in\n%v", c.code, c.path, folder.Warnings)
			}
			for _, w := range folder.Warnings {
				if _, ok := sharing.SourceByID(w.Source); !ok || w.Message == "" || strings.Contains(w.Message, "%!") {
					t.Errorf("no message, or a source that does not resolve: %+v", w)
				}
				seen[w.Code] = true
			}
		})
	}
	for id := range warnings() {
		if code, _, _ := strings.Cut(id, "/"); !seen[sharing.WarningCode(code)] {
			t.Errorf("no case has %s", id)
		}
	}
}

// What a framework's fraction must come to.
func TestFractions(t *testing.T) {
	gpu := layout.GPUOf("H100 80GB HBM3")
	for _, c := range []struct {
		name string
		m    sharing.Mechanism
		mem  sharing.Bytes
		fw   fleet.Framework
		want []string
	}{
		{"Dynamo's example: 56 of 80 GiB under MPS", sharing.MechanismMPS, 56 * sharing.GiB, fleet.Framework{Name: "vllm"}, []string{"--gpu-memory-utilization", "0.65"}},
		{"TGI under MPS", sharing.MechanismMPS, 20 * sharing.GiB, fleet.Framework{Name: "tgi"}, []string{"--cuda-memory-fraction", "0.23"}},
		{"SGLang measures what is free", sharing.MechanismMPS, 20 * sharing.GiB, fleet.Framework{Name: "sglang"}, []string{"--mem-fraction-static", "0.85"}},
		{"the limit is divided by the processes", sharing.MechanismMPS, 40 * sharing.GiB, fleet.Framework{Name: "vllm", Processes: 2}, []string{"--gpu-memory-utilization", "0.23"}},
		{"HAMi rewrites the total", sharing.MechanismHAMi, 20 * sharing.GiB, fleet.Framework{Name: "vllm"}, []string{"--gpu-memory-utilization", "0.85"}},
		{"time-slicing", sharing.MechanismTimeSlicing, 20 * sharing.GiB, fleet.Framework{Name: "vllm"}, []string{"--gpu-memory-utilization", "0.23"}},
		{"a share drops a given fraction", sharing.MechanismHAMi, 20 * sharing.GiB, fleet.Framework{Name: "vllm", MemoryFraction: sharing.Some(0.9)}, []string{"--gpu-memory-utilization", "0.85"}},
		{"a GPU of its own keeps it", sharing.MechanismExclusive, 0, fleet.Framework{Name: "vllm", MemoryFraction: sharing.Some(0.97)}, []string{"--gpu-memory-utilization", "0.97"}},
		{"exclusive is unchanged", sharing.MechanismExclusive, 0, fleet.Framework{Name: "vllm"}, nil},
		{"an unknown framework has no option", sharing.MechanismMPS, 20 * sharing.GiB, fleet.Framework{Name: "triton"}, nil},
	} {
		need := c.mem
		if usesMPS(c.m) {
			need -= filter.ContextMemory
		}
		m := newMember(&decision.Decision{Mechanism: c.m}, &decision.Workload{Memory: sharing.Some(need), Framework: &c.fw}, nil, gpu, "w")
		if diff := cmp.Diff(c.want, new(builder).fractionArgs(m)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	s := mixed(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.build(); err != nil {
			b.Fatal(err)
		}
	}
}

// Every path is written once, whatever the names.
func TestPathsAreUnique(t *testing.T) {
	s := mixed(t)
	for from, to := range map[int]string{6: "scheduler", 7: "values", 2: "configmap", 3: "serve-mps/claims"} {
		s.rename(s.fleet.Workloads[from].Name, to)
	}
	folder, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(folder.Files); i++ {
		if folder.Files[i].Path <= folder.Files[i-1].Path {
			t.Errorf("%s after %s", folder.Files[i].Path, folder.Files[i-1].Path)
		}
	}
}
