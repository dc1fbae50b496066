package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/prompt"
)

//go:embed testdata/prompts.jsonl
var builtinPrompts []byte

// inputs are what the files say.
type inputs struct {
	prompts []loadgen.Prompt
	trace   *prompt.Trace
	plan    *planFile
}

func (a *app) readInputs(s *settings) (in inputs, err error) {
	if s.planFile != "" {
		in.plan, err = a.readPlan(s.planFile)
		return in, err
	}
	if s.trace.file != "" {
		data, err := os.ReadFile(s.trace.file)
		if err != nil {
			return in, fmt.Errorf("-trace: %w", err)
		}
		if in.trace, err = readTrace(data, s.trace.slice); err != nil {
			return in, fmt.Errorf("-trace %s: %w", s.trace.file, err)
		}
		return in, nil
	}
	if in.prompts, err = a.readPrompts(s.promptsFile); err == nil {
		in.prompts, err = forAPI(in.prompts, s.api, s.promptsFile == "")
	}
	if err != nil {
		return in, fmt.Errorf("-prompts: %w", err)
	}
	return in, nil
}

// forAPI sees to it that the prompts fit the API: messages don't fit completions.
// They are left out of the built-in set and refused in a file.
func forAPI(prompts []loadgen.Prompt, api loadgen.API, builtin bool) ([]loadgen.Prompt, error) {
	if api != loadgen.APICompletions {
		return prompts, nil
	}
	var fit []loadgen.Prompt
	for i, p := range prompts {
		if len(p.Messages) > 0 && !builtin {
			return nil, fmt.Errorf("prompt %d has messages, which -api completions has no place for (give it as \"prompt\")", i+1)
		}
		if len(p.Messages) == 0 {
			fit = append(fit, p)
		}
	}
	return fit, nil
}

func readTrace(data []byte, slice windowFlag) (*prompt.Trace, error) {
	format, err := prompt.DetectTrace(data)
	if err != nil {
		return nil, err
	}
	trace, err := prompt.ReadTrace(format, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	trace = trace.Slice(slice.from, slice.to)
	if len(trace.Requests) == 0 {
		return nil, fmt.Errorf("no request between %v and %v", slice.from, slice.to)
	}
	return trace, nil
}

func (a *app) readPrompts(file string) ([]loadgen.Prompt, error) {
	if file == "" {
		return prompt.Read(bytes.NewReader(builtinPrompts))
	}
	if file == "-" {
		return prompt.Read(a.stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	prompts, err := prompt.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return prompts, nil
}
