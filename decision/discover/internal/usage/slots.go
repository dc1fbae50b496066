package usage

import "time"

// What a slot of time knows.
const (
	slotUtil    = 1 << iota // its utilization
	slotBusy                // something ran
	slotMem                 // its memory
	slotHeld                // a program was resident
	slotOverlap             // another tenant's series repeated the same device
)

// The thresholds are those of telemetry.IdleOptions: a device is busy from 5 percent of utilization or 2 percent of
// SMs or memory bandwidth, and a program is resident from 1 GiB.
const (
	busyPercent = 5
	workPercent = 2
	heldBytes   = 1 << 30
)

const slotTime = time.Minute // the resolution of busy and idle time

const maxSlots = 400 * 24 * 60 // bound of a window: 400 days of minutes

// slots are flags by time. The zero slots are empty.
type slots struct {
	base  int64 // the first slot's number
	flags []uint8
	owner []int32 // of a device: who said what is known of the slot, from 1; nil of a tenant
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
		if s.owner != nil {
			s.owner = append(make([]int32, grow), s.owner...)
		}
		s.base -= grow
		i = slot - s.base
	}
	if i >= maxSlots {
		return -1
	}
	for int64(len(s.flags)) <= i {
		s.flags = append(s.flags, 0)
		if s.owner != nil {
			s.owner = append(s.owner, 0)
		}
	}
	return int(i)
}

// flagsOf returns the flags that a sample sets of its slot.
func flagsOf(f Figure, v float64) uint8 {
	switch f {
	case FigureGPUUtil, FigureGraphics, FigureSM, FigureDRAM:
		if v >= busyPercent || v >= workPercent && (f == FigureSM || f == FigureDRAM) {
			return slotUtil | slotBusy
		}
		return slotUtil
	case FigureMemUsed:
		if v >= heldBytes {
			return slotMem | slotHeld
		}
		return slotMem
	}
	return 0
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

// times adds the slots up.
func (s *slots) times() (t Times, overlaps int) {
	for _, f := range s.flags {
		if f&slotOverlap != 0 {
			overlaps++
		}
		if f&slotMem != 0 && f&slotHeld != 0 {
			t.Held += slotTime
		}
		if f&slotUtil == 0 {
			continue
		}
		t.Known += slotTime
		switch {
		case f&slotBusy != 0:
			t.Busy += slotTime
		case f&slotHeld != 0:
			t.ExecutionIdle += slotTime
		case f&slotMem != 0:
			t.Idle += slotTime
		}
	}
	return t, overlaps
}
