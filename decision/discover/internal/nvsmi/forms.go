package nvsmi

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
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

// XML reads the output of nvidia-smi -q -x. GPUs are numbered in the order in which they stand there, as nvidia-smi
// numbers them. Of a text that ends early the GPUs before its end are read.
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

var lgiRow = regexp.MustCompile(`^\|\s+(\d+)\s+MIG (\S+)\s+(\d+)\s+(\d+)\s+(\d+):(\d+)\s*\|`)

// Instances reads the output of mig -lgi: the GPU instances by the index of
// their GPU. Where no GPU has any the map is empty.
func Instances(in io.Reader) (map[int][]telemetry.MIGInstance, error) {
	var (
		r     reader
		found bool
		all   = map[int][]telemetry.MIGInstance{}
	)
	sc := bufio.NewScanner(io.LimitReader(in, maxText))
	for n := 1; sc.Scan() && !r.full(); n++ {
		found = found || lgiHead.MatchString(sc.Text())
		m := lgiRow.FindStringSubmatch(sc.Text())
		if m == nil || !found {
			continue
		}
		at := fmt.Sprintf("line %d", n)
		if gpu, ok := r.integer(at, m[1]).Get(); ok {
			all[gpu] = append(all[gpu], telemetry.MIGInstance{Profile: m[2], ID: r.integer(at, m[4]), Start: r.integer(at, m[5]),
				Size: r.integer(at, m[6])})
		}
	}
	r.probs.AddErr("", sc.Err())
	if !found {
		return nil, fmt.Errorf("%w: mig -lgi", ErrKind)
	}
	return all, r.probs.Err()
}

// Join gives the instances of an inventory the profiles and placements that mig -lgi said, by GPU index and GPU
// instance, and adds those that the inventory does not have.
func Join(inv *telemetry.Inventory, by map[int][]telemetry.MIGInstance) {
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		index, ok := g.Index.Get()
		if !ok {
			continue
		}
		for _, said := range by[index] {
			k := slices.IndexFunc(g.Instances, func(in telemetry.MIGInstance) bool {
				return !in.ID.IsZero() && in.ID == said.ID
			})
			if k < 0 {
				g.Instances = append(g.Instances, said)
				continue
			}
			in := &g.Instances[k]
			in.Profile, in.Start, in.Size = said.Profile, said.Start, said.Size
		}
	}
}

// columns are the names under which --help-query-gpu lists the fields that are read. Others are left alone.
var columns = map[string]func(r *reader, g *telemetry.GPU, at, s string){
	"index":         func(r *reader, g *telemetry.GPU, at, s string) { g.Index = r.integer(at, s) },
	"name":          func(r *reader, g *telemetry.GPU, at, s string) { g.Name = r.text(at, s) },
	"uuid":          func(r *reader, g *telemetry.GPU, at, s string) { g.UUID = r.uuid(at, s) },
	"pci.bus_id":    func(r *reader, g *telemetry.GPU, at, s string) { g.PCIBus = strings.ToLower(r.text(at, s)) },
	"pci.device_id": func(r *reader, g *telemetry.GPU, at, s string) { g.PCIID = r.pciID(at, s) },
	"memory.total":  func(r *reader, g *telemetry.GPU, at, s string) { g.MemoryTotal = r.bytes(at, s) },
	"compute_cap": func(r *reader, g *telemetry.GPU, at, s string) {
		if t := r.text(at, s); t != "" {
			r.probs.AddErr(at, g.ComputeCapability.UnmarshalText([]byte(t)))
		}
	},
	"mig.mode.current": func(r *reader, g *telemetry.GPU, at, s string) { g.MIG = r.onOff(at, s) },
}

// aliases are second names of columns.
var aliases = map[string]string{"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}

// Query reads the output of --query-gpu with --format=csv, with or without nounits; the header line must be there.
// Where a GPU stands in several rows, as with -l, the last one counts.
func Query(in io.Reader) (telemetry.Inventory, error) {
	var (
		inv telemetry.Inventory
		r   reader
	)
	rd := csv.NewReader(io.LimitReader(in, maxText))
	rd.TrimLeadingSpace, rd.FieldsPerRecord, rd.LazyQuotes = true, -1, true
	head, err := rd.Read()
	if err == nil && promptLine.MatchString(strings.Join(head, ",")+"\n") {
		head, err = rd.Read()
	}
	if err != nil {
		return inv, fmt.Errorf("%w: --query-gpu: %w", ErrKind, err)
	}
	names := make([]string, len(head))
	known := 0
	for i, h := range head {
		name, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(h, "\ufeff")), " [")
		names[i] = cmp.Or(aliases[name], name)
		if columns[names[i]] != nil {
			known++
		}
	}
	if known == 0 {
		return inv, fmt.Errorf("%w: --query-gpu: the first line names no column of it (print it without noheader)", ErrKind)
	}
	row := 1
	for !r.full() {
		rec, err := rd.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		row++
		if err != nil {
			r.probs.Addf(fmt.Sprintf("line %d", row), "print it again", "%v", err)
			break
		}
		if len(rec) != len(names) {
			r.probs.Addf(fmt.Sprintf("line %d", row), "print it again", "%d cells under %d columns", len(rec), len(names))
			continue
		}
		r.row(&inv, names, rec, row)
	}
	return inv, r.probs.Err()
}

func (r *reader) row(inv *telemetry.Inventory, names, rec []string, row int) {
	var g telemetry.GPU
	at := func(name string) string { return fmt.Sprintf("line %d, %s", row, name) }
	r.lost, r.denied = false, false
	for i, name := range names {
		if name == "driver_version" {
			inv.Driver = cmp.Or(r.text(at(name), rec[i]), inv.Driver)
		} else if set := columns[name]; set != nil {
			set(r, &g, at(name), rec[i])
		} else {
			r.denied = r.denied || strings.EqualFold(strings.Trim(rec[i], " []"), noPermission)
		}
	}
	g.Lost, g.Denied = r.lost, r.denied
	if k := slices.IndexFunc(inv.GPUs, func(h telemetry.GPU) bool { return same(&g, &h) }); k >= 0 {
		inv.GPUs[k] = g
	} else {
		inv.GPUs = append(inv.GPUs, g)
	}
}

// same reports whether two readings are of one GPU, by the surest name that either has.
func same(g, h *telemetry.GPU) bool {
	switch {
	case g.UUID != "" || h.UUID != "":
		return g.UUID == h.UUID
	case g.PCIBus != "" || h.PCIBus != "":
		return g.PCIBus == h.PCIBus
	}
	return !g.Index.IsZero() && g.Index == h.Index
}
