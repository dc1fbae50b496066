package timeslice_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// smi answers as nvidia-smi does, and remembers what it was asked.
type smi struct {
	mig    string
	level  string
	list   string // instead of the level's line
	set    timeslice.Output
	deaf   bool // accepts a level without taking it
	err    error
	called []string
}

func (s *smi) Run(ctx context.Context, in timeslice.Invocation) (timeslice.Output, error) {
	s.called = append(s.called, strings.Join(in.Args, " "))
	if s.err != nil || ctx.Err() != nil {
		return timeslice.Output{}, errors.Join(s.err, ctx.Err())
	}
	switch line := s.called[len(s.called)-1]; {
	case strings.Contains(line, "mig.mode"):
		return timeslice.Output{Stdout: s.mig + "\n"}, nil
	case strings.HasSuffix(line, "-l") && s.list != "":
		return timeslice.Output{Stdout: s.list}, nil
	case strings.HasSuffix(line, "-l"):
		return timeslice.Output{Stdout: fmt.Sprintf("GPU  0: Timeslice: %s\n", s.level)}, nil
	case s.set != timeslice.Output{} || s.deaf:
		return s.set, nil
	default:
		s.level = map[string]string{"0": "Default", "1": "Short", "2": "Medium", "3": "Long"}[in.Args[len(in.Args)-1]]
		return timeslice.Output{Stdout: "Timeslice config was set\n"}, nil
	}
}

func TestSetLevel(t *testing.T) {
	const gpu = "GPU-6d3a2a9e-0000-0000-0000-000000000000"
	for _, c := range []struct {
		name   string
		smi    smi
		device string
		level  timeslice.Level
		err    error
		calls  int
	}{
		{"set and read back", smi{mig: "Disabled", level: "Default"}, gpu, timeslice.LevelLong, nil, 3},
		{"no MIG on this GPU", smi{mig: "[N/A]", level: "Default"}, "0", timeslice.LevelShort, nil, 3},
		{"back to the default", smi{mig: "Disabled", level: "Long"}, "00000000:3B:00.0", timeslice.LevelDefault, nil, 3},
		{"a MIG device is never touched", smi{mig: "Disabled"}, "MIG-1c3d", timeslice.LevelLong, timeslice.ErrMIG, 0},
		{"nor a GPU with MIG on", smi{mig: "Enabled", level: "Default"}, "0", timeslice.LevelLong, timeslice.ErrMIG, 1},
		{"nor one that cannot tell", smi{mig: "Perhaps", level: "Default"}, "0", timeslice.LevelLong, timeslice.ErrUnreadable, 1},
		{"not supported, exit 0", smi{mig: "[N/A]", set: timeslice.Output{Stdout: "Setting timeslice is Not Supported"}}, "0", timeslice.LevelLong, timeslice.ErrNotSupported, 2},
		{"not root", smi{mig: "[N/A]", set: timeslice.Output{Stdout: "Insufficient Permissions", ExitCode: 4}}, "0", timeslice.LevelLong, timeslice.ErrPermission, 2},
		{"accepted, not in force", smi{mig: "[N/A]", level: "Default", deaf: true}, "0", timeslice.LevelLong, timeslice.ErrReadBack, 3},
		{"read back unreadable", smi{mig: "[N/A]", list: "\x00\x01", deaf: true}, "0", timeslice.LevelLong, timeslice.ErrUnreadable, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctl := timeslice.NewController(timeslice.ControllerOptions{Runner: &c.smi})
			err := ctl.SetLevel(context.Background(), c.device, c.level)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("got %v, want %v", err, c.err)
			}
			var op *timeslice.OpError
			if err != nil && (!errors.As(err, &op) || op.Device != c.device) {
				t.Errorf("%v is no OpError of %s", err, c.device)
			}
			if len(c.smi.called) != c.calls {
				t.Errorf("called %q", c.smi.called)
			}
			if err == nil && c.smi.level != c.level.String() {
				t.Errorf("level in force is %s", c.smi.level)
			}
		})
	}
}

func TestSetLevelArguments(t *testing.T) {
	s := &smi{mig: "Disabled", level: "Default"}
	if err := timeslice.NewController(timeslice.ControllerOptions{Runner: s}).SetLevel(context.Background(), "1", timeslice.LevelMedium); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"-i 1 --query-gpu=mig.mode.current --format=csv,noheader",
		"compute-policy -i 1 --set-timeslice 2",
		"compute-policy -i 1 -l",
	}
	if diff := cmp.Diff(want, s.called); diff != "" {
		t.Error(diff)
	}
}

