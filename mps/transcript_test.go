// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

// exchange is one command of the recorded session with its answer.
type exchange struct {
	command string
	out     Output
}

var exitLine = regexp.MustCompile(`^\[exit (\d+)\]$`)

// transcript reads the exchanges and all lines of the recording made on an H200 with driver 580.
func transcript(t testing.TB) (exs []exchange, all []string) {
	t.Helper()
	b := must.Get(os.ReadFile("testdata/h200-v2-transcript.txt"))(t)
	var open *exchange
	var text strings.Builder
	for line := range strings.Lines(string(b)) {
		bare := strings.TrimRight(line, "\n")
		all = append(all, bare)
		switch m := exitLine.FindStringSubmatch(bare); {
		case strings.HasPrefix(bare, "> "):
			open = &exchange{command: bare[2:]}
			text.Reset()
		case m != nil && open != nil:
			open.out.Stdout = text.String()
			open.out.ExitCode, _ = strconv.Atoi(m[1])
			exs = append(exs, *open)
			open = nil
		case open != nil:
			text.WriteString(line)
		}
	}
	return exs, all
}

// replay answers every command with one recorded output.
type replay Output

func (r replay) Run(context.Context, Invocation) (Output, error) { return Output(r), nil }

// outcomes lists the meaning of each recorded answer, in the order of the recording.
var outcomes = []struct {
	command string
	want    any
	err     error
}{
	{"get_server_list", nil, ErrNoDaemon},
	{"get_server_list", []int(nil), nil},
	{"get_default_active_thread_percentage", 100.0, nil},
	{"set_default_active_thread_percentage 0", 100.0, nil},
	{"set_default_active_thread_percentage 50", 50.0, nil},
	{"get_default_active_thread_percentage", 50.0, nil},
	{"set_default_active_thread_percentage 100", 100.0, nil},
	{"set_default_device_pinned_mem_limit 0 8G", "", nil},
	{"get_default_device_pinned_mem_limit 0", sharing.KnownCell(8*sharing.GiB, sourceDaemon), nil},
	{"get_default_device_pinned_mem_limit 7", sharing.Cell[sharing.Bytes]{}, nil},
	{"nonsense", nil, errUnknownCommand},
	{"get_server_status 1", nil, errServerNotFound},
	{"lspart", nil, errUnknownCommand},
	{"sm_partition add 0 2", nil, errUnknownCommand},
	{"get_server_list", []int{673}, nil},
	{"get_server_status 673", stateActive, nil},
	{"get_active_thread_percentage 673", 100.0, nil},
	{"get_device_pinned_mem_limit 673 0", sharing.KnownCell(8*sharing.GiB, sourceDaemon), nil},
	{"device_query", []GPU{{UUID: "GPU-403fa439-6cf5-29e7-1299-e82c5fcfc6fa"}}, nil},
	{"get_client_list 673", []int(nil), nil},
	{"ps", nil, nil}, // not parsed
	{"get_client_list 673", []int{711}, nil},
	{"get_device_client_list 673", []deviceClients{{clients: []int{711}}}, nil},
	{"terminate_client 673 711", 0, nil},
	{"get_client_list 673", []int{711}, nil},
	{"set_default_client_priority 2", nil, ErrRejected},
	{"get_default_client_priority", nil, nil}, // not parsed
	{"shutdown_server 673", "", nil},
	{"get_server_list", []int(nil), nil},
	{"get_server_list", []int{771}, nil},
	{"quit -t 5", "", nil},
}

// parseAny parses an answer as the client does for the command.
func parseAny(command, text string) (any, error) {
	verb, _, _ := strings.Cut(command, " ")
	switch {
	case strings.HasSuffix(verb, "active_thread_percentage"):
		return parsePercentage(text)
	case strings.HasPrefix(verb, "get") && strings.HasSuffix(verb, "pinned_mem_limit"):
		return parseOptionalLimit(text)
	}
	switch verb {
	case "get_server_list", "get_client_list":
		return parsePIDs(text)
	case "get_server_status":
		return parseState(text)
	case "get_device_client_list":
		return parseDeviceClients(text)
	case "device_query":
		return parseDeviceQuery(text)
	case "terminate_client":
		return parseCUDAStatus(text)
	}
	return text, nil
}

func TestTranscriptAnswers(t *testing.T) {
	exs, _ := transcript(t)
	if len(exs) != len(outcomes) {
		t.Fatalf("the recording has %d exchanges, the table %d", len(exs), len(outcomes))
	}
	for i, ex := range exs {
		want := outcomes[i]
		if ex.command != want.command {
			t.Fatalf("exchange %d is %q, want %q", i, ex.command, want.command)
		}
		c := must.Get(NewClient(Options{Runner: replay(ex.out)}))(t)
		text, err := c.do(t.Context(), c.timeout, strings.Fields(ex.command)...)
		if !errors.Is(err, want.err) {
			t.Errorf("%s: error %v, want %v", ex.command, err, want.err)
		}
		if err != nil || want.want == nil {
			continue
		}
		got, err := parseAny(ex.command, text)
		if err != nil {
			t.Errorf("%s: %v", ex.command, err)
		} else if diff := cmp.Diff(want.want, got, cmp.AllowUnexported(deviceClients{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", ex.command, diff)
		}
	}
}

func TestSMPointsOfTranscript(t *testing.T) {
	_, all := transcript(t)
	n := 0
	for pct, sms := range map[float64]int{25: 46, 50: 94, 75: 140} { // dynamo-mps-limits, a GPU of 188 SMs
		if got, err := SMs(188, pct); err != nil || got != sms {
			t.Errorf("%v%% of 188: %d, %v; measured %d", pct, got, err, sms)
		}
	}
	for _, line := range all {
		if !strings.HasPrefix(line, "1:8 ") {
			continue
		}
		for _, f := range strings.Fields(line) {
			p, s, _ := strings.Cut(f, ":")
			pct, _ := strconv.ParseFloat(p, 64)
			sms, _ := strconv.Atoi(s)
			got, err := SMs(132, pct)
			if err != nil || got != sms {
				t.Errorf("%s%%: %d, %v; measured %d", p, got, err, sms)
			}
			n++
		}
	}
	if n != 30 {
		t.Errorf("%d points in the recording, want 30", n)
	}
}
