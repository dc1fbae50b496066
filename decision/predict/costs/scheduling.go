package costs

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Scheduling says which serving engine makes up the steps, and what it was told. The zero value is the newest vLLM
// with its defaults.
type Scheduling struct {
	Engine      string // vllm or sglang, an older one with its version: vllm@0.8; "" = vllm
	ChunkTokens int    // of a step: vLLM's max_num_batched_tokens, SGLang's chunked_prefill_size; 0 = the default
	Sequences   int    // at once: vLLM's max_num_seqs, SGLang's max_running_requests; 0 = the default
}

// scheduler is a serving engine's defaults for GPUs with less than so much memory, from a version on.
type scheduler struct {
	engine                     string
	since                      int // 1000 x major + minor
	below                      sharing.Bytes
	chunk, sequences, captured int
	source                     sharing.SourceID
}

const (
	vllmSource   = sharing.SourceID("vllm-batch-defaults")
	vllm12369    = sharing.SourceID("vllm-batch-defaults-h100")
	vllm10544    = sharing.SourceID("vllm-chunk-default")
	sglangSource = sharing.SourceID("sglang-server-args")

	anyMemory = sharing.Bytes(1) << 60
)

// schedulers are the defaults of OpenAI-compatible servers, an engine's newest first and by memory. From 0.9 on vLLM
// treats an A100 as a small GPU (its pull request 17885), before that all but H100 and H200; before 0.8 it computes
// prompts by themselves, as many at once as the longest that it takes, for which 8192 tokens stand. SGLang has at least
// 2048 places (max_running_requests) where its KV cache has room.
var schedulers = []scheduler{
	{"vllm", 9, 70 * sharing.GiB, 2048, 256, 512, vllmSource},
	{"vllm", 9, anyMemory, 8192, 1024, 512, vllmSource},
	{"vllm", 8, 70 * sharing.GiB, 2048, 256, 512, vllm12369},
	{"vllm", 8, anyMemory, 8192, 1024, 512, vllm12369},
	{"vllm", 0, anyMemory, 8192, 256, 256, vllm10544},
	{"sglang", 0, 35 * sharing.GiB, 2048, 2048, 32, sglangSource},
	{"sglang", 0, 60 * sharing.GiB, 4096, 2048, 32, sglangSource},
	{"sglang", 0, 160 * sharing.GiB, 8192, 2048, 256, sglangSource},
	{"sglang", 0, anyMemory, 16384, 2048, 512, sglangSource},
}

// Validate names everything that is wrong with s in one error, or returns nil.
func (s Scheduling) Validate() error {
	var l problem.List
	if _, _, err := s.version(); err != nil {
		l.AddErr("engine", err)
	}
	l.If(s.ChunkTokens < 0 || s.ChunkTokens > 1<<24, "batched_tokens", "", "must lie between 0 and %d, are %d", 1<<24,
		s.ChunkTokens)
	l.If(s.Sequences < 0 || s.Sequences > 1<<20, "sequences", "", "must lie between 0 and %d, are %d", 1<<20, s.Sequences)
	return l.Err()
}

func (s Scheduling) version() (engine string, version int, err error) {
	engine, text, older := strings.Cut(cmp.Or(s.Engine, "vllm"), "@")
	if engine != "vllm" && engine != "sglang" {
		return "", 0, fmt.Errorf("%q is not known: use vllm or sglang, an older one with its version, like vllm@0.8",
			problem.Clip(s.Engine))
	}
	if !older {
		return engine, 1 << 20, nil
	}
	parts := strings.SplitN(strings.TrimPrefix(text, "v"), ".", 3)
	for i := range 2 {
		n := 0
		if i < len(parts) {
			n, err = strconv.Atoi(parts[i])
		}
		if err != nil || n < 0 || n > 999 {
			return "", 0, fmt.Errorf("%q is no version: write it like vllm@0.8", problem.Clip(text))
		}
		version = 1000*version + n
	}
	return engine, version, nil
}

// Schedule makes an engine's steps those of s on a GPU, or on a slice of it with so much memory. It says in words
// what that is, with its source.
func (s Scheduling) Schedule(e *Engine, gpu *sharing.GPU, memory sharing.Bytes) (words string, err error) {
	engine, version, err := s.version()
	if err != nil {
		return "", err
	}
	if engine == "vllm" && (version >= 9 && strings.Contains(gpu.Name, "A100") ||
		version < 9 && !strings.Contains(gpu.Name, "H100") && !strings.Contains(gpu.Name, "H200")) {
		memory = min(memory, 40*sharing.GiB) // taken for a small one
	}
	for _, d := range schedulers {
		if d.engine != engine || version < d.since || memory >= d.below {
			continue
		}
		e.ChunkTokens, e.Sequences = cmp.Or(s.ChunkTokens, d.chunk), cmp.Or(s.Sequences, d.sequences)
		if e.PrefillsFirst = engine == "sglang" || version < 8; !e.Adds { // padded batches are in what was fitted
			e.Captured = captured(min(d.captured, 2*e.Sequences))
		}
		e.scheduled(engine, version)
		e.Overhead += sharing.Bytes(max(0, e.ChunkTokens-usualChunk) * e.Model.activations())
		words = fmt.Sprintf("%s: %d tokens a step, %d sequences", cmp.Or(s.Engine, engine), e.ChunkTokens, e.Sequences)
		if e.PrefillsFirst {
			words += ", prompts by themselves"
		}
		if s.ChunkTokens == 0 || s.Sequences == 0 {
			words += fmt.Sprintf(" (its defaults there, %s)", d.source)
		}
		return words, nil
	}
	return "", fmt.Errorf("no defaults of %s are known", s.Engine)
}