func TestControllerRefusesDevices(t *testing.T) {
	for _, device := range []string{"", "0,1", "-1", "--help", "0 -c 3", "GPU-x\ny", strings.Repeat("9", 400), "all"} {
		s := &smi{mig: "Disabled", level: "Default"}
		ctl := timeslice.NewController(timeslice.ControllerOptions{Runner: s})
		if err := ctl.SetLevel(context.Background(), device, timeslice.LevelShort); err == nil || len(s.called) > 0 {
			t.Errorf("device %q: %v, called %q", device, err, s.called)
		}
		if _, err := ctl.Level(context.Background(), device); err == nil || len(s.called) > 0 {
			t.Errorf("device %q: %v, called %q", device, err, s.called)
		}
	}
	if err := timeslice.NewController(timeslice.ControllerOptions{Runner: &smi{}}).SetLevel(context.Background(), "0", 7); err == nil {
		t.Error("level 7 is accepted")
	}
}

func TestProbe(t *testing.T) {
	table := `+--------------------------------------+
| GPU compute policies                 |
| GPU     Name               Value     |
|======================================|
|   0     Timeslice          Medium    |
+--------------------------------------+
`
	for _, c := range []struct {
		name   string
		smi    smi
		answer sharing.Answer
		level  timeslice.Level
	}{
		{"a line", smi{level: "Long"}, sharing.AnswerYes, timeslice.LevelLong},
		{"a table", smi{list: table}, sharing.AnswerYes, timeslice.LevelMedium},
		{"refused", smi{list: "Timeslice: Not Supported"}, sharing.AnswerNo, 0},
		{"no nvidia-smi", smi{err: os.ErrNotExist}, sharing.AnswerUnknown, 0},
		{"nothing", smi{list: " "}, sharing.AnswerUnknown, 0},
		{"another GPU as well", smi{list: "Timeslice: Default\nTimeslice: Long\n"}, sharing.AnswerUnknown, 0},
		{"two on a line", smi{list: "Timeslice: Default (was Long)"}, sharing.AnswerUnknown, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := timeslice.NewController(timeslice.ControllerOptions{Runner: &c.smi}).Probe(context.Background(), "0")
			if got.Answer != c.answer || got.Level != c.level || got.Reason == "" {
				t.Errorf("%+v", got)
			}
			for _, call := range c.smi.called {
				if strings.Contains(call, "--set") || strings.Contains(call, "-c ") {
					t.Errorf("a probe ran %q", call)
				}
			}
		})
	}
}

// TestMain lets the test binary play nvidia-smi.
func TestMain(m *testing.M) {
	switch os.Getenv("TIMESLICE_TEST_SMI") {
	case "":
		os.Exit(m.Run())
	case "answer":
		fmt.Println("Timeslice:", "Short", strings.Join(os.Args[1:], " "))
	case "fail":
		fmt.Fprintln(os.Stderr, "No devices were found")
		os.Exit(6)
	case "flood":
		line := strings.Repeat("x", 1<<16)
		for range 200 {
			fmt.Println(line)
		}
	case "hang":
		time.Sleep(time.Minute)
	}
	os.Exit(0)
}

func TestSMI(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		cmd  timeslice.SMI
		want string
	}{
		{"answer", timeslice.SMI{Path: self}, ""},
		{"fail", timeslice.SMI{Path: self}, "exit code 6: No devices were found"},
		{"flood", timeslice.SMI{Path: self, MaxOutput: 1 << 20}, "over 1048576 bytes"},
		{"hang", timeslice.SMI{Path: self, Timeout: 200 * time.Millisecond}, "did not end in time"},
		{"missing", timeslice.SMI{Path: self + "-is-not-there"}, "set level of GPU 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TIMESLICE_TEST_SMI", c.name)
			ctl := timeslice.NewController(timeslice.ControllerOptions{Runner: c.cmd})
			level, err := ctl.Level(context.Background(), "0")
			if c.want == "" {
				if err != nil || level != timeslice.LevelShort {
					t.Fatalf("%v, %v", level, err)
				}
				return
			}
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "read level", "set level"), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzParseLevel(f *testing.F) {
	f.Add("GPU  0: Timeslice: Default\n")
	f.Add("|   0     Timeslice          Long      |")
	f.Fuzz(func(t *testing.T, s string) {
		level, err := timeslice.NewController(timeslice.ControllerOptions{Runner: &smi{list: s}}).Level(context.Background(), "0")
		if err != nil {
			if level != 0 {
				t.Fatal("a value and an error")
			}
			return
		}
		if s == "" {
			return // the fake answers with its own level
		}
		if !strings.Contains(strings.ToLower(s), strings.ToLower(level.String())) {
			t.Fatalf("%q is read as %v", s, level)
		}
	})
}
