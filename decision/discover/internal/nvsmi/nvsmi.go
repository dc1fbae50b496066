// SPDX-License-Identifier: Apache-2.0

// Package nvsmi reads the XML that nvidia-smi -q -x prints on a node, and recognizes its other outputs.
//
// A figure that nvidia-smi prints as N/A or Not Supported is missing, never zero. Graphics-only processes are left out.
// XML returns all readable fields together with an error that lists the others by their paths. Other text gives an
// error without fields.
//
// It supports the output of drivers 450 to 580; testdata has the output of an H100 and an H200 with driver 580.159.04.
// Serial numbers and command lines are never kept.
package nvsmi

import (
	"bytes"
	_ "embed"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"go.yaml.in/yaml/v3"
)

// Sniff reports whether a text is the output of -q -x, by its first KiB. A shell's prompt may come first.
func Sniff(head []byte) bool { return bytes.Contains(head, []byte("<nvidia_smi_log")) }

//go:embed texts.yaml
var textsYAML []byte

// texts are those of nvidia-smi that have a meaning of their own.
var texts = sync.OnceValue(func() (all struct {
	Unread []struct {
		Mark *regexp.Regexp
		What string
	}
	Missing, Failed, Lost, Desktop []string
}) {
	_ = yaml.Unmarshal(textsYAML, &all) // it is built in
	return all
})

// Unread names a known output that is not read, "" for any other text.
func Unread(head []byte) string {
	for _, u := range texts().Unread {
		if u.Mark.Match(head) {
			return u.What
		}
	}
	return ""
}

// ErrKind is the error for a text of another kind.
var ErrKind = errors.New("nvsmi: not this output of nvidia-smi")

// maxText bounds the length of one output: a node with 16 GPUs and a thousand processes prints about 1 MiB.
const maxText = 64 << 20

// noPermission is the answer to queries of the whole GPU inside a container that has a part of it.
const noPermission = "insufficient permissions"

// reader collects the problems of one text.
type reader struct {
	probs problem.List
	lost  bool // the driver answered of a field that the GPU is lost or needs a reset
	// denied: the driver answered of a field that the caller has no permission
	denied bool
}

func (r *reader) full() bool { return r.probs.Len() >= problem.Enough }

