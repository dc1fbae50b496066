package timeslice_test

import (
	"errors"
	"testing"

	"github.com/cotenant/cotenant/timeslice"
)

// TestLevelText holds the DRA driver's texts, and nvidia-smi's numbers.
func TestLevelText(t *testing.T) {
	for i, name := range []string{"Default", "Short", "Medium", "Long"} {
		l := timeslice.Level(i)
		b, err := l.MarshalText()
		if err != nil || string(b) != name || l.String() != name {
			t.Errorf("level %d is %q, %v", i, b, err)
		}
		var back timeslice.Level
		if err := back.UnmarshalText(b); err != nil || back != l {
			t.Errorf("%s reads as %v, %v", b, back, err)
		}
	}
	var l timeslice.Level
	if err := l.UnmarshalText([]byte("Mediun")); !errors.Is(err, timeslice.ErrUnknownName) || l != timeslice.LevelDefault {
		t.Errorf("got %v", err)
	}
	if _, err := timeslice.Level(4).MarshalText(); !errors.Is(err, timeslice.ErrUnknownName) {
		t.Error("a value that is no level has a text")
	}
}
