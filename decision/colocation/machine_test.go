// SPDX-License-Identifier: Apache-2.0

//go:build linux

package colocation

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// envServer gives the test binary the role of a server that makes its CUDA calls like any other; the value is its port.
const envServer = "MEASURE_TEST_SERVER"

// envEmpty makes the server answer some requests with no token.
const envEmpty = "MEASURE_TEST_EMPTY"

func TestMain(m *testing.M) {
	if port := os.Getenv(envServer); port != "" {
		code, err := playServer(port)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}
	if code, ok := mpstest.ControlProgram(); ok {
		os.Exit(code)
	}
	if err := setControl(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	nightly.Parallel(5)
	os.Exit(m.Run())
}

// control replaces nvidia-cuda-mps-control.
var control *mps.Program

// setControl sets control, and its options in the environment that the servers under test inherit.
func setControl() (err error) {
	if control, err = mpstest.Program(mpstest.Options{}); err != nil {
		return err
	}
	for _, kv := range control.Env[1:] { // the first is the role, which each command sets itself
		k, v, _ := strings.Cut(kv, "=")
		if err = os.Setenv(k, v); err != nil {
			return err
		}
	}
	return nil
}

func playServer(port string) (int, error) {
	inR, inW, err := os.Pipe() // an input that never ends
	if err != nil {
		return 1, err
	}
	defer inW.Close() // once collected it would be closed, and the input would end
	outR, outW, err := os.Pipe()
	if err != nil {
		return 1, err
	}
	srv, err := loadgentest.NewServer(loadgentest.Options{NoLog: true, Script: loadgentest.Always(loadgentest.Reply{TTFT: 8 * time.Millisecond, Interval: 3 * time.Millisecond})})
	if err != nil {
		return 1, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return 1, err
	}
	serve := http.Handler(srv)
	if os.Getenv(envEmpty) != "" {
		var served atomic.Int64
		serve = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || served.Add(1)%3 != 0 {
				srv.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		})
	}
	env := []string{os.Getenv(mps.EnvPipeDirectory), os.Getenv(mps.EnvThreads), os.Getenv(mps.EnvPinnedMemLimit), os.Getenv(mps.EnvVisibleDevices)}
	fmt.Println(strings.Join(env, "|"))
	os.Stdin, os.Stdout = inR, outW
	go func() {
		// The first line is what it sees of the GPU: it is a client by then, or runs without MPS.
		view := make([]byte, 4096)
		n, err := outR.Read(view)
		fmt.Fprintf(os.Stderr, "%s%v\n", view[:n], err)
		fmt.Fprintln(os.Stderr, http.Serve(l, serve))
	}()
	code, _ := mpstest.ControlProgram()
	return code, nil
}

// freePort is a port without a listener.
func freePort(t *testing.T) int {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

const realPlan = `
version: v1
seconds: 0.6
servers:
  - {name: a, model: m, api: completions, url: "http://127.0.0.1:%[1]d", percent: 40, command: [env, %[4]s, %[3]s=%[1]d, %[5]s]}
  - {name: b, model: m2, api: completions, url: "http://127.0.0.1:%[2]d", percent: 60, memory_limit: 30GiB, command: [env, %[4]s, %[3]s=%[2]d, %[5]s]}
loads:
  - {name: x, server: a, concurrency: 2, prompt: 16, output: 8, slo: {tpot_p99: 1s}}
  - {name: y, server: b, rate: 20, prompt: 16, output: 8}
`

const measuredGPU = "GPU-403fa439-6cf5-29e7-1299-e82c5fcfc6fa"

// scriptedGPU is a GPU for the real flow, and another that must stay out of it: its
// figures are a script's, so that everything is marked as simulated.
func scriptedGPU(t *testing.T) telemetry.Reader {
	t.Helper()
	src := must.Get(telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{{
		Device: telemetry.Device{Name: "NVIDIA H200", UUID: measuredGPU, MIG: sharing.AnswerNo, GPM: sharing.AnswerYes},
		Phases: []telemetrytest.Phase{{
			Processes: []telemetry.Process{{PID: 7, Name: "stranger"}},
			Figures: map[telemetry.Metric]float64{telemetry.MetricGPUUtilPercent: 60, telemetry.MetricMemTotalBytes: float64(141 * sharing.GiB), telemetry.MetricMemUsedBytes: 1e10,
				telemetry.MetricGraphicsUtilPercent: 60, telemetry.MetricSMUtilPercent: 30, telemetry.MetricDRAMUtilPercent: 25, telemetry.MetricPowerWatts: 300},
		}},
	}, {Device: telemetry.Device{Name: "NVIDIA H200", UUID: "GPU-403fa439-6cf5-29e7-1299-e82c5fcfc6fb"}, Phases: []telemetrytest.Phase{{}}}}}))(t)
	return src
}

