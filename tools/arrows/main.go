// SPDX-License-Identifier: Apache-2.0

// Arrows counts the arrows between the files of packages: a file points to another where it names what that declares.
// In an order of the files in which as few as can be found point up, it prints how many do, and from where to where.
//
//	go run -C tools ./arrows ../decision ../decision/fleet
//
// The order is by Eades, Lin and Smyth's heuristic for the feedback arc set (1993), with ties by name.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	for _, dir := range os.Args[1:] {
		pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: dir}, ".")
		if err == nil && len(pkgs[0].Errors) > 0 {
			err = pkgs[0].Errors[0]
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "arrows:", err)
			os.Exit(1)
		}
		all := arrowsOf(pkgs[0])
		order := orderOf(all)
		var up []string
		n := 0
		for from, tos := range all {
			for to := range tos {
				if n++; slices.Index(order, from) > slices.Index(order, to) {
					up = append(up, from+" -> "+to)
				}
			}
		}
		slices.Sort(up)
		fmt.Printf("%s: %d arrows between %d files, %d up\n", pkgs[0].PkgPath, n, len(order), len(up))
		for _, arrow := range up {
			fmt.Println("\t" + arrow)
		}
	}
}

// arrowsOf are the files of a package with those that each points to.
func arrowsOf(p *packages.Package) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, file := range p.CompiledGoFiles {
		out[filepath.Base(file)] = map[string]bool{}
	}
	for id, object := range p.TypesInfo.Uses {
		if object.Pkg() != p.Types || !object.Pos().IsValid() {
			continue
		}
		from := filepath.Base(p.Fset.Position(id.Pos()).Filename)
		to := filepath.Base(p.Fset.Position(object.Pos()).Filename)
		if from != to && !strings.HasSuffix(to, "_gen.go") {
			out[from][to] = true
		}
	}
	return out
}

// orderOf puts files above those that they point to, as far as that goes.
func orderOf(all map[string]map[string]bool) []string {
	left := map[string]bool{}
	for file := range all {
		left[file] = true
	}
	degrees := func(file string) (in, out int) {
		for other := range left {
			if all[other][file] {
				in++
			}
			if all[file][other] {
				out++
			}
		}
		return in, out
	}
	var top, bottom []string
	for len(left) > 0 {
		var names []string
		for file := range left {
			names = append(names, file)
		}
		slices.Sort(names)
		best, most := "", 0
		for _, file := range names {
			in, out := degrees(file)
			if out == 0 { // below all that is left
				best = ""
				bottom = append(bottom, file)
				delete(left, file)
				break
			}
			if in == 0 { // above all that is left
				best = file
				break
			}
			if best == "" || out-in > most {
				best, most = file, out-in
			}
		}
		if best != "" {
			top = append(top, best)
			delete(left, best)
		}
	}
	slices.Reverse(bottom)
	return append(top, bottom...)
}
