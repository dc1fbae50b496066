// SPDX-License-Identifier: Apache-2.0

package plaintext

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func TestShow(t *testing.T) {
	for in, want := range map[string]string{
		"plain, é 漢 🙂\n\tx":       "plain, é 漢 🙂\n\tx",
		"\x1b[2J\x1b]0;title\x07": `\u001b[2J\u001b]0;title\u0007`,
		"a\rb\x00\x7f\u0085":      `a\u000db\u0000\u007f\u0085`,
		"\u202egnp.exe\u2066":     `\u202egnp.exe\u2066`,
		"cut \xff\x9b31m":         "cut \ufffd31m",
	} {
		if got := Show(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestAmount rounds as the result does, once, and counts in the plural unless there is one.
func TestAmount(t *testing.T) {
	for in, want := range map[string]string{"": "-", "0.00": "0", "2949.20": "2,949.20", "-18980.00": "-18,980",
		"1234567.5": "1,234,567.50", "999.999": "1,000", "0.8125": "0.81", "-123": "-123"} {
		if got := Amount(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := []string{Count(1, "GPU"), Count(0, "node"), Count(0.999, "GPU"), Count(2.546, "GPU")}; strings.Join(got, ", ") !=
		"1 GPU, 0 nodes, 1 GPU, 2.55 GPUs" {
		t.Error(got)
	}
}

// FuzzWriter holds a Writer that gets its text in pieces against Show of the whole.
func FuzzWriter(f *testing.F) {
	f.Add("a\x1b[31m漢\u0085", uint8(1))
	f.Add("\xe6\xbc", uint8(2))
	f.Fuzz(func(t *testing.T, text string, step uint8) {
		text = strings.ToValidUTF8(text, "?")
		var b bytes.Buffer
		w := NewWriter(&b)
		for rest := text; rest != ""; {
			n := min(int(step)+1, len(rest))
			if m, err := io.WriteString(w, rest[:n]); m != n || err != nil {
				t.Fatal(m, err)
			}
			rest = rest[n:]
		}
		if b.String() != Show(text) || strings.ContainsFunc(b.String(), hidden) {
			t.Fatalf("%q: %q, want %q", text, b.String(), Show(text))
		}
		doc, _ := json.Marshal(text)
		var back string
		if err := json.Unmarshal([]byte(Show(string(doc))), &back); err != nil || back != text {
			t.Fatalf("%q came back as %q: %v", text, back, err)
		}
	})
}
