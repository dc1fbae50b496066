// SPDX-License-Identifier: Apache-2.0

package nvsmi

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

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
			if q.Type == "G" || q.Type == "C+G" && desktop[telemetry.ProgramName(strings.TrimSpace(q.Name))] {
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

// desktop are programs that compute on a GPU only to draw with it: type C+G.
var desktop = map[string]bool{"Xorg": true, "Xwayland": true, "gnome-shell": true, "kwin_wayland": true,
	"kwin_x11": true, "plasmashell": true, "cinnamon": true, "firefox": true, "chrome": true, "chromium": true,
	"msedge": true, "brave": true, "code": true, "cursor": true, "electron": true, "slack": true, "obs": true}

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
