package mig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
)

// hookNames are the points at which mig-parted runs hooks.
var hookNames = []string{"apply-start", "pre-apply-mode", "pre-apply-config", "apply-exit"}

// PartedHooks is a hooks file of mig-parted, version v1: the commands that it
// runs at apply-start, pre-apply-mode, pre-apply-config and apply-exit.
type PartedHooks struct {
	Hooks map[string][]PartedHook
}

// PartedHook is one command.
type PartedHook struct {
	Command string
	Args    []string
	Envs    map[string]string
	Workdir string
}

type rawHooks struct {
	Version string               `yaml:"version,required"`
	Hooks   map[string][]rawHook `yaml:"hooks,required"`
}

type rawHook struct {
	Command string            `yaml:"command,required"`
	Args    []string          `yaml:"args"`
	Envs    map[string]string `yaml:"envs"`
	Workdir string            `yaml:"workdir"`
}

// ParsePartedHooks reads a hooks file, YAML or JSON, strictly. The error names
// every problem.
func ParsePartedHooks(data []byte) (*PartedHooks, error) {
	var raw rawHooks
	if err := strictyaml.Decode(data, &raw, strictyaml.Options{}); err != nil {
		return nil, invalid(err)
	}
	var list problem.List
	if raw.Version != "v1" {
		list.Addf("version", "write v1", "is %q", clip(raw.Version))
	}
	h := &PartedHooks{Hooks: map[string][]PartedHook{}}
	for _, name := range slices.Sorted(maps.Keys(raw.Hooks)) {
		if !slices.Contains(hookNames, name) {
			list.Addf("hooks."+name, "known: "+strings.Join(hookNames, ", "), "is no hook")
		}
		h.Hooks[name] = []PartedHook{}
		for i, r := range raw.Hooks[name] {
			if r.Command == "" {
				list.Addf(fmt.Sprintf("hooks.%s[%d].command", name, i), "name a program", "is empty")
			}
			h.Hooks[name] = append(h.Hooks[name], PartedHook(r))
		}
	}
	if err := list.Err(); err != nil {
		return nil, invalid(err)
	}
	return h, nil
}

// Marshal writes the hooks as mig-parted reads them, in the order in which they
// run. It fails when they are not valid.
func (h PartedHooks) Marshal() ([]byte, error) {
	var b strings.Builder
	b.WriteString("version: v1\nhooks:")
	if len(h.Hooks) == 0 {
		b.WriteString(" {}")
	}
	b.WriteByte('\n')
	names := slices.Sorted(maps.Keys(h.Hooks))
	slices.SortStableFunc(names, func(a, b string) int { return slices.Index(hookNames, a) - slices.Index(hookNames, b) })
	for _, name := range names {
		fmt.Fprintf(&b, "  %s:", yamlKey(name))
		if len(h.Hooks[name]) == 0 {
			b.WriteString(" []")
		}
		b.WriteByte('\n')
		for _, k := range h.Hooks[name] {
			fmt.Fprintf(&b, "    - command: %s\n", yamlString(k.Command))
			if len(k.Args) > 0 {
				args := make([]string, len(k.Args))
				for i, a := range k.Args {
					args[i] = yamlString(a)
				}
				fmt.Fprintf(&b, "      args: [%s]\n", strings.Join(args, ", "))
			}
			if len(k.Envs) > 0 {
				b.WriteString("      envs:\n")
				for _, e := range slices.Sorted(maps.Keys(k.Envs)) {
					fmt.Fprintf(&b, "        %s: %s\n", yamlString(e), yamlString(k.Envs[e]))
				}
			}
			if k.Workdir != "" {
				fmt.Fprintf(&b, "      workdir: %s\n", yamlString(k.Workdir))
			}
		}
	}
	text := []byte(b.String())
	if _, err := ParsePartedHooks(text); err != nil {
		return nil, err
	}
	return text, nil
}
