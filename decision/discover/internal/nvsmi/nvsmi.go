// SPDX-License-Identifier: Apache-2.0

// Package nvsmi reads the XML that nvidia-smi -q -x prints on a node, and knows its other outputs by name.
//
// A figure that nvidia-smi prints as N/A or Not Supported is missing, never zero. Processes that only draw are left
// out. XML returns all readable fields together with an error that lists the others by their paths. A text of another
// kind is an error without fields.
//
// The forms are those of the drivers from 450 to 580; testdata has the output of an H100 and an H200 with driver
// 580.159.04. Serial numbers and command lines are never kept.
package nvsmi

import (
	"bytes"
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Sniff reports whether a text is the output of -q -x, by its first KiB. A shell's prompt may come first.
func Sniff(head []byte) bool { return bytes.Contains(head, []byte("<nvidia_smi_log")) }

// unread are the outputs that lack figures of a GPU, each with a mark of its text.
var unread = []struct {
	mark *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`(?i)\[Insufficient Permissions\]`),
		"what a container with a part of a GPU is shown, which hides the GPU: print it on the node"},
	{regexp.MustCompile(`(?m)^\|\s*GPU instances:|^No GPU instances found|^No MIG-enabled devices found`),
		"nvidia-smi mig -lgi, which names no GPU"},
	{regexp.MustCompile(`(?m)^\| NVIDIA-SMI [0-9]`), "the table of nvidia-smi, which shortens names"},
	{regexp.MustCompile(`(?m)^GPU [0-9]+: .*\(UUID: (GPU|MIG)-`), "nvidia-smi -L, which has no memory"},
	{regexp.MustCompile(`(?m)^=+ ?NVSMI LOG ?=+`), "the text of nvidia-smi -q"},
	{regexp.MustCompile(`(?m)^([a-z_., \[\]A-Za-z%]*, ?)?(gpu_(uuid|name|bus_id)|driver_version|uuid|` +
		`(pci|memory|utilization|mig|power)\.[a-z_.]+)( \[[A-Za-z%]+\])?(,.*)?$`), "nvidia-smi --query-gpu"},
}

// Unread names a known output that is not read, "" for any other text.
func Unread(head []byte) string {
	for _, u := range unread {
		if u.mark.Match(head) {
			return u.what
		}
	}
	return ""
}

// ErrKind is the error for a text of another kind.
var ErrKind = errors.New("nvsmi: not this output of nvidia-smi")

// maxText bounds the length of one output: a node with 16 GPUs and a thousand processes prints about 1 MiB.
const maxText = 64 << 20

// missing are the texts for "there is no such figure".
var missing = map[string]bool{"": true, "-": true, "n/a": true, "not supported": true, "none": true,
	"not available":                      true,
	"not available in wddm driver model": true, "requested functionality has been deprecated": true,
	noPermission: true, "not found": true}

// noPermission is the answer to queries of the whole GPU inside a container that has a part of it.
const noPermission = "insufficient permissions"

// failed are the texts for "the driver could not say".
var failed = map[string]bool{"unknown error": true, "err!": true, "gpu is lost": true, "gpu requires reset": true,
	"error": true, "function not found": true}

// reader collects the problems of one text.
type reader struct {
	probs problem.List
	lost  bool // the driver answered of a field that the GPU is lost or needs a reset
	// denied: the driver answered of a field that the caller has no permission
	denied bool
}

func (r *reader) full() bool { return r.probs.Len() >= problem.Enough }

// text returns a field's text, or "" where it says that there is none.
func (r *reader) text(path, s string) string {
	s = strings.TrimSpace(s)
	plain := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		plain = s[1 : len(s)-1]
	}
	switch key := strings.ToLower(strings.TrimSpace(plain)); {
	case missing[key]:
		r.denied = r.denied || key == noPermission
		return ""
	case failed[key]:
		r.lost = r.lost || key == "gpu is lost" || key == "gpu requires reset"
		r.probs.If(!r.full(), path, "look at the GPU: dmesg and nvidia-smi on the node", "nvidia-smi answers %q",
			plain)
		return ""
	}
	return s
}

// number reads a figure; the only unit among the figures that are read is MiB.
func (r *reader) number(path, s string) (out optional.Value[float64]) {
	if s = r.text(path, s); s == "" {
		return out
	}
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, " MiB"), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		r.probs.If(!r.full(), path, "print it again with nvidia-smi", "%s is no figure of nvidia-smi",
			problem.Clip(strconv.Quote(s)))
		return out
	}
	return optional.Of(v)
}

func (r *reader) bytes(path, s string) (out optional.Value[sharing.Bytes]) {
	if v, ok := r.number(path, s).Get(); ok && v <= 1<<40 {
		out = optional.Of(sharing.Bytes(v) * sharing.MiB)
	} else if ok {
		r.probs.Addf(path, "", "%v MiB is no memory", v)
	}
	return out
}

func (r *reader) integer(path, s string) (out optional.Value[int]) {
	if v, ok := r.number(path, s).Get(); ok && v == math.Trunc(v) && v <= math.MaxInt32 {
		out = optional.Of(int(v))
	} else if ok {
		r.probs.Addf(path, "", "%v is no number of a thing", v)
	}
	return out
}

// onOff reads "Enabled" and "Disabled".
func (r *reader) onOff(path, s string) sharing.Answer {
	t := r.text(path, s)
	answer := map[string]sharing.Answer{"enabled": sharing.AnswerYes, "disabled": sharing.AnswerNo}[strings.ToLower(t)]
	r.probs.If(t != "" && answer == sharing.AnswerUnknown, path, "", "%s is neither Enabled nor Disabled",
		problem.Clip(strconv.Quote(t)))
	return answer
}

// pciID turns "0x233010DE" or "233010DE", device before vendor, into sharing's form.
func (r *reader) pciID(path, s string) string {
	t := strings.ToUpper(strings.TrimPrefix(strings.ToLower(r.text(path, s)), "0x"))
	if t == "" {
		return ""
	}
	if _, err := strconv.ParseUint(t, 16, 32); err != nil || len(t) != 8 {
		r.probs.Addf(path, "", "%s is no PCI device id", problem.Clip(strconv.Quote(s)))
		return ""
	}
	return t[4:] + ":" + t[:4]
}

// uuid reads a UUID of a GPU or a MIG device.
func (r *reader) uuid(path, s string) string {
	t := r.text(path, s)
	if t != "" && !strings.HasPrefix(t, "GPU-") && !strings.HasPrefix(t, "MIG-") {
		r.probs.Addf(path, "", "%s is no UUID of a GPU", problem.Clip(strconv.Quote(t)))
		return ""
	}
	return t
}
