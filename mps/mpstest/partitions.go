package mpstest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/command"
	"github.com/cotenant/cotenant/mps"
)

// chunkSMs is the chunk of Hopper and later.
const chunkSMs = 8

type partition struct {
	gpu    string // full UUID
	id     string
	chunks int
}

func (d *Daemon) partitionCommand(name string, args []string) string {
	if !d.opt.PartitioningOn {
		return "Static partitioning mode is not enabled"
	}
	switch {
	case name == "lspart":
		return d.lspart()
	case len(args) == 3 && args[0] == "add":
		return d.addPartition(args[1], args[2])
	case len(args) == 2 && args[0] == "rm":
		return d.removePartition(args[1])
	case len(args) == 3 && args[0] == "rm":
		return d.removePartition(args[1] + "/" + args[2])
	}
	return "Invalid command format."
}

func (d *Daemon) gpu(name string) (GPU, bool) {
	i := slices.IndexFunc(d.opt.GPUs, func(g GPU) bool { return strings.HasPrefix(g.UUID, name) || fmt.Sprint(g.Ordinal) == name })
	if i < 0 {
		return GPU{}, false
	}
	return d.opt.GPUs[i], true
}

func (d *Daemon) usedChunks(uuid string) int {
	n := 0
	for _, p := range d.parts {
		if p.gpu == uuid {
			n += p.chunks
		}
	}
	return n
}

func (d *Daemon) addPartition(gpu, count string) string {
	g, ok := d.gpu(gpu)
	chunks, err := strconv.Atoi(count)
	if err != nil || chunks <= 0 {
		return "Invalid number of chunks"
	}
	if !ok || chunks > g.SMs/chunkSMs-d.usedChunks(g.UUID) {
		return fmt.Sprintf("Failed to create the requested SM partition of %d chunks, error 1", chunks)
	}
	p := partition{gpu: g.UUID, id: d.partitionID(), chunks: chunks}
	d.parts = append(d.parts, p)
	if d.opt.BarePartitionID {
		return p.gpu + "/" + p.id
	}
	return "Partition " + p.gpu + "/" + p.id + " created"
}

func (d *Daemon) partitionID() string {
	d.nextPID++
	return fmt.Sprintf("Dx%dAAAAAAAAAAAAAAAAAAAAAAAAAAAA", d.nextPID)
}

func (d *Daemon) removePartition(full string) string {
	gpu, id, _ := strings.Cut(full, "/")
	for i, p := range d.parts {
		if p.id != id || !strings.HasPrefix(p.gpu, gpu) {
			continue
		}
		if d.partitionUsers(p) > 0 {
			return fmt.Sprintf("Partition %s in use. Terminate all clients before removing.", full)
		}
		d.parts = slices.Delete(d.parts, i, i+1)
		return fmt.Sprintf("Partition %s removed", full)
	}
	return "Invalid command format."
}

func (d *Daemon) partitionUsers(p partition) int {
	n := 0
	for _, s := range d.servers {
		for _, c := range s.clients {
			if strings.HasSuffix(command.Lookup(c.Env, mps.EnvPartition), "/"+p.id) {
				n++
			}
		}
	}
	return n
}

func (d *Daemon) lspart() string {
	var b strings.Builder
	b.WriteString("GPU           Partition     free    used    free    used    clients\n")
	b.WriteString("                            chunk   chunk   SM      SM\n")
	for _, g := range d.opt.GPUs {
		used := d.usedChunks(g.UUID)
		fmt.Fprintf(&b, "%s  -  %d  %d  %d  %d  -\n", g.UUID[:12], g.SMs/chunkSMs-used, used, g.SMs-used*chunkSMs, used*chunkSMs)
		for _, p := range d.parts {
			if p.gpu != g.UUID {
				continue
			}
			users := "No"
			if d.partitionUsers(p) > 0 {
				users = "Yes"
			}
			fmt.Fprintf(&b, "%s  %s  -  %d  -  %d  %s\n", g.UUID[:12], p.id, p.chunks, p.chunks*chunkSMs, users)
		}
	}
	return b.String()
}
