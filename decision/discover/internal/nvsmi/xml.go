package nvsmi

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

type xmlMemory struct {
	Total    string `xml:"total"`
	Reserved string `xml:"reserved"`
	Used     string `xml:"used"`
	Free     string `xml:"free"`
}

type xmlPower struct {
	Draw    string `xml:"power_draw"`
	Average string `xml:"average_power_draw"`
	Limit   string `xml:"enforced_power_limit"`
	Current string `xml:"current_power_limit"`
	Old     string `xml:"power_limit"`
}

// xmlGPU has the fields of a gpu element that are read.
type xmlGPU struct {
	ID          string    `xml:"id,attr"`
	Name        string    `xml:"product_name"`
	UUID        string    `xml:"uuid"`
	Persistence string    `xml:"persistence_mode"`
	MIG         string    `xml:"mig_mode>current_mig"`
	MIGPending  string    `xml:"mig_mode>pending_mig"`
	PCIID       string    `xml:"pci>pci_device_id"`
	Memory      xmlMemory `xml:"fb_memory_usage"`
	Mode        string    `xml:"compute_mode"`
	Util        string    `xml:"utilization>gpu_util"`
	MemUtil     string    `xml:"utilization>memory_util"`
	Temperature string    `xml:"temperature>gpu_temp"`
	Power       xmlPower  `xml:"gpu_power_readings"` // since driver 530
	OldPower    xmlPower  `xml:"power_readings"`
	Instances   []struct {
		Index   string    `xml:"index"`
		ID      string    `xml:"gpu_instance_id"`
		Compute string    `xml:"compute_instance_id"`
		UUID    string    `xml:"uuid"`
		SMs     string    `xml:"device_attributes>shared>multiprocessor_count"`
		Memory  xmlMemory `xml:"fb_memory_usage"`
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

// XML reads the output of nvidia-smi -q -x. GPUs are numbered in the order in
// which they stand there, as nvidia-smi numbers them.
func XML(in io.Reader) (telemetry.Inventory, error) {
	var (
		inv  telemetry.Inventory
		r    reader
		root bool
	)
	dec := xml.NewDecoder(io.LimitReader(in, maxText))
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) && root {
			r.probs.Addf("nvidia_smi_log", "print it again", "the text ends early")
			break
		}
		if err != nil {
			if !root {
				return inv, fmt.Errorf("%w: -q -x: %w", ErrKind, err)
			}
			r.probs.Addf(fmt.Sprintf("gpu[%d]", len(inv.GPUs)), "print it again", "%v", err)
			break
		}
		if end, ok := tok.(xml.EndElement); ok && end.Name.Local == "nvidia_smi_log" {
			break
		}
		el, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		switch {
		case !root && el.Name.Local != "nvidia_smi_log":
			return inv, fmt.Errorf("%w: -q -x: the root is <%s>", ErrKind, problem.Clip(el.Name.Local))
		case !root:
			root = true
			continue
		}
		if el.Name.Local == "gpu" {
			var g xmlGPU
			if err = dec.DecodeElement(&g, &el); err == nil {
				r.gpu(&inv, &g)
				continue
			}
		} else {
			var text string
			if err = dec.DecodeElement(&text, &el); err == nil {
				r.log(&inv, el.Name.Local, text)
				continue
			}
		}
		r.probs.Addf(fmt.Sprintf("gpu[%d]", len(inv.GPUs)), "print it again", "%v", err)
		break
	}
	return inv, r.probs.Err()
}

// log reads a field beside the GPUs.
func (r *reader) log(inv *telemetry.Inventory, name, text string) {
	switch name {
	case "timestamp":
		inv.At = r.when(name, text)
	case "driver_version":
		inv.Driver = r.text(name, text)
	case "cuda_version":
		inv.CUDA = r.text(name, text)
	}
}

// when reads the two writings of a time: that of -q and that of CSV.
func (r *reader) when(path, s string) optional.Value[time.Time] {
	s = r.text(path, s)
	if s == "" {
		return optional.Value[time.Time]{}
	}
	for _, layout := range []string{time.ANSIC, "2006/01/02 15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return optional.Of(t)
		}
	}
	r.probs.Addf(path, "", "%s is no time of nvidia-smi", problem.Clip(fmt.Sprintf("%q", s)))
	return optional.Value[time.Time]{}
}

