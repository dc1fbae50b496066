package nvsmi

import (
	"bytes"
	"regexp"
)

// Kind is which of nvidia-smi's outputs a text is. The zero Kind is KindNone.
type Kind uint8

// The kinds.
const (
	KindNone      Kind = iota
	KindXML            // nvidia-smi -q -x
	KindQuery          // --query-gpu or --query-compute-apps with --format=csv
	KindTopology       // topo -m
	KindInstances      // mig -lgi
	KindList           // -L
)

var (
	queryHead = regexp.MustCompile(`^\s*(index|uuid|gpu_uuid|name|gpu_name|timestamp|pid|count|driver_version` +
		`|pci\.[a-z_.]+|memory\.[a-z]+|utilization\.[a-z]+|mig\.mode\.[a-z]+|power\.[a-z.]+|compute_mode` +
		`|temperature\.[a-z.]+)( \[[A-Za-z%]+\])?\s*(,|\r?\n|$)`)
	topoHead = regexp.MustCompile(`(?m)^(\x1b\[[0-9;]*m)?\s+(\x1b\[[0-9;]*m)?GPU0\b`)
	listHead = regexp.MustCompile(`(?m)^GPU \d+: .*\(UUID: `)
	lgiHead  = regexp.MustCompile(`(?m)^\|\s*GPU instances:|^No GPU instances found|^No MIG-enabled devices found`)
)

// Sniff says which output begins with head; a few KiB are enough.
func Sniff(head []byte) Kind {
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	switch {
	case bytes.Contains(head, []byte("<nvidia_smi_log")):
		return KindXML
	case topoHead.Match(head):
		return KindTopology
	case lgiHead.Match(head):
		return KindInstances
	case listHead.Match(head):
		return KindList
	case queryHead.Match(bytes.TrimLeft(head, "\r\n")):
		return KindQuery
	}
	return KindNone
}
