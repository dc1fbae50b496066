// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
)

// FuzzAnswers feeds every parser of answers: a value or an errGarbled, never
// both, and never a value without its required parts.
func FuzzAnswers(f *testing.F) {
	exs, _ := transcript(f)
	for _, ex := range exs {
		f.Add(ex.out.Stdout)
	}
	for _, s := range []string{
		"Partition GPU-74d43ed3-cdf7/Dx4A created\n", "[0] 0000:00:06.00, 711, 712.3\n", "0,0000:00.06.00,GPU-1,NVIDIA H200,N/A\n",
		"PID ID SERVER DEVICE ATTRIBUTES COMMAND\n1 2 3 GPU-1 x ./a b c\n", "PID ID SERVER DEVICE COMMAND\n9741 0 6472 GPU-cb1213a3-d6a4-be7f ./nbody\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, parse := range map[string]func(string) (any, error){
			"pids":       func(s string) (any, error) { return parsePIDs(s) },
			"state":      func(s string) (any, error) { return parseState(s) },
			"percentage": func(s string) (any, error) { return parsePercentage(s) },
			"limit":      func(s string) (any, error) { return ParseMemLimit(s) },
			"optional":   func(s string) (any, error) { return parseOptionalLimit(s) },
			"status":     func(s string) (any, error) { return parseCUDAStatus(s) },
			"clients":    func(s string) (any, error) { return parseDeviceClients(s) },
			"devices":    func(s string) (any, error) { return parseDeviceQuery(s) },
		} {
			v, err := parse(text)
			if err != nil && (!errors.Is(err, errGarbled) || !reflect.ValueOf(v).IsZero()) {
				t.Errorf("%s: %+v with error %v", name, v, err)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
			}
		}
		if err := outcome(Output{Stdout: text}); err != nil && !errors.Is(err, errGarbled) && !errors.Is(err, ErrRejected) {
			t.Errorf("outcome: %v", err)
		}
	})
}

// TestBadEnvironment has an environment's bad settings of MPS refused, each by its name.
func TestBadEnvironment(t *testing.T) {
	for _, bad := range []string{"", "0", "0=", "0=2T", "x=2G", "0=-2G", "0=2G,", "0=2G\n"} {
		e, err := parseClientEnvironment([]string{EnvPinnedMemLimit + "=" + bad})
		if bad != "0=2G\n" && (!errors.Is(err, ErrInvalid) || e.PinnedMemLimits != nil) {
			t.Errorf("%q: %v, %v", bad, e, err)
		}
	}
	bad := []string{EnvThreads + "=0", EnvPinnedMemLimit + "=0=x"}
	_, err := parseClientEnvironment(bad)
	for _, kv := range bad {
		if key, _, _ := strings.Cut(kv, "="); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%v does not name %s", err, key)
		}
	}
}

// FuzzEnvironment holds that an environment that is accepted survives Build and comes back the same.
func FuzzEnvironment(f *testing.F) {
	f.Add("/tmp/nvidia-mps", "33.3334", "0=2G,1=512MB", "GPU-0,GPU-1")
	f.Add("/x", "100", "0=2G", "")
	f.Fuzz(func(t *testing.T, pipe, pct, limits, visible string) {
		var environ []string
		for _, kv := range [][2]string{{EnvPipeDirectory, pipe}, {EnvThreads, pct}, {EnvPinnedMemLimit, limits}, {EnvVisibleDevices, visible}} {
			if kv[1] != "" {
				environ = append(environ, kv[0]+"="+kv[1])
			}
		}
		env, err := parseClientEnvironment(environ)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || !reflect.DeepEqual(env, ClientEnvironment{}) {
				t.Errorf("%+v with error %v", env, err)
			}
			return
		}
		env.GPUs = []GPU{{Ordinal: 0, UUID: "GPU-0"}, {Ordinal: 1, UUID: "GPU-1"}}
		out, err := env.Build()
		if err != nil {
			if !errors.Is(err, ErrInvalid) || out != nil {
				t.Errorf("%v with error %v", out, err)
			}
			return
		}
		for _, kv := range out {
			if strings.ContainsAny(kv, "\n\r\x00") {
				t.Errorf("control characters in %q", kv)
			}
		}
		back, err := parseClientEnvironment(out)
		if err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		back.GPUs = env.GPUs
		again, err := back.Build()
		if err != nil || !reflect.DeepEqual(again, out) {
			t.Errorf("%q, then %q, %v", out, again, err)
		}
	})
}

// recorder keeps the commands that reach the daemon.
type recorder struct{ sent *[]string }

func (r recorder) Run(_ context.Context, in Invocation) (Output, error) {
	*r.sent = append(*r.sent, in.Stdin)
	return Output{}, nil
}

// FuzzCommand holds that no argument of a caller reaches the daemon as more than one word.
func FuzzCommand(f *testing.F) {
	f.Add("0\nquit")
	f.Add("GPU-1 8G")
	f.Add("GPU-1")
	f.Fuzz(func(t *testing.T, device string) {
		var sent []string
		c := must.Get(NewClient(Options{Runner: recorder{&sent}}))(t)
		if _, err := c.pinnedMemLimit(t.Context(), 0, device); err != nil && !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
		for _, s := range sent {
			if strings.Count(s, "\n") != 1 || len(strings.Fields(s)) != 2 {
				t.Errorf("%q sent %q", device, s)
			}
		}
	})
}

func FuzzMemLimit(f *testing.F) {
	f.Add("8G")
	f.Add("512MB")
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseMemLimit(s)
		if err != nil {
			return
		}
		text, err := FormatMemLimit(v)
		if err != nil {
			if v%(1<<20) == 0 {
				t.Errorf("%q = %v: %v", s, v, err)
			}
			return
		}
		if back, err := ParseMemLimit(text); err != nil || back != v {
			t.Errorf("%q = %v, then %q = %v, %v", s, v, text, back, err)
		}
	})
}
