package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
)

var everyDelivery = []sharing.Delivery{sharing.DeliveryGPUOperator, sharing.DeliveryDRA, sharing.DeliveryHAMi, sharing.DeliveryVGPUManager, sharing.DeliveryVolcano, sharing.DeliveryKAI}

func dump(files []File, ws []sharing.Warning) []byte {
	var b bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&b, "==> %s  (%s)\n%s\n", f.Path, f.Note, f.Data)
	}
	b.WriteString("==> warnings\n")
	for _, w := range ws {
		fmt.Fprintf(&b, "%s: %s\n", w.Code, w)
	}
	return b.Bytes()
}

func TestBuildGolden(t *testing.T) {
	files, ws, err := Build(mixedFleet(), Options{Deliveries: everyDelivery, KAIQueue: "team-a",
		PlanNotes: []string{"Saves 4 GPUs."}, Traps: []PlanTrap{{"M3", "high", "limits | hold\nfor each process"}}})
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/mixed.txt", dump(files, ws))
}

func TestBuildIsDeterministic(t *testing.T) {
	var first []byte
	for range 20 {
		files, ws, err := Build(mixedFleet(), Options{Deliveries: everyDelivery})
		if err != nil {
			t.Fatal(err)
		}
		if got := dump(files, ws); first == nil {
			first = got
		} else if !bytes.Equal(first, got) {
			t.Fatal(cmp.Diff(string(first), string(got)))
		}
	}
}

func TestBuildLeavesInputAlone(t *testing.T) {
	f, opt := mixedFleet(), Options{Plan: &Plan{Title: "mine"}, PlanNotes: []string{"n"}, Deliveries: slices.Clone(everyDelivery)}
	if _, _, err := Build(f, opt); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(mixedFleet(), f); diff != "" {
		t.Error(diff)
	}
	if len(opt.Plan.Notes) != 0 || !slices.Equal(opt.Deliveries, everyDelivery) {
		t.Errorf("options changed: %+v", opt)
	}
}

func find(t *testing.T, files []File, path string) string {
	t.Helper()
	i := slices.IndexFunc(files, func(f File) bool { return f.Path == path })
	if i < 0 {
		t.Fatalf("no %s", path)
	}
	return string(files[i].Data)
}

func hasCode(ws []sharing.Warning, path string, code sharing.WarningCode) bool {
	return slices.ContainsFunc(ws, func(w sharing.Warning) bool { return w.Code == code && w.Path == path })
}

func TestBuildWarnings(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Fleet)
		opt    Options
		path   string
		code   sharing.WarningCode
	}{
		{"research", nil, Options{}, "lab-research", WarnNotDelivered},
		{"HAMi by DRA only", nil, Options{Deliveries: []sharing.Delivery{sharing.DeliveryDRA}}, "edge-hami", WarnNotDelivered},
		{"MIG and MPS in one Operator", nil, Options{}, "mig.strategy", WarnMIGStrategyEnv},
		{"two namespaces on one claim", nil, Options{}, "serve-mps", WarnClaimNamespaces},
		{"two processes", nil, Options{}, "rerank", WarnPerProcess},
		{"more than an equal share", func(f *Fleet) { f.Workloads[3].Memory = 40 * sharing.GiB }, Options{}, "embed", WarnEqualShares},
		{"graphs", nil, Options{}, "on", WarnCUDAGraphs},
		{"no limit", func(f *Fleet) { f.Workloads[7].Memory = 0 }, Options{}, "on", WarnNoMemoryLimit},
		{"time-slicing has no limit", nil, Options{}, "notebook", WarnNoMemoryLimit},
		{"fraction too large", func(f *Fleet) { f.Workloads[3].Framework.MemoryFraction = 0.9 }, Options{}, "embed", WarnFractionTooLarge},
		{"fraction unknown", func(f *Fleet) { f.Groups[4].GPU = ""; f.Workloads[6].Memory = 0 }, Options{}, "notebook", WarnFractionUnknown},
		{"part of a node", func(f *Fleet) { f.Groups[2].GPUs = 3 }, Options{}, "serve-mps", WarnPartialNode},
		{"node size", func(f *Fleet) { f.Groups[0].GPUsPerNode = 0 }, Options{}, "prod-mig", WarnNodeSizeUnknown},
		{"no room", func(f *Fleet) { f.Workloads[3].Replicas = 9 }, Options{}, "rerank", WarnUnplacedTenants},
		{"compute", func(f *Fleet) { f.Workloads[6].ComputePercent = 20 }, Options{}, "notebook", WarnComputeNotLimited},
		{"KAI enforces nothing", nil, Options{Deliveries: everyDelivery}, "notebook", WarnNotEnforced},
		{"too many claims", func(f *Fleet) { f.Groups[2].GPUs = 1_000_000; f.Workloads[3].Replicas = 1_000_000 }, Options{}, "serve-mps", WarnClaimsLeftOut},
		{"V100 cap", func(f *Fleet) { f.Groups[2].GPU, f.Groups[2].Replicas = "Tesla V100-SXM2-32GB", 20 }, Options{}, "serve-mps: sharing.mps.resources[0].replicas", "replica-cap"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := mixedFleet()
			if c.change != nil {
				c.change(&f)
			}
			_, ws, err := Build(f, c.opt)
			if err != nil {
				t.Fatal(err)
			}
			if !hasCode(ws, c.path, c.code) {
				t.Errorf("no %s at %s in\n%v", c.code, c.path, ws)
			}
			for _, w := range ws {
				if w.Message == "" || w.Source == "" {
					t.Errorf("no message or source: %+v", w)
				}
			}
		})
	}
}