func (r *reader) gpu(inv *telemetry.Inventory, x *xmlGPU) {
	if r.full() {
		return
	}
	i := len(inv.GPUs)
	at := func(field string) string { return fmt.Sprintf("gpu[%d].%s", i, field) }
	g := telemetry.GPU{Index: optional.Of(i), UUID: r.uuid(at("uuid"), x.UUID), Name: r.text(at("product_name"), x.Name),
		PCIBus: strings.ToLower(r.text(at("id"), x.ID)), PCIID: r.pciID(at("pci.pci_device_id"), x.PCIID),
		MemoryTotal:    r.bytes(at("fb_memory_usage.total"), x.Memory.Total),
		MemoryReserved: r.bytes(at("fb_memory_usage.reserved"), x.Memory.Reserved),
		MemoryUsed:     r.bytes(at("fb_memory_usage.used"), x.Memory.Used),
		MemoryFree:     r.bytes(at("fb_memory_usage.free"), x.Memory.Free),
		MIG:            r.onOff(at("mig_mode.current_mig"), x.MIG), MIGPending: r.onOff(at("mig_mode.pending_mig"),
			x.MIGPending),
		ComputeMode: r.mode(at("compute_mode"), x.Mode), Persistence: r.onOff(at("persistence_mode"), x.Persistence),
		UtilPercent:        r.percent(at("utilization.gpu_util"), x.Util),
		MemUtilPercent:     r.percent(at("utilization.memory_util"), x.MemUtil),
		TemperatureCelsius: r.number(at("temperature.gpu_temp"), x.Temperature, "C"),
		PowerWatts:         r.first(at("power_readings.power_draw"), "W", x.Power.Average, x.Power.Draw, x.OldPower.Draw),
		PowerLimitWatts: r.first(at("power_readings.power_limit"), "W", x.Power.Limit, x.Power.Current, x.OldPower.Limit,
			x.OldPower.Old)}
	r.probs.If(g.UUID == "", at("uuid"), "print it with a driver that works", "the GPU has no UUID")
	for j, m := range x.Instances {
		in := func(field string) string { return at(fmt.Sprintf("mig_devices[%d].%s", j, field)) }
		g.Instances = append(g.Instances, telemetry.MIGInstance{Index: r.integer(in("index"), m.Index),
			ID: r.integer(in("gpu_instance_id"), m.ID), Compute: r.integer(in("compute_instance_id"), m.Compute),
			UUID: r.uuid(in("uuid"), m.UUID), SMs: r.integer(in("multiprocessor_count"), m.SMs),
			MemoryTotal: r.bytes(in("fb_memory_usage.total"), m.Memory.Total),
			MemoryUsed:  r.bytes(in("fb_memory_usage.used"), m.Memory.Used),
			MemoryFree:  r.bytes(in("fb_memory_usage.free"), m.Memory.Free)})
	}
	if p := x.Processes; p != nil && (len(p.Infos) > 0 || r.text(at("processes"), p.Text) == "" &&
		!strings.Contains(p.Text, "N/A")) {
		g.ProcessesListed = sharing.AnswerYes
		for j, q := range p.Infos {
			in := func(field string) string { return at(fmt.Sprintf("processes[%d].%s", j, field)) }
			r.process(&g, in, q.PID, q.Name, q.Memory, q.ID)
			if strings.Contains(q.Type, "M") {
				g.MPS = sharing.AnswerYes // "M+C": a client of MPS
			}
		}
	}
	if g.MPS != sharing.AnswerYes {
		g.MPS = g.SeesMPS()
	}
	inv.GPUs = append(inv.GPUs, g)
}

// first reads the first of several writings of a figure that is there.
func (r *reader) first(path, unit string, texts ...string) optional.Value[float64] {
	for _, s := range texts {
		if v := r.number(path, s, unit); !v.IsZero() {
			return v
		}
	}
	return optional.Value[float64]{}
}

func (r *reader) process(g *telemetry.GPU, at func(string) string, pid, name, memory, instance string) {
	id, ok := r.integer(at("pid"), pid).Get()
	if !ok {
		return
	}
	g.Processes = append(g.Processes, telemetry.Process{PID: uint32(id),
		Name:        telemetry.ProgramName(r.text(at("process_name"), name)),
		Memory:      r.bytes(at("used_memory"), memory),
		GPUInstance: r.integer(at("gpu_instance_id"), instance)})
}
