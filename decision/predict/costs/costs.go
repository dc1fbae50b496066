// Package costs holds the constants that predictions rest on, each with unit, uncertainty, basis and source: those of
// sharing a GPU ([Calibration]), and those of model servers of which nothing was measured ([NewEngine]) by the shape of
// the model ([Model]) and the peaks of the GPU ([Machine]).
//
// Its values are plain data. Experimental: its API may change.
package costs

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Cost is a time or a factor that an engine is made of, and how far it can be relied on.
type Cost struct {
	Value  float64
	Sigma  float64 // standard deviation of its logarithm; 0 = taken as it is
	Basis  sharing.Basis
	Source sharing.SourceID
}

// Engine describes one replica of a model server: the shape of its model, the costs of its work and its scheduling.
// Times are in milliseconds. [NewEngine] fills the costs with priors, [predict.Predictor.Engine] takes what a profile
// says.
//
// A decode step of n sequences with c tokens of context in all takes Step + n*StepSequence + c/1000*StepContext, and
// StepMatrix where n is more than one, of which HostFraction*Step and up to 0.012 ms for each sequence keep no GPU
// busy. What its sequences take of the GPU is that of the next larger batch of Captured. A prefill of p tokens that are
// not in the prefix cache takes p/1000*PrefillToken, what attention adds in long prompts, and at least Prefill, in
// which the kernels' launches bound it. With chunks, prompts are computed in the same steps in which others decode.
type Engine struct {
	Model Model
	Step  Cost // ms
	// ms more of a step of several sequences: matrices are multiplied, where one has vectors; not under MPS
	StepMatrix     Cost
	StepSequence   Cost           // ms for each sequence in the batch
	StepContext    Cost           // ms for each 1000 tokens of context in the batch
	StepExperts    Cost           // ms to read all routed experts: a step reads those that its sequences use
	HostFraction   Cost           // of Step
	Prefill        Cost           // ms at least
	PrefillToken   Cost           // ms for each 1000 tokens
	PrefillContext Cost           // ms for each 1000 tokens with each 1000 tokens of context before them
	PrefillBusy    Cost           // fraction of a launch-bound prefill in which the GPU works
	Request        Cost           // ms of the host for each request that begins: its tokenizer, its place in the batch
	DecodeSM       Cost           // share of the SMs that decoding holds while it is on the GPU
	PrefillSM      Cost           // likewise of a prefill
	Turns          []CountedTurns // of a step beside others, by ascending batch; elsewhere as its length says
	MPSStep        Cost           // ms that MPS adds to each step

	// batches that steps were captured for as CUDA graphs, ascending: others are padded to the next; none = no batch is
	// padded
	Captured  []int
	Sequences int // in a batch at once; 0 = 256
	// tokens that a step computes at most, prompts in chunks; 0 = a prefill runs alone, one between two steps
	ChunkTokens   int
	PrefillsFirst bool // nobody decodes while prompts wait to be computed, as in SGLang
	// Prefill, the prompts' tokens and the step that others decode in add up, as a fit to a server's metrics has them;
	// else they overlap, and the longest counts
	Adds          bool
	BlockTokens   int           // in a block of the KV cache; 0 = 16
	NoPrefixCache bool          // nothing of a prompt is kept for others
	Overhead      sharing.Bytes // memory besides weights, adapters and KV cache: context, graphs, activations
	OverheadSigma float64       // standard deviation of its logarithm; 0 = it is known
	Adapters      Adapters
	Sleep         Sleep
	// Of costs that were fitted to a server's metrics: the mean batch and prompt, about which a step and a prefill turn
	// when what they grow by is moved, and the errors to expect of the server alone besides its costs'.
	Batch, Prompt float64
	Errors        Residuals
}

// CountedTurns is the number of time slices that a decode step of a batch was counted to take beside a neighbour that
// always spins. Between two counts a step takes no fewer than the one and no more than the other.
// [predict.Predictor.Engine] reads them from profiles; who builds an Engine by hand gives those that
// [predict.Predictor.TurnsBesideSpinner] counted.
type CountedTurns struct {
	Batch, Turns float64
}

const (
	usualSequences = 256
	UsualBlock     = 16 // tokens of a block of vLLM's KV cache
	usualChunk     = 2048
)

