// SPDX-License-Identifier: Apache-2.0

// Package prompt gives a loadgen.Tenant its prompts: from a file of JSON Lines ([Read]), made-up texts of
// given lengths ([NewSynthetic]), or the lengths, shared prefixes and arrivals of a published [Trace].
//
//	trace, err := prompt.ReadTrace(file) // the error names every bad line
//	part := trace.Slice(0, 10*time.Minute)
//	tenant.Prompts, tenant.Load.Schedule = part.Prompts(1), part.Schedule(1)
//
// No tokenizer is needed: a word of a generated prompt is about one token. Errors wrap loadgen.ErrInput. Stable.
package prompt
