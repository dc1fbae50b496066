// SPDX-License-Identifier: Apache-2.0

// Apicheck compares the exported names of the stable packages with those of an earlier commit, and fails on a break
// that CHANGELOG.md does not name.
//
//	go run -C tools ./apicheck [-base HEAD~1]
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/types"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/packages"
)

// stable lists the packages with a stable API: the changelog names every break.
var stable = []string{"cost", "decision", "decision/fleet", "decision/filter", "decision/layout", "decision/placement",
	"loadgen", "loadgen/loadgentest", "loadgen/prompt", "loadgen/report", "mig", "mig/mignvml", "mig/migtest",
	"mig/parted", "mps", "sharing", "telemetry", "telemetry/telemetrynvml", "telemetry/telemetrytest", "timeslice"}

func main() {
	log.SetFlags(0)
	base := flag.String("base", "HEAD~1", "the `commit` to compare with")
	flag.Parse()
	if err := check(*base); err != nil {
		log.Fatal(err)
	}
}

func check(base string) error {
	out, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("the tree's root: %w", err)
	}
	root := strings.TrimSpace(string(out))
	old, err := os.MkdirTemp("", "apicheck-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(old)
	archive := exec.Command("sh", "-c", `git archive "$1" | tar -x -C "$2"`, "sh", base, old)
	archive.Dir, archive.Stderr = root, os.Stderr
	if err := archive.Run(); err != nil {
		return fmt.Errorf("the tree of %s: %w", base, err)
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	before, err := load(old)
	if err != nil {
		return err
	}
	after, err := load(root)
	if err != nil {
		return err
	}
	return errors.Join(breaks(before, after, string(changelog))...)
}

// breaks returns an error for each incompatible change that the changelog does not name.
func breaks(before, after map[string]*types.Package, changelog string) (errs []error) {
	for _, name := range stable {
		was, is := before[name], after[name]
		switch {
		case was == nil:
		case is == nil:
			if !named(changelog, name) {
				errs = append(errs, fmt.Errorf("%s: removed (name it in CHANGELOG.md)", name))
			}
		default:
			for _, c := range apidiff.Changes(was, is).Changes {
				what, _, _ := strings.Cut(c.Message, ":")
				if !c.Compatible && !named(changelog, what[strings.LastIndexByte(what, '.')+1:]) {
					errs = append(errs, fmt.Errorf("%s: %s (an incompatible change: name it in CHANGELOG.md)", name, c.Message))
				}
			}
		}
	}
	return errs
}

// named reports whether the changelog has a name in code's letters.
func named(changelog, name string) bool {
	return regexp.MustCompile("`[^`\n]*\\b" + regexp.QuoteMeta(name) + "\\b[^`\n]*`").MatchString(changelog)
}

// load type-checks the stable packages of a tree, by their folder; those that it does not have are left out.
func load(dir string) (map[string]*types.Package, error) {
	var patterns []string
	for _, name := range stable {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			patterns = append(patterns, "./"+name)
		}
	}
	cfg := &packages.Config{Dir: dir, Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports |
		packages.NeedDeps | packages.NeedModule}
	all, err := packages.Load(cfg, patterns...)
	if err != nil {
		return nil, err
	}
	out := map[string]*types.Package{}
	for _, p := range all {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s in %s: %v", p.PkgPath, dir, p.Errors[0])
		}
		out[strings.TrimPrefix(p.PkgPath, p.Module.Path+"/")] = p.Types
	}
	return out, nil
}