// text returns a field's text, or "" where there is none.
func (r *reader) text(path, s string) string {
	s = strings.TrimSpace(s)
	plain := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		plain = s[1 : len(s)-1]
	}
	switch key := strings.ToLower(strings.TrimSpace(plain)); {
	case slices.Contains(texts().Missing, key):
		r.denied = r.denied || key == noPermission
		return ""
	case slices.Contains(texts().Failed, key):
		r.lost = r.lost || slices.Contains(texts().Lost, key)
		r.probs.If(!r.full(), path, "look at the GPU: dmesg and nvidia-smi on the node", "nvidia-smi answers %q", plain)
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

// xmlGPU has the fields of a gpu element that are read.
type xmlGPU struct {
	ID        string `xml:"id,attr"`
	Name      string `xml:"product_name"`
	Arch      string `xml:"product_architecture"`
	UUID      string `xml:"uuid"`
	MIG       string `xml:"mig_mode>current_mig"`
	PCIID     string `xml:"pci>pci_device_id"`
	Memory    string `xml:"fb_memory_usage>total"`
	Instances []struct {
		ID   string `xml:"gpu_instance_id"`
		UUID string `xml:"uuid"`
	} `xml:"mig_devices>mig_device"`
	Processes *struct {
		Text  string `xml:",chardata"`
		Infos []struct {
			ID     string `xml:"gpu_instance_id"`
			PID    string `xml:"pid"`
			Type   string `xml:"type"`
			Name   string `xml:"process_name"`
			Memory string `xml:"used_memory"`
		} `xml:"process_info"`
	} `xml:"processes"`
}

// XML reads the output of nvidia-smi -q -x. GPUs are numbered in the order of the text, as nvidia-smi numbers
// them. Of a text that ends early the GPUs before its end are read.
func XML(in io.Reader) (inv telemetry.Inventory, err error) {
	var r reader
	log := struct {
		XMLName xml.Name `xml:"nvidia_smi_log"`
		Driver  string   `xml:"driver_version"`
		GPUs    xmlGPUs  `xml:"gpu"`
	}{GPUs: xmlGPUs{&r, &inv}}
	err = xml.NewDecoder(io.LimitReader(in, maxText)).Decode(&log)
	if err != nil && log.XMLName.Local == "" {
		return inv, fmt.Errorf("%w: -q -x: %s", ErrKind, problem.Clip(err.Error()))
	}
	inv.Driver = r.text("driver_version", log.Driver)
	r.probs.If(err != nil, fmt.Sprintf("gpu[%d]", len(inv.GPUs)), "print it again", "%v", err)
	return inv, r.probs.Err()
}

// xmlGPUs takes gpu elements over one by one, so that a file of nothing but these costs no memory.
type xmlGPUs struct {
	r   *reader
	inv *telemetry.Inventory
}

// UnmarshalXML reads one element.
func (g *xmlGPUs) UnmarshalXML(dec *xml.Decoder, start xml.StartElement) error {
	var x xmlGPU
	err := dec.DecodeElement(&x, &start)
	if err == nil {
		g.r.gpu(g.inv, &x)
	}
	return err
}

func (r *reader) gpu(inv *telemetry.Inventory, x *xmlGPU) {
	if r.full() {
		return
	}
	i := len(inv.GPUs)
	r.lost, r.denied = false, false
	at := func(field string) string { return fmt.Sprintf("gpu[%d].%s", i, field) }
	g := telemetry.GPU{Index: optional.Of(i), UUID: r.uuid(at("uuid"), x.UUID), Name: r.text(at("product_name"), x.Name),
		PCIBus: strings.ToLower(r.text(at("id"), x.ID)), PCIID: r.pciID(at("pci.pci_device_id"), x.PCIID),
		MemoryTotal: r.bytes(at("fb_memory_usage.total"), x.Memory), MIG: r.onOff(at("mig_mode.current_mig"), x.MIG)}
	// "Ada Lovelace" is ada; an architecture that is not known describes nothing.
	_ = g.Architecture.UnmarshalText([]byte(strings.ToLower(strings.TrimSuffix(x.Arch, " Lovelace"))))
	g.Denied = r.denied
	r.probs.If(g.UUID == "" && !r.lost, at("uuid"), "print it with a driver that works", "the GPU has no UUID")
	for j, m := range x.Instances {
		in := func(field string) string { return at(fmt.Sprintf("mig_devices[%d].%s", j, field)) }
		g.Instances = append(g.Instances, telemetry.MIGInstance{ID: r.integer(in("gpu_instance_id"), m.ID),
			UUID: r.uuid(in("uuid"), m.UUID)})
	}
	if p := x.Processes; p != nil && (len(p.Infos) > 0 || r.text(at("processes"), p.Text) == "" &&
		!strings.Contains(p.Text, "N/A")) {
		g.ProcessesListed = sharing.AnswerYes
		for j, q := range p.Infos {
			in := func(field string) string { return at(fmt.Sprintf("processes[%d].%s", j, field)) }
			if q.Type == "G" || q.Type == "C+G" && slices.Contains(texts().Desktop,
				telemetry.ProgramName(strings.TrimSpace(q.Name))) {
				continue // it draws a screen
			}
			r.process(&g, in, q.PID, q.Name, q.Memory, q.ID)
			if strings.Contains(q.Type, "M") {
				g.MPS = sharing.AnswerYes // "M+C": a client of MPS
			}
		}
	}
	if g.MPS != sharing.AnswerYes {
		g.MPS = g.SeesMPS()
	}
	g.Lost = r.lost
	inv.GPUs = append(inv.GPUs, g)
}

// process takes a process over; one that the driver lists twice, as once for each of its contexts, counts once.
func (r *reader) process(g *telemetry.GPU, at func(string) string, pid, name, memory, instance string) {
	id, ok := r.integer(at("pid"), pid).Get()
	if !ok {
		return
	}
	p := telemetry.Process{PID: uint32(id), Name: telemetry.ProgramName(r.text(at("process_name"), name)),
		Memory: r.bytes(at("used_memory"), memory), GPUInstance: r.integer(at("gpu_instance_id"), instance)}
	for i := range g.Processes {
		if have := &g.Processes[i]; have.PID == p.PID && have.GPUInstance == p.GPUInstance {
			if p.Memory.Or(0) > have.Memory.Or(0) {
				have.Memory = p.Memory
			}
			return
		}
	}
	g.Processes = append(g.Processes, p)
}
