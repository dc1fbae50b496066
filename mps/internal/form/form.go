// Package form recognises the forms of words in MPS's answers and commands, which packages mps and mpsv3 share.
package form

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cotenant/cotenant/internal/problem"
)

// Lines splits an answer into its lines, without the empty ones at its end.
func Lines(text string) []string {
	text = strings.TrimRight(text, " \t\r\n")
	if text == "" {
		return nil
	}
	ls := strings.Split(text, "\n")
	for i := range ls {
		ls[i] = strings.TrimRight(ls[i], " \t\r")
	}
	return ls
}

// PID reads a process ID: 1 to the largest int32.
func PID(s string) (int, bool) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n <= 0 || s[0] == '+' {
		return 0, false
	}
	return int(n), true
}

// Percentage reads a percentage, 0 to 100.
func Percentage(s string) (float64, bool) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || v < 0 || v > 100 || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	return v, true
}

var (
	ordinal = regexp.MustCompile(`^(0|[1-9]\d{0,3})$`)
	uuid    = regexp.MustCompile(`^(GPU|MIG)-[0-9a-zA-Z][0-9a-zA-Z/-]*$`)
	word    = regexp.MustCompile(`^[0-9A-Za-z_./+=:,-]{1,256}$`)
)

// IsOrdinal reports whether s is a device's ordinal.
func IsOrdinal(s string) bool { return ordinal.MatchString(s) }

// IsUUID answers whether s is a GPU's or MIG device's UUID, or the beginning of one, which MPS takes too.
func IsUUID(s string) bool { return len(s) <= 96 && uuid.MatchString(s) }

// IsWord answers whether s reaches the daemon as one word: it holds nothing that ends a word or a line.
func IsWord(s string) bool { return word.MatchString(s) }

// Name makes what a tenant chose fit for a person's eyes: quoted as in Go, and
// cut, where it holds more than printable text.
func Name(s string) string {
	s = strings.TrimRight(s, " \t\r\n")
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return problem.Clip(strconv.Quote(s))
	}
	return s
}
