package usage

import (
	"bytes"
	"regexp"
)

// Kind is which source a text is. The zero Kind is KindNone.
type Kind uint8

// The kinds.
const (
	KindNone      Kind = iota
	KindText           // Prometheus text with GPU metrics
	KindJSON           // an answer of Prometheus' HTTP interface
	KindTelemetry      // our telemetry CSV
)

var (
	textHead  = regexp.MustCompile(`(?m)^(# (HELP|TYPE) )?(DCGM_FI_|dcgm_|cotenant_gpu_)[A-Za-z_]+[ {]`)
	errorHead = regexp.MustCompile(`^\s*\{\s*"status"\s*:\s*"error"\s*,\s*"errorType"\s*:`)
	jsonHead  = regexp.MustCompile(`^\s*\{\s*"(status|resultType|data)"\s*:|^\s*\[\s*\{\s*"(metric|values?)"\s*:`)
)

// Sniff says which source begins with head; a few KiB are enough.
func Sniff(head []byte) Kind {
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	switch {
	case bytes.HasPrefix(head, []byte("kind,at_s,time,basis,")):
		return KindTelemetry
	case errorHead.Match(head), jsonHead.Match(head) && bytes.Contains(head, []byte(`"result`)), jsonHead.Match(head) &&
		head[bytes.IndexAny(head, "[{")] == '[':
		return KindJSON
	case textHead.Match(head):
		return KindText
	}
	return KindNone
}