// Block returns the tokens of a block of the KV cache.
func (e *Engine) Block() int { return cmp.Or(e.BlockTokens, UsualBlock) }

// MostSequences returns the most sequences in a batch.
func (e *Engine) MostSequences() int { return cmp.Or(e.Sequences, usualSequences) }

// NewEngine is an engine of which nothing was measured: its costs are priors for the model's shape
// on the machine, and it schedules as vLLM does by default on GPUs with less than 70 GiB: 256 sequences, batches
// captured for 1, 2, 4 and multiples of 8, chunks of 2048 tokens, blocks of 16 with prefix cache. [Scheduling] has
// the defaults of other GPUs and engines.
func NewEngine(m Model, on Machine) Engine {
	cost := func(value float64, of ...int) Cost {
		c := Cost{Value: value, Basis: sharing.BasisPrior, Source: Priors[of[0]].Source}
		for _, q := range of {
			c.Sigma = math.Hypot(c.Sigma, Priors[q].sigma())
		}
		return c
	}
	layers := float64(m.Layers)
	// Activations of fewer bits are multiplied as much faster where the GPU has a rate of its own for them.
	flops := on.FLOPs * 2 / max(float64(orBits(m.ActivationBits))/8, on.Narrowest)
	reached := cmp.Or(on.Efficiency, Medians[PrefillEfficiency])
	if orBits(m.ActivationBits) < 16 {
		flops *= narrowRate
	}
	e := Engine{
		Model:          m,
		StepMatrix:     Named("matrix_per_layer").Cost(layers),
		HostFraction:   cost(Medians[HostFraction], HostFraction),
		PrefillToken:   cost(1e6*2*m.ActiveParameters()/(flops*reached), PrefillEfficiency),
		PrefillContext: cost(1e9*4*layers*float64(m.queryWidth())/(on.FLOPs*reached), PrefillEfficiency),
		PrefillBusy:    Named("launch_busy").Cost(1),
		DecodeSM:       cost(Medians[SMDecoding], SMDecoding),
		PrefillSM:      cost(Medians[SMOther], SMOther),
		MPSStep:        cost(layers*Medians[MPSStepPerLayer], MPSStepPerLayer),
		Captured:       captured(usualSequences),
		ChunkTokens:    usualChunk,
		OverheadSigma:  Named("overhead").Sigma,
		Overhead:       sharing.Bytes(Value("overhead") * float64(sharing.GiB)),
		Adapters:       Adapters{}.withPriors(m),
		Sleep:          newSleep(),
	}
	e.served(on)
	return e
}

// narrowRate is the part of the higher rate for narrow activations that is left of it beside what stays in 16 bits.
var narrowRate = Value("narrow_rate")

// HostPerSequence is the host's time in a step for each sequence in it, in ms.
var HostPerSequence = Value("host_per_token")

// captured are the batches that vLLM captures by default up to a size: 1, 2, 4, the multiples of 8, and from 256 on
// those of 16.
func captured(most int) []int {
	out := []int{1, 2, 4}
	for b := 8; b <= most; b += 8 {
		if b <= 256 || b%16 == 0 {
			out = append(out, b)
		}
	}
	return out
}

// Padded is the batch that a step of n sequences runs as.
func Padded(captured []int, n int) int {
	if i, _ := slices.BinarySearch(captured, n); i < len(captured) {
		return captured[i]
	}
	return n
}

// OnSlice returns the factor by which work that fills a share of a GPU's SMs takes longer on a part of them: none
// where it finds room, and in proportion where it does not (the roofline model of Williams, Waterman and Patterson,
// Communications of the ACM 52, 2009, over SMs).
func OnSlice(fills, sms float64) float64 { return max(1, min(1, fills)/sms) }

// PrefillOnSlice returns the factor by which the GPU's part of a long prompt's prefill takes longer on a part of the
// SMs.
func PrefillOnSlice(sms float64) float64 { return OnSlice(slicePrefill, sms) }

var slicePrefill = Value("slice_prefill")

