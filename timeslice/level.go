package timeslice

import "github.com/cotenant/cotenant/internal/enum"

// Level is a time-slice level of the driver's compute policy. The zero value is LevelDefault, what the driver
// starts with. NVIDIA publishes no durations for the levels.
type Level uint8

// The levels, with the numbers that nvidia-smi gives them.
const (
	LevelDefault Level = iota
	LevelShort
	LevelMedium
	LevelLong
)

var levelNames = enum.Of[Level](ErrUnknownName, "time-slice level", "Default", "Short", "Medium", "Long")
