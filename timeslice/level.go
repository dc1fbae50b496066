package timeslice

import "github.com/cotenant/cotenant/internal/enum"

// Level is a time-slice level of the driver's compute policy. The zero value
// is LevelDefault, what the driver starts with. NVIDIA publishes no durations
// for the levels.
type Level uint8

// The levels, with the numbers that nvidia-smi gives them.
const (
	LevelDefault Level = iota
	LevelShort
	LevelMedium
	LevelLong
)

var levelNames = enum.Of[Level](ErrUnknownName, "time-slice level", "Default", "Short", "Medium", "Long")

// String returns "Default", "Short", "Medium" or "Long", the texts of the DRA
// driver's interval.
func (l Level) String() string { return levelNames.String(l) }

// MarshalText returns the level's text; a value that is no level is an error.
func (l Level) MarshalText() ([]byte, error) { return levelNames.Text(l) }

// UnmarshalText reads what String writes; other text is ErrUnknownName.
func (l *Level) UnmarshalText(b []byte) error { return levelNames.Parse(l, b) }