// On is the engine on a part of the GPU, as a MIG slice is: decode slows down with
// the share of the bandwidth, prefills with that of the SMs.
func (e Engine) On(s Share) Engine {
	if s.Bandwidth > 0 && s.Bandwidth < 1 {
		by := math.Log(1 / s.Bandwidth)
		for _, c := range []*Cost{&e.Step, &e.StepContext, &e.StepExperts} {
			c.Value *= math.Exp(Medians[SliceDecoding] * by)
			c.Sigma, c.Basis = math.Hypot(c.Sigma, Priors[SliceDecoding].sigma()*by), sharing.BasisPrior
		}
	}
	if s.SMs > 0 && s.SMs < 1 {
		for _, c := range []*Cost{&e.PrefillToken, &e.PrefillContext} {
			c.Value, c.Basis = c.Value*PrefillOnSlice(s.SMs), sharing.BasisPrior
		}
	}
	return e
}

// Costs ranges over the engine's costs with their names, in order; those that nothing is known of have no basis.
func (e *Engine) Costs() iter.Seq2[string, *Cost] {
	return func(yield func(string, *Cost) bool) {
		for _, c := range []struct {
			name string
			c    *Cost
		}{{"step", &e.Step}, {"step_matrix", &e.StepMatrix}, {"step_sequence", &e.StepSequence},
			{"step_context", &e.StepContext}, {"step_experts", &e.StepExperts}, {"host_fraction", &e.HostFraction},
			{"prefill", &e.Prefill}, {"prefill_token", &e.PrefillToken}, {"prefill_context", &e.PrefillContext},
			{"prefill_busy", &e.PrefillBusy}, {"request", &e.Request},
			{"decode_sm", &e.DecodeSM}, {"prefill_sm", &e.PrefillSM}, {"mps_step", &e.MPSStep},
			{"adapter_step", &e.Adapters.Step}, {"adapter_each", &e.Adapters.Each},
			{"adapter_prefill", &e.Adapters.Prefill}, {"adapter_load", &e.Adapters.Load}, {"adapter_fetch", &e.Adapters.Fetch},
			{"copy_in", &e.Sleep.CopyIn}, {"copy_out", &e.Sleep.CopyOut}, {"reload", &e.Sleep.Reload},
			{"sleep_fixed", &e.Sleep.Fixed}} {
			if !yield(c.name, c.c) {
				return
			}
		}
	}
}

// Check adds everything that is wrong with e to list, with its path.
func (e *Engine) Check(list *problem.List, path string) {
	e.Model.check(list, problem.Join(path, "model"))
	for name, c := range e.Costs() {
		list.If(!(c.Value >= 0 && c.Value <= profile.LongestPart && c.Sigma >= 0 && c.Sigma < 5),
			problem.Join(path, name), "", "must lie between 0 and %g with a sigma below 5, is %v with %v",
			profile.LongestPart, c.Value, c.Sigma)
	}
	list.If(e.Step.Value+e.StepSequence.Value <= 0, problem.Join(path, "step"), "NewEngine gives a prior",
		"a decode step must take time")
	for name, c := range e.Costs() {
		switch name {
		case "host_fraction", "prefill_busy", "decode_sm", "prefill_sm":
			list.If(c.Value > 1, problem.Join(path, name), "", "must lie between 0 and 1, is %v", c.Value)
		}
	}
	for _, n := range []struct {
		name    string
		v, most int
	}{{"sequences", e.Sequences, 1 << 20}, {"chunk_tokens", e.ChunkTokens, 1 << 24},
		{"block_tokens", e.BlockTokens, 1 << 16}} {
		list.If(n.v < 0 || n.v > n.most, problem.Join(path, n.name), "", "must lie between 0 and %d, is %d", n.most,
			n.v)
	}
	list.If(!slices.IsSorted(e.Captured) || len(e.Captured) > 0 && e.Captured[0] < 1, problem.Join(path, "captured"),
		"", "must be batches of 1 and more, ascending, are %v", e.Captured)
	list.If(e.ChunkTokens > 0 && e.ChunkTokens <= e.MostSequences() && !e.PrefillsFirst,
		problem.Join(path, "chunk_tokens"),
		fmt.Sprintf("more than the %d sequences that may decode in a step", e.MostSequences()),
		"%d leave no token for a prompt", e.ChunkTokens)
	list.If(!(e.OverheadSigma >= 0 && e.OverheadSigma < 5) || e.Overhead < 0, problem.Join(path, "overhead"), "",
		"must not be negative, with a sigma below 5, is %v with %v", e.Overhead, e.OverheadSigma)
	e.Adapters.check(list, problem.Join(path, "adapters"))
	e.Sleep.check(list, problem.Join(path, "sleep"))
}
