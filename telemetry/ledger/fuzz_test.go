package ledger

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// FuzzPageStoreRestart has a tenant's server say any pages, one after another, stores what was counted and starts anew
// again and again: no start fails, no count goes back or ceases to be a number, and nothing that was stored is lost. In
// the end one record is replaced by anything: what cannot be read is set aside alone.
func FuzzPageStoreRestart(f *testing.F) {
	const page = "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{model_name=\"m\"} "
	f.Add(page+"1\n\x00"+page+"900\n\x00"+page+"1.7e308\n\x00"+page+"950\n", uint8(2), "NaN")
	f.Add(page+"7\n\x00<html>\x00"+page+"8\n# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total 3\n", uint8(1), "")
	f.Add("# TYPE vllm:time_to_first_token_seconds histogram\nvllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 5\n"+
		"vllm:time_to_first_token_seconds_count 5\nvllm:time_to_first_token_seconds_sum 1\n"+page+"5\n\x00"+page+"50\n", uint8(3), `{"ns":-1}`)
	f.Fuzz(func(t *testing.T, pages string, every uint8, garbage string) {
		server := container.Pod{Namespace: "a", Name: "b", Container: "c"}
		stored := map[string][]byte{}
		start := func() *Accountant {
			o := Options{
				Clock:   Clock{Name: "t", Now: func() time.Duration { return 0 }},
				Servers: map[container.Pod]string{server: ""},
			}
			for name, value := range stored {
				o.Records = append(o.Records, Record{Name: name, Value: value})
			}
			return New(o)
		}
		asides := func(a *Accountant) (n int) {
			for name := range a.book.changed {
				if strings.HasPrefix(name, asidePrefix) {
					n++
				}
			}
			return n
		}
		a := start()
		var before Tokens
		steps := strings.SplitN(pages, "\x00", 20)
		for i, text := range steps {
			readings, err := serving.Parse(strings.NewReader(text))
			a.servers.note(server, readings, err)
			pod := container.Pod{Namespace: text[:min(len(text), 9)], Name: "p", Container: garbage}.Clean()
			part := Part{Account: AccountTenant, Pod: pod, Time: 1, High: 2}
			in := posting{GPU: "g", To: time.Duration(2 * i), Parts: []Part{part}}
			if i == 0 {
				in.Parts = nil
			}
			a.book.post(in)
			_, records, v, err := a.Changes()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				if stored[r.Name] = r.Value; r.Value == nil {
					delete(stored, r.Name)
				}
			}
			now := v.Tokens[server]
			for k, n := range now.fields() {
				if v, was := n.Or(0), before.fields()[k].Or(0); !(v >= was) || math.IsInf(v, 0) {
					t.Fatalf("page %d: %v after %v", i, now, before)
				}
			}
			before = now
			if every > 0 && i%int(every) == 0 {
				rows := a.View().Rows
				a = start()
				if asides(a) != 0 || !slices.Equal(a.View().Rows, rows) || a.View().Tokens[server] != now {
					t.Fatalf("after a restart: %v, %v; %d aside", a.View(), rows, asides(a))
				}
			}
		}
		for name, value := range stored {
			stored[name] = []byte(garbage)
			a := start()
			if stored[name] = value; asides(a) > 1 {
				t.Fatalf("%q: %d aside", name, asides(a))
			}
		}
	})
}
