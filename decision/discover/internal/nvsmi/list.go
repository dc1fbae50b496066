package nvsmi

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// lines calls f with each line and its number until f returns false. It returns
// an error only where reading fails or a line has no end.
func lines(in io.Reader, f func(n int, line string) bool) error {
	sc := bufio.NewScanner(io.LimitReader(in, maxText))
	sc.Buffer(nil, 1<<20)
	for n := 1; sc.Scan(); n++ {
		if !f(n, strings.TrimRight(sc.Text(), "\r")) {
			return nil
		}
	}
	return sc.Err()
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
	err := lines(in, func(n int, line string) bool {
		found = found || lgiHead.MatchString(line)
		m := lgiRow.FindStringSubmatch(line)
		if m == nil || !found {
			return true
		}
		at := fmt.Sprintf("line %d", n)
		if gpu, ok := r.integer(at, m[1]).Get(); ok {
			all[gpu] = append(all[gpu], telemetry.MIGInstance{Profile: m[2], ID: r.integer(at, m[4]), Start: r.integer(at, m[5]),
				Size: r.integer(at, m[6])})
		}
		return !r.full()
	})
	r.probs.AddErr("", err)
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
			joined := false
			for j := range g.Instances {
				if in := &g.Instances[j]; !in.ID.IsZero() && in.ID == said.ID {
					in.Profile, in.Start, in.Size = said.Profile, said.Start, said.Size
					joined = true
				}
			}
			if !joined {
				g.Instances = append(g.Instances, said)
			}
		}
	}
}

var (
	listGPU = regexp.MustCompile(`^GPU (\d+): (.*) \(UUID: (GPU-[^)\s]+)\)`)
	listMIG = regexp.MustCompile(`^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)`)
)

// List reads the output of nvidia-smi -L: GPUs and MIG devices with their UUIDs.
func List(in io.Reader) (telemetry.Inventory, error) {
	var (
		inv telemetry.Inventory
		r   reader
	)
	err := lines(in, func(n int, line string) bool {
		at := fmt.Sprintf("line %d", n)
		if m := listGPU.FindStringSubmatch(line); m != nil {
			inv.GPUs = append(inv.GPUs, telemetry.GPU{Index: r.integer(at, m[1]), Name: r.text(at, m[2]), UUID: m[3]})
		} else if m := listMIG.FindStringSubmatch(line); m != nil && len(inv.GPUs) > 0 {
			g := &inv.GPUs[len(inv.GPUs)-1]
			g.MIG = sharing.AnswerYes
			g.Instances = append(g.Instances, telemetry.MIGInstance{Profile: m[1], UUID: m[3]})
		}
		return !r.full()
	})
	r.probs.AddErr("", err)
	if len(inv.GPUs) == 0 {
		return inv, fmt.Errorf("%w: -L names no GPU", ErrKind)
	}
	return inv, r.probs.Err()
}
