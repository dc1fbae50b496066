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

var levelNames = []string{"Default", "Short", "Medium", "Long"}

// String returns "Default", "Short", "Medium" or "Long", the texts of the DRA
// driver's interval.
func (l Level) String() string { return enum.String(levelNames, int(l)) }

// MarshalText returns the level's text; a value that is no level is an error.
func (l Level) MarshalText() ([]byte, error) {
	return enum.Text(ErrUnknownName, "time-slice level", levelNames, int(l))
}

// UnmarshalText reads what String writes; other text is ErrUnknownName.
func (l *Level) UnmarshalText(b []byte) error {
	return enum.Unmarshal(l, ErrUnknownName, "time-slice level", levelNames, b)
}
