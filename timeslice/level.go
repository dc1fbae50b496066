package timeslice

import (
	"fmt"

	"github.com/cotenant/cotenant/sharing"
)

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

var levelNames = [...]string{"Default", "Short", "Medium", "Long"}

// Levels lists the levels in the order of their numbers.
func Levels() []Level { return []Level{LevelDefault, LevelShort, LevelMedium, LevelLong} }

// String returns "Default", "Short", "Medium" or "Long", the texts of the DRA
// driver's interval.
func (l Level) String() string {
	if int(l) >= len(levelNames) {
		return fmt.Sprintf("Level(%d)", uint8(l))
	}
	return levelNames[l]
}

// MarshalText returns the level's text; a value that is no level is an error.
func (l Level) MarshalText() ([]byte, error) {
	if int(l) >= len(levelNames) {
		return nil, fmt.Errorf("timeslice: %d is no time-slice level", uint8(l))
	}
	return []byte(levelNames[l]), nil
}

// UnmarshalText reads a level's text; unknown text is a
// *sharing.UnknownNameError.
func (l *Level) UnmarshalText(b []byte) error {
	for i, n := range levelNames {
		if n == string(b) {
			*l = Level(i)
			return nil
		}
	}
	return &sharing.UnknownNameError{Kind: "time-slice level", Name: string(b), Known: levelNames[:]}
}

// ParseLevel returns the level of a text as String writes it.
func ParseLevel(s string) (Level, error) {
	var l Level
	err := l.UnmarshalText([]byte(s))
	return l, err
}
