package main

import (
	"context"
	"errors"
	"testing"

	"github.com/cotenant/cotenant/telemetry"
)

// counts counts its readings.
type counts struct {
	telemetry.Reader
	n   map[telemetry.Groups]int
	err error
}

func (c *counts) Read(_ context.Context, _ int, g telemetry.Groups, r *telemetry.Reading) error {
	c.n[g]++
	if g == telemetry.GroupProcesses {
		r.Processes = append(r.Processes, telemetry.Process{PID: uint32(c.n[g])})
	}
	return c.err
}

func TestOnlyWhatIsNeededIsRead(t *testing.T) {
	c := &counts{n: map[telemetry.Groups]int{}}
	gpm := false
	r := newTimed(c, func(int) bool { return gpm })
	var pids []uint32
	read := func(g telemetry.Groups) error {
		var x telemetry.Reading
		err := r.Read(t.Context(), 0, g, &x)
		if len(x.Processes) == 1 {
			pids = append(pids, x.Processes[0].PID)
		}
		return err
	}
	for range 21 {
		if err := read(telemetry.GroupProcesses); err != nil {
			t.Fatal(err)
		}
	}
	if c.n[telemetry.GroupProcesses] != 3 || pids[9] != 1 || pids[10] != 2 || pids[20] != 3 {
		t.Errorf("%d lists, %v", c.n[telemetry.GroupProcesses], pids)
	}
	for range 10 {
		_ = read(telemetry.GroupProcesses)
	}
	c.err = errors.New("no") // a list that failed is not kept
	for range 12 {
		_ = read(telemetry.GroupProcesses)
	}
	if c.n[telemetry.GroupProcesses] != 7 {
		t.Errorf("%d lists", c.n[telemetry.GroupProcesses])
	}
	if err := read(telemetry.GroupGPM); !errors.Is(err, telemetry.ErrUnsupported) || c.n[telemetry.GroupGPM] != 0 {
		t.Errorf("%v after %d readings", err, c.n[telemetry.GroupGPM])
	}
	gpm = true
	if _ = read(telemetry.GroupGPM); c.n[telemetry.GroupGPM] != 1 {
		t.Error("the counters are not read where they are needed")
	}
}
