// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// checkText refuses answers that are no text.
func checkText(text string) error {
	if !utf8.ValidString(text) || strings.ContainsFunc(text,
		func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\t\r", r) }) {
		return garbled("text", 0, text)
	}
	return nil
}

// parsePIDs reads the answer of get_server_list and get_client_list: one process ID a line, possibly none.
func parsePIDs(text string) ([]int, error) {
	var pids []int
	for i, line := range lines(text) {
		pid, ok := readPID(strings.TrimSpace(line))
		if !ok {
			return nil, garbled("list of process IDs", i+1, line)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// parseState reads the answer of get_server_status.
func parseState(text string) (string, error) {
	word := strings.TrimSpace(text)
	if word != stateActive && word != "INITIALIZING" && word != "FAULT" {
		return "", garbled("server state", 0, word)
	}
	return word, nil
}

// parsePercentage reads a percentage, 0 to 100.
func parsePercentage(text string) (float64, error) {
	word := strings.TrimSpace(text)
	v, err := strconv.ParseFloat(word, 64)
	if err != nil || !(v >= 0 && v <= 100) || strings.Trim(word, "0123456789.") != "" {
		return 0, garbled("percentage", 0, word)
	}
	return v, nil
}

func parseCUDAStatus(text string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16)
	if err != nil {
		return 0, garbled("CUDA status", 0, text)
	}
	return int(n), nil
}

// parseOptionalLimit reads the answer to a query for a limit; no limit is unknown, not 0.
func parseOptionalLimit(text string) (sharing.Cell[sharing.Bytes], error) {
	text = strings.TrimSpace(text)
	if text == "" || strings.HasPrefix(text, "No default pinned memory limit") || strings.HasPrefix(text,
		"No pinned memory limit") {
		return sharing.Cell[sharing.Bytes]{}, nil
	}
	v, err := ParseMemLimit(text)
	if err != nil {
		return sharing.Cell[sharing.Bytes]{}, err
	}
	return sharing.KnownCell(v, sourceDaemon), nil
}

// ParseMemLimit reads a memory limit as the daemon and the environment write it: a whole number and a unit, "8G",
// "512M", "512MB", "1024K". The units are binary: a daemon on an H200 logged 8G as 0x200000000 bytes. Anything else,
// and 0, is an error.
func ParseMemLimit(s string) (sharing.Bytes, error) {
	word := strings.TrimSpace(s)
	num := strings.TrimRight(word, "KMGBkmgb")
	unit := map[string]sharing.Bytes{"K": sharing.KiB, "KB": sharing.KiB, "M": sharing.MiB, "MB": sharing.MiB,
		"G": sharing.GiB, "GB": sharing.GiB}[strings.ToUpper(word[len(num):])]
	n, err := strconv.ParseUint(num, 10, 63)
	if unit == 0 || err != nil || n == 0 || n > uint64(math.MaxInt64/unit) {
		return 0, garbled("memory limit (a whole number and G, M or K)", 0, s)
	}
	return sharing.Bytes(n) * unit, nil
}

// FormatMemLimit writes a limit as the daemon reads it, "8G" or "1536M". The limit must be positive and a whole number
// of MiB; other limits are ErrInvalid.
func FormatMemLimit(limit sharing.Bytes) (string, error) {
	var l problem.List
	if checkMemLimit(&l, "limit", limit, 0); l.Len() > 0 {
		return "", l.Under(ErrInvalid)
	}
	if limit%sharing.GiB == 0 {
		return strconv.FormatInt(int64(limit/sharing.GiB), 10) + "G", nil
	}
	return strconv.FormatInt(limit.MiB(), 10) + "M", nil
}

// lines splits an answer into its lines, without the empty ones at its end.
func lines(text string) []string {
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

// readPID reads a process ID: 1 to the largest int32.
func readPID(s string) (int, bool) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n <= 0 || s[0] == '+' {
		return 0, false
	}
	return int(n), true
}

var (
	ordinalForm = regexp.MustCompile(`^(0|[1-9]\d{0,3})$`)
	uuidForm    = regexp.MustCompile(`^(GPU|MIG)-[0-9a-zA-Z][0-9a-zA-Z/-]*$`)
	wordForm    = regexp.MustCompile(`^[0-9A-Za-z_./+=:,-]{1,256}$`)
)

// isOrdinal reports whether s is a device's ordinal.
func isOrdinal(s string) bool { return ordinalForm.MatchString(s) }

// isUUID answers whether s is a GPU's or MIG device's UUID, or the beginning of one, which MPS takes too.
func isUUID(s string) bool { return len(s) <= 96 && uuidForm.MatchString(s) }

// isWord answers whether s reaches the daemon as one word: it holds nothing that ends a word or a line.
func isWord(s string) bool { return wordForm.MatchString(s) }

// Two states of a server; see ServerSnapshot.State.
const (
	stateUnknown = "UNKNOWN"
	stateActive  = "ACTIVE"
)

// sourceDaemon is the source of values that the running daemon itself gave: the page of the program that was asked.
const sourceDaemon sharing.SourceID = "nvidia-mps-man"
