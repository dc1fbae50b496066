package timeslice_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

func TestLevelText(t *testing.T) {
	var names []string
	for i, l := range timeslice.Levels() {
		if int(l) != i {
			t.Errorf("level %v is number %d, nvidia-smi's is %d", l, l, i)
		}
		b, err := l.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		back, err := timeslice.ParseLevel(string(b))
		if err != nil || back != l {
			t.Errorf("%s reads as %v, %v", b, back, err)
		}
		names = append(names, l.String())
	}
	if diff := cmp.Diff([]string{"Default", "Short", "Medium", "Long"}, names); diff != "" {
		t.Error(diff)
	}
	_, err := timeslice.ParseLevel("Mediun")
	var unknown *sharing.UnknownNameError
	if !errors.As(err, &unknown) || unknown.Name != "Mediun" {
		t.Errorf("got %v", err)
	}
	if _, err := timeslice.Level(9).MarshalText(); err == nil {
		t.Error("a value that is no level has a text")
	}
	if got := timeslice.Level(9).String(); got != "Level(9)" {
		t.Errorf("String: %q", got)
	}
}
