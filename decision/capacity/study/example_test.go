package study_test

import (
	"context"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/capacity/study"
)

// question asks for the fewest GPUs of one kind that keep the objectives of one model.
var question = study.Options{
	Trace: "rate=4,in=1500,out=200,n=150", Models: []string{"chat=params:8e9,bf16"},
	SLO: "ttft_p99=2s,tpot_p99=80ms", GPUs: []string{"L40S=0.90"}, Loads: []float64{1},
}

// How many of which GPUs does a load need, at what price, and what will its users see?
func ExampleStudy_Search() {
	s, err := study.Read(question)
	if err != nil {
		log.Fatal(err)
	}
	r, err := s.Search(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range r.ByVerdict() {
		tpot := a.Predicted["tpot_p99"]
		fmt.Printf("%d %s, %s: %v an hour, TPOT P99 %.0f ms (%.0f to %.0f): %v\n", a.GPUs, a.GPU, a.Kind, a.CostPerHour, tpot.Value, tpot.Low, tpot.High, a.Verdict)
	}
	fmt.Println("chosen:", r.Chosen.Kind, "because", r.Chosen.Reason)
	fmt.Println("breaks first:", r.Chosen.FirstLimit)
	// Output:
	// 2 L40S, own-gpu: 1.80 USD an hour, TPOT P99 41 ms (28 to 63): kept
	// 2 L40S, mps: 1.80 USD an hour, TPOT P99 52 ms (37 to 77): kept
	// 2 L40S, time-slicing: 1.80 USD an hour, TPOT P99 79 ms (58 to 114): unknown
	// 5 L40S, time-slicing: 4.50 USD an hour, TPOT P99 58 ms (42 to 77): kept
	// chosen: own-gpu because chat's tpot_p99 is 41 ms, at most 80ms; the GPUs are busy 100% of the time; with one of L40S: chat's tpot_p99 is 103 ms, at most 80ms
	// breaks first: at 2x: chat's tpot_p99 is 81 ms, at most 80ms; the GPUs are busy 99% of the time
}

// The chosen arrangement's routers are configured by the files that are written.
func ExampleReport_WriteRouters() {
	s, err := study.Read(question)
	if err != nil {
		log.Fatal(err)
	}
	r, err := s.Search(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "routers")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := r.WriteRouters(filepath.Join(dir, "chat")); err != nil {
		log.Fatal(err)
	}
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			fmt.Println(path)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// chat/inference-extension/chat.yaml
	// chat/llm-d/chat.values.yaml
}

// One error names everything that is wrong with a question.
func ExampleRead() {
	_, err := study.Read(study.Options{
		Trace: "rate=4,in=500", Models: []string{"chat=params:many"}, SLO: "ttft=2s", GPUs: []string{"L40S", "H100-SXM9=2.90"},
	})
	fmt.Println(err)
	// Output:
	// objectives: "ttft": use _p50, _p90, _p95 or _p99
	// gpu: "L40S": write the name and its price an hour, like L40S=0.90
	// gpu: H100-SXM9: sharing: unknown GPU "H100-SXM9"; did you mean "H100 80GB HBM3", "A100-SXM4-40GB" or "H200"?
	// model: chat: params:many: write the number of parameters, like params:7e9
	// trace: a stream needs its lengths, and to end within three years: rate=4,in=500,out=120,n=2000
}

// A question can be changed before it is searched, and says what was assumed of what it does not say.
func ExampleStudy() {
	s, err := study.Read(question)
	if err != nil {
		log.Fatal(err)
	}
	price, err := cost.ParsePrice("2.90 USD")
	if err != nil {
		log.Fatal(err)
	}
	s.Plan.GPUs = append(s.Plan.GPUs, capacity.GPU{Name: "H100-SXM5-80GB", PricePerHour: price})
	for _, g := range s.Plan.GPUs {
		fmt.Println(g.Name, g.PricePerHour)
	}
	for _, note := range s.Notes {
		fmt.Println("note:", note)
	}
	// Output:
	// L40S 0.90 USD
	// H100-SXM5-80GB 2.90 USD
	// note: chat: layers and KV heads are those of dense models of 8B; its config.json says its own
}
