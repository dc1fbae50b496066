package study

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNamedModels: a trace's models are those of the profiles with their names, in
// whatever order they come.
func TestNamedModels(t *testing.T) {
	for _, c := range []struct {
		names      [3]string
		first, say string
	}{
		{[3]string{"llama-8b", "llama-1b", "llama-8b"}, "llama-8b", ""},
		{[3]string{"ChatGPT", "LLAMA-1B", "ChatGPT"}, "llama-8b", `it plays "ChatGPT" as llama-8b`},
		{[3]string{"ChatGPT", "GPT-4", "ChatGPT"}, "llama-1b", `it plays "ChatGPT" as llama-1b, "GPT-4" as llama-8b`},
		{[3]string{"llama-8b", "llama-8b", "llama-8b"}, "llama-8b", ""},
	} {
		path := filepath.Join(t.TempDir(), "burst.csv")
		text := "Timestamp,Model,Request tokens,Response tokens\n"
		for i, name := range c.names {
			text += fmt.Sprintf("%d,%s,%d,18\n", 5+i, name, 100+i)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		in, err := Read(Options{Trace: path})
		if err != nil {
			t.Fatal(err)
		}
		if got := in.Plan.Tenants[in.requests[0].Tenant].Name; got != c.first {
			t.Errorf("%v: the first request goes to %s", c.names, got)
		}
		notes := strings.Join(in.Notes, "\n")
		if strings.Contains(notes, "it plays") != (c.say != "") || !strings.Contains(notes, c.say) {
			t.Errorf("%v: %s", c.names, notes)
		}
	}
}
