package loadgen

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cotenant/cotenant/internal/problem"
)

// LoadResults reads run directories, and the run directories inside of others, in the order given and, inside a
// directory, in that of their time. The error names every one that cannot be read.
func LoadResults(dirs ...string) ([]*Result, error) {
	var l problem.List
	var all []*Result
	for _, dir := range dirs {
		found, err := findRuns(dir)
		l.AddErr("", err)
		var here []*Result
		for _, d := range found {
			res, err := LoadResult(d)
			if err != nil {
				l.AddErr("", err)
				continue
			}
			here = append(here, res)
		}
		slices.SortStableFunc(here, func(a,
			b *Result) int {
			return cmp.Compare(a.Summary.Window.FromNS, b.Summary.Window.FromNS)
		})
		all = append(all, here...)
	}
	return all, l.Err()
}

// findRuns returns dir if it is a run's, else those of its entries that are.
func findRuns(dir string) ([]string, error) {
	isRun := func(d string) bool {
		_, err := os.Stat(filepath.Join(d, ArtifactSummary))
		return err == nil
	}
	if isRun(dir) {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var runs []string
	for _, e := range entries {
		if sub := filepath.Join(dir, e.Name()); e.IsDir() && isRun(sub) {
			runs = append(runs, sub)
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s: no %s in it, nor in a folder of it", dir, ArtifactSummary)
	}
	return runs, nil
}
