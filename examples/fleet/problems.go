package main

import (
	"errors"
	"fmt"
	"slices"
)

// problems are everything that is wrong with an input, for one error.
type problems struct{ errs []error }

// Addf records a problem at path; path and remedy may be empty.
func (p *problems) Addf(path, remedy, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if path != "" {
		text = path + ": " + text
	}
	if remedy != "" {
		text += " (" + remedy + ")"
	}
	p.errs = append(p.errs, errors.New(text))
}

// Len is the number of problems.
func (p *problems) Len() int { return len(p.errs) }

// Err joins the problems, or is nil.
func (p *problems) Err() error { return errors.Join(p.errs...) }

// nearest is the known word that a mistyped one is likely to mean, or "": one
// with nearly the same letters.
func nearest(word string, known []string) string {
	for _, k := range known {
		left := []rune(k)
		wrong := 0
		for _, r := range word {
			if i := slices.Index(left, r); i >= 0 {
				left = slices.Delete(left, i, i+1)
			} else {
				wrong++
			}
		}
		if wrong+len(left) <= 2 && len(left) < len([]rune(k))/2 {
			return k
		}
	}
	return ""
}
