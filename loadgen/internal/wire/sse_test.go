// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type sseEvent struct{ Name, Data string }

// parseSplit feeds the stream in pieces of random length and collects the events.
func parseSplit(stream []byte, limit int, rng *rand.Rand) ([]sseEvent, error) {
	var p Parser
	p.Reset(limit)
	var out []sseEvent
	for len(stream) > 0 {
		n := len(stream)
		if rng != nil {
			n = 1 + rng.IntN(min(n, 12))
		}
		// A buffer of its own that is spoiled afterwards, as the client's is.
		buf := append([]byte{}, stream[:n]...)
		stream = stream[n:]
		p.Feed(buf)
		for {
			name, data, ok := p.Next()
			if !ok {
				break
			}
			out = append(out, sseEvent{string(name), string(data)})
		}
		for i := range buf {
			buf[i] = '#'
		}
		if p.err != nil {
			return out, p.err
		}
	}
	return out, nil
}

// sseReference is the standard's algorithm, written for clarity.
func sseReference(stream string) []sseEvent {
	stream = strings.TrimPrefix(stream, "\ufeff")
	stream = strings.ReplaceAll(stream, "\r\n", "\n")
	stream = strings.ReplaceAll(stream, "\r", "\n")
	lines := strings.Split(stream, "\n")
	var out []sseEvent
	var data []string
	name := ""
	for _, line := range lines[:len(lines)-1] { // a line without an end is incomplete
		if line == "" {
			if data != nil {
				out = append(out, sseEvent{name, strings.Join(data, "\n")})
			}
			data, name = nil, ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data = append(data, value)
		case "event":
			name = value
		}
	}
	return out
}

var sseSeeds = []string{
	"data: a\n\ndata: b\n\n", "data:a\r\n\r\ndata: b\r\n\r\n", "data: a\r\rdata: b\r\r", "\ufeffdata: x\n\n",
	": ping\n\ndata: a\ndata: b\ndata:  c\n\n", "event: error\ndata: boom\n\n", "event: x\n\ndata: y\n\n", "data\n\n",
	"data:\n\n", "id: 1\nretry: 5\nfoo\ndata: z\n\n", "data: cut", "data: cut\n", "data: a\r\n\rdata: b\n\n", "\n\n\r\r\n",
	"data: {\"a\":1}\nevent: late\n\ndata: [DONE]\n\n", "data: a\n: c\ndata: b\n\n",
}

func TestSSE(t *testing.T) {
	for _, s := range sseSeeds {
		for seed := range uint64(20) {
			got, err := parseSplit([]byte(s), 1<<20, rand.New(rand.NewPCG(seed, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sseReference(s), got); diff != "" {
				t.Errorf("%q, split %d: -want +got:\n%s", s, seed, diff)
			}
		}
	}
}

func TestSSELimit(t *testing.T) {
	for _, s := range []string{"data: " + strings.Repeat("x", 100), strings.Repeat("data: xxxx\n", 20), "data: " + strings.Repeat("x", 100) + "\n\n"} {
		if _, err := parseSplit([]byte(s), 64, nil); !errors.Is(err, ErrTooLong) {
			t.Errorf("%q: %v", s, err)
		}
	}
	if got, err := parseSplit([]byte("data: "+strings.Repeat("x", 100)+"\n\n"), 1000, nil); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

func FuzzSSE(f *testing.F) {
	for i, s := range sseSeeds {
		f.Add([]byte(s), uint64(i))
	}
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		got, err := parseSplit(stream, 1<<20, rand.New(rand.NewPCG(seed, 2)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sseReference(string(stream)), got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func BenchmarkSSE(b *testing.B) {
	line := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" hello"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	var p Parser
	p.Reset(8 << 20)
	b.ReportAllocs()
	for b.Loop() {
		p.Feed(line)
		for {
			if _, _, ok := p.Next(); !ok {
				break
			}
		}
	}
}
