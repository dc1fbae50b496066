package usage

import "time"

// What a slot knows of a tenant or a device.
const (
	slotUtil    = 1 << iota // a utilization, of any kind
	slotBusy                // something ran
	slotMem                 // its memory
	slotHeld                // a program was resident
	slotGPUUtil             // NVML's utilization, which the exporter may give of a pod's own processes
	slotGPUBusy             // of that, something ran
)

// The thresholds are those of telemetry's idle detection: a device is busy from 5 percent of utilization or 2 percent
// of SMs or memory bandwidth, and a program is resident from 1 GiB.
const (
	busyPercent = 5
	workPercent = 2
	heldBytes   = 1 << 30
)

const slotTime = time.Minute // the resolution of busy and idle time

const maxSlots = 400 * 24 * 60 // bound of a window: 400 days of minutes

// slots are flags by time, or by page for samples without one. The zero slots are empty.
type slots struct {
	base  int64 // the first slot's number
	flags []uint8
}

// at returns the index of a slot's flags, or -1 where the window would be too long.
func (s *slots) at(slot int64) int {
	if len(s.flags) == 0 {
		s.base = slot
	}
	i := slot - s.base
	if i < 0 {
		if int64(len(s.flags))-i > maxSlots {
			return -1
		}
		grow := -i + int64(len(s.flags))/2 // so that going back step by step costs little
		s.flags = append(make([]uint8, grow), s.flags...)
		s.base -= grow
		i = slot - s.base
	}
	if i >= maxSlots {
		return -1
	}
	for int64(len(s.flags)) <= i {
		s.flags = append(s.flags, 0)
	}
	return int(i)
}

// flagsOf returns the flags that a sample sets of its slot.
func flagsOf(f Figure, v float64) uint8 {
	known, on, busy := uint8(slotUtil), uint8(slotBusy), v >= busyPercent
	switch f {
	case FigureMemUsed:
		known, on, busy = slotMem, slotHeld, v >= heldBytes
	case FigureGPUUtil:
		known, on = slotUtil|slotGPUUtil, slotBusy|slotGPUBusy
	case FigureSM, FigureDRAM:
		busy = v >= workPercent
	}
	if busy {
		return known | on
	}
	return known
}

// merge adds the flags of another set.
func (s *slots) merge(o *slots) {
	for i, f := range o.flags {
		if f == 0 {
			continue
		}
		if at := s.at(o.base + int64(i)); at >= 0 {
			s.flags[at] |= f
		}
	}
}

// get returns the flags of a slot by its number.
func (s *slots) get(slot int64) uint8 {
	if i := slot - s.base; i >= 0 && i < int64(len(s.flags)) {
		return s.flags[i]
	}
	return 0
}

// times adds the slots up, by the utilization that known and busy mean.
func (s *slots) times(known, busy uint8) (t Times) {
	for _, f := range s.flags {
		if f&slotHeld != 0 {
			t.Held += slotTime
		}
		if f&known == 0 {
			continue
		}
		t.Known += slotTime
		switch {
		case f&busy != 0:
			t.Busy += slotTime
		case f&slotHeld != 0:
			t.ExecutionIdle += slotTime
		}
	}
	return t
}

// without counts the slots in which s has a flag and o has it not, beside all in which s has it.
func (s *slots) without(o *slots, flag uint8) (missing, all int) {
	for i, f := range s.flags {
		if f&flag != 0 {
			if all++; o.get(s.base+int64(i))&flag == 0 {
				missing++
			}
		}
	}
	return missing, all
}