// realRun measures with replacements of servers, daemon and GPU.
func realRun(ctx context.Context, t *testing.T, text string, h how) results {
	t.Helper()
	exe := must.Get(os.Executable())(t)
	h.plan = fmt.Appendf(nil, text, freePort(t), freePort(t), envServer, mpstest.ClientRole, exe)
	return h.measured(ctx, t, true, func(p *Plan) (Site, error) {
		m, err := NewMachine(t.Context(), p, MachineOptions{Program: control, Source: scriptedGPU(t)})
		if err == nil {
			m.(*machine).runner = mpstest.Socket
		}
		return m, err
	})
}

func TestRealFlow(t *testing.T) {
	t.Parallel()
	r := realRun(t.Context(), t, realPlan, how{})
	if r.code != exitOK {
		t.Fatal(r.stderr)
	}
	rep, dir := r.report, r.dir
	if len(rep.Rows) != 12 || rep.Basis != sharing.BasisSimulated || rep.GPU != "NVIDIA H200" {
		t.Errorf("%d rows, basis %s, GPU %q", len(rep.Rows), rep.Basis, rep.GPU)
	}
	if !strings.Contains(strings.Join(rep.Notes, "\n"), "process 7 (stranger) holds the GPU too") {
		t.Errorf("notes %q", rep.Notes)
	}
	for _, r := range rep.Rows {
		if r.Tenants > 1 && len(r.Predicted) == 0 {
			t.Errorf("%s, %s: nothing was predicted", r.Run, r.Load)
		}
	}
	// The environments of the servers, by mode.
	for name, want := range map[string][2]string{
		"time-slicing/servers/a.log":       {"", ""},
		"mps/servers/b.log":                {"", ""},
		"mig-like-emulation/servers/a.log": {"40", "0=57753M"},
		"mig-like-emulation/servers/b.log": {"60", "0=30G"},
	} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		log := string(b)
		env := strings.Split(strings.SplitN(log, "\n", 2)[0], "|")
		if len(env) != 4 || env[1] != want[0] || env[2] != want[1] || env[3] != measuredGPU {
			t.Errorf("%s: environment %q, want %q", name, env, want)
		}
		if client := !strings.HasPrefix(name, "time-slicing"); !strings.Contains(log, fmt.Sprintf(`"Client":%v`, client)) {
			t.Errorf("%s: %s", name, log)
		}
		if _, err := os.Stat(env[0]); err == nil {
			t.Errorf("%s: the pipe directory %s is still there", name, env[0])
		}
	}
}

// Requests that fail among others that do not are noted with the reason.
func TestRealFailedRequests(t *testing.T) {
	t.Parallel()
	plan := strings.Replace(realPlan, "%[3]s=%[1]d", envEmpty+"=1, %[3]s=%[1]d", 1) + "modes: [time-slicing]\n"
	r := realRun(t.Context(), t, plan, how{})
	if r.code != exitOK {
		t.Fatal(r.stderr)
	}
	want := regexp.MustCompile(`(?m)^time-slicing/solo-x: [0-9]+ of [0-9]+ requests of x failed: loadgen: malformed answer: it ended without a token$`)
	if notes := strings.Join(r.report.Notes, "\n"); !want.MatchString(notes) || strings.Contains(notes, "requests of y failed") {
		t.Errorf("notes %q", r.report.Notes)
	}
}