// A table of the facts: what a framework's fraction must come to.
func TestFractions(t *testing.T) {
	total := Group{Pool: "p", GPUMemory: 80 * sharing.GiB, GPUs: 1, Replicas: 2}
	for _, c := range []struct {
		name string
		m    sharing.Mechanism
		mem  sharing.Bytes
		fw   Framework
		want []string
	}{
		{"Dynamo's example: 56 of 80 GiB under MPS", sharing.MechanismMPS, 56 * sharing.GiB, Framework{Name: "vllm"}, []string{"--gpu-memory-utilization", "0.65"}},
		{"TGI under MPS", sharing.MechanismMPS, 20 * sharing.GiB, Framework{Name: "tgi"}, []string{"--cuda-memory-fraction", "0.23"}},
		{"SGLang measures what is free", sharing.MechanismMPS, 20 * sharing.GiB, Framework{Name: "sglang"}, []string{"--mem-fraction-static", "0.85"}},
		{"the limit is divided by the processes", sharing.MechanismMPS, 40 * sharing.GiB, Framework{Name: "vllm", Processes: 2}, []string{"--gpu-memory-utilization", "0.23"}},
		{"an equal share when no limit is given", sharing.MechanismMPS, 0, Framework{Name: "vllm"}, []string{"--gpu-memory-utilization", "0.46"}},
		{"HAMi rewrites the total", sharing.MechanismHAMi, 20 * sharing.GiB, Framework{Name: "vllm"}, []string{"--gpu-memory-utilization", "0.85"}},
		{"time-slicing", sharing.MechanismTimeSlicing, 20 * sharing.GiB, Framework{Name: "vllm"}, []string{"--gpu-memory-utilization", "0.23"}},
		{"a given fraction stays", sharing.MechanismHAMi, 20 * sharing.GiB, Framework{Name: "vllm", MemoryFraction: 0.9}, []string{"--gpu-memory-utilization", "0.9"}},
		{"exclusive is left alone", sharing.MechanismExclusive, 0, Framework{Name: "vllm"}, nil},
		{"an unknown framework has no option", sharing.MechanismMPS, 20 * sharing.GiB, Framework{Name: "triton"}, nil},
	} {
		g := total
		g.Mechanism = c.m
		got, _ := g.fractionArgs(&Workload{Name: "w", Mechanism: c.m, Memory: c.mem, Framework: c.fw})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	f := mixedFleet()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Build(f, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// Every source that a warning or a privilege names stands in package sharing.
func TestSourcesResolve(t *testing.T) {
	f := mixedFleet()
	f.Groups[2].Replicas = 20
	f.Groups[2].GPU = "Tesla V100-SXM2-32GB"
	f.Workloads[7].Memory = 0
	f.Groups[0].GPUsPerNode = 0
	f.Groups[8].VGPUScheduler = VGPUScheduler{}
	_, ws, err := Build(f, Options{Deliveries: everyDelivery})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range ws {
		if _, ok := sharing.SourceByID(w.Source); !ok {
			t.Errorf("%s: source %q does not resolve", w.Code, w.Source)
		}
	}
	for _, m := range sharing.Mechanisms() {
		for _, p := range Privileges(m) {
			if _, ok := sharing.SourceByID(p.Source); !ok {
				t.Errorf("%v: source %q does not resolve", m, p.Source)
			}
			if p.Who == "" || p.What == "" || p.Why == "" {
				t.Errorf("%v: incomplete: %+v", m, p)
			}
		}
	}
}

func TestMIGTakesAnyFraction(t *testing.T) {
	f := mixedFleet()
	f.Workloads[0].Framework.MemoryFraction = 0.97
	files, ws, err := Build(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if doc := find(t, files, "pods/ml.chat.yaml"); !strings.Contains(doc, `"0.97"`) {
		t.Errorf("got\n%s", doc)
	}
	if hasCode(ws, "chat", WarnFractionTooLarge) {
		t.Errorf("warned: %v", ws)
	}
}

func TestOptionsRefused(t *testing.T) {
	files, _, err := Build(mixedFleet(), Options{OperatorNamespace: "Nope", Deliveries: []sharing.Delivery{sharing.DeliveryBare, 99}})
	if files != nil || !errors.Is(err, ErrInvalid) {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{`operator_namespace: "Nope"`, "deliveries[0]: bare has no documents", "deliveries[1]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}

// Every path is written once, whatever the names.
func TestPathsAreUnique(t *testing.T) {
	f := mixedFleet()
	f.Workloads[6].Name, f.Workloads[7].Name, f.Workloads[2].Name = "scheduler", "values", "configmap"
	f.Workloads[3].Namespace, f.Workloads[3].Name = "serve-mps", "claims"
	files, _, err := Build(f, Options{Deliveries: everyDelivery})
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(files); i++ {
		if files[i].Path <= files[i-1].Path {
			t.Errorf("%s after %s", files[i].Path, files[i-1].Path)
		}
	}
}
