package mps

import (
	"regexp"

	"github.com/cotenant/cotenant/internal/problem"
)

var nameForm = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)

// checkName accepts names of v3 servers, namespaces and partitions (MPSV3).
func checkName(l *problem.List, path, name string) {
	if !nameForm.MatchString(name) {
		l.Addf(path, "use 1 to 64 lower-case letters, digits and underscores", "%q is no name", clip(name))
	}
}