// A server that cannot start spoils the mode and is shown; earlier measurements stay.
func TestRealFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ plan, want string }{
		"a server ends":     {strings.Replace(realPlan, "%[3]s=%[2]d, %[5]s]", "no-such-program%[2]d]", 1), "server b ended"},
		"no such program":   {strings.Replace(realPlan, "command: [env", "command: [/no/such/program", 1), "no such file"},
		"no client":         {strings.Replace(realPlan, "[env, %[4]s, %[3]s=%[2]d", "[env, "+mps.EnvPipeDirectory+"=/nowhere, %[4]s, %[3]s=%[2]d", 1) + "modes: [mps]\n", "the daemon lists 1 clients for 2 servers"},
		"no such device":    {realPlan + "device: 3\n", "no such GPU: index 3"},
		"nobody is running": {strings.NewReplacer(", command: [env, %[4]s, %[3]s=%[1]d, %[5]s]", "", ", command: [env, %[4]s, %[3]s=%[2]d, %[5]s]", "").Replace(realPlan) + "modes: [time-slicing]\nstart_seconds: 0.3\n#%[3]s%[4]s%[5]s\n", "a is not ready within 0.3 s (start_seconds): "},
	} {
		t.Run(name, func(t *testing.T) {
			if r := realRun(t.Context(), t, c.plan, how{}); r.code != exitFailed || !strings.Contains(r.stderr, c.want) {
				t.Errorf("%s; want %q", r.stderr, c.want)
			}
		})
	}
}

// A server that listens elsewhere is named while it is waited for, with the end of its output; an interrupt does not wait
// for it.
func TestRealServerElsewhere(t *testing.T) {
	t.Parallel()
	race.Long(t)
	plan := strings.Replace(realPlan, "127.0.0.1:%[2]d", fmt.Sprintf("127.0.0.1:%d", freePort(t)), 1) + "modes: [time-slicing]\nstart_seconds: 6\n"
	r := realRun(t.Context(), t, plan, how{})
	for _, want := range []string{"b is not ready after 5s: Get", "connection refused; its last lines:\n  ", "b is not ready within 6 s (start_seconds): Get", "connection refused\n  "} {
		if r.code != exitFailed || !strings.Contains(r.stderr, want) {
			t.Errorf("%d: %s; want %q", r.code, r.stderr, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	if r = realRun(ctx, t, strings.Replace(plan, "start_seconds: 6", "start_seconds: 300", 1), how{}); time.Since(began) > 20*time.Second {
		t.Errorf("an interrupt took %v: %s", time.Since(began), r.stderr)
	}
}

// An interrupt ends servers and daemon in order.
func TestRealInterrupted(t *testing.T) {
	if _, err := os.Stat("/proc/self/task"); err != nil || len(children()) > 0 {
		t.Skip("the system does not tell the test's children apart")
	}
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan int)
	go func() {
		most := 0
		for most < 3 && ctx.Err() == nil { // the daemon and two servers
			most = max(most, len(children()))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		cancel()
		watched <- most
	}()
	r := realRun(ctx, t, realPlan+"modes: [mps]\n", how{seconds: 20})
	cancel()
	if most := <-watched; most < 3 {
		t.Skip("the kernel does not list children")
	}
	if r.code != exitFailed || !strings.Contains(r.stderr, "interrupted; kept in "+r.dir+": 0 runs") {
		t.Error(r.stderr)
	}
	if left := children(); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// children lists the test's child processes, whichever thread started them.
func children() []string {
	var out []string
	files, _ := filepath.Glob("/proc/self/task/*/children") // a good pattern
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil { // threads come and go
			out = append(out, strings.Fields(string(b))...)
		}
	}
	return out
}
