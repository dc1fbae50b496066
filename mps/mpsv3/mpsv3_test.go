package mpsv3_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/mps/mpsv3"
	"github.com/cotenant/cotenant/mps/mpsv3/mpsv3test"
	"github.com/cotenant/cotenant/sharing"
)

const gib = sharing.GiB

func newClient(t testing.TB) (*mpsv3.Client, *mps.Client, *mpsv3test.Daemon) {
	t.Helper()
	d := mpsv3test.New(mpstest.Options{PipeDirectory: mpsv3.DefaultPipeRoot})
	c, err := mps.NewClient(mps.Options{Runner: d, PipeDirectory: mpsv3.DefaultPipeRoot})
	if err != nil {
		t.Fatal(err)
	}
	return mpsv3.NewClient(c), c, d
}

func TestClient(t *testing.T) {
	ctx := t.Context()
	c, _, d := newClient(t)
	uuid := d.GPUs()[0].UUID
	s, err := c.CreateServer(ctx, "training", mpsv3.ServerOptions{UID: mps.Some(1000), AllowedDevices: []string{uuid}, Devices: []string{uuid}})
	want := mpsv3.Server{Name: "training", UID: 1000, PID: s.PID, Status: "Ready", PipeDirectory: "/run/nvidia-mps/training", AllowedDevices: []string{uuid}}
	if diff := cmp.Diff(want, s); err != nil || diff != "" {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := c.CreateServer(ctx, "training", mpsv3.ServerOptions{}); !errors.Is(err, mps.ErrServerExists) {
		t.Errorf("twice: %v", err)
	}
	if err := c.SetServer(ctx, "training", mpsv3.Limits{PinnedMemLimit: 8 * gib, ActiveThreadPercentage: 50, Priority: mps.PriorityNormal}); err != nil {
		t.Error(err)
	}
	n, err := c.CreateNamespace(ctx, "training", "low", mpsv3.Limits{PinnedMemLimit: 4 * gib})
	if err != nil || n.PinnedMemLimit.Value != 4*gib || n.ActiveThreadPercentage.Known || n.PipeDirectory != "/run/nvidia-mps/training/low" {
		t.Errorf("%+v, %v", n, err)
	}
	pid, err := d.Connect("training", "low", mpstest.Process{Command: "python a,b.py"})
	if err != nil {
		t.Fatal(err)
	}
	clients, err := c.Clients(ctx, "training")
	if diff := cmp.Diff([]mpsv3.Process{{PID: pid, Server: "training", Device: "0", Namespace: "low", Command: "python a,b.py"}}, clients); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := c.TerminateClient(ctx, pid); err != nil {
		t.Error(err)
	}
	devs, err := c.Devices(ctx, "")
	if err != nil || len(devs) != 1 || devs[0].TotalSMs != 132 || devs[0].TotalChunks != 16 {
		t.Errorf("%+v, %v", devs, err)
	}
	p, err := c.CreatePartition(ctx, "training", mpsv3.PartitionSpec{Name: "large", Device: uuid, Chunks: 4, IncludeRemainder: true})
	if err != nil || p.SMs != 36 || !p.ID.Valid() || p.Status != "created" {
		t.Errorf("%+v, %v", p, err)
	}
	parts, err := c.Partitions(ctx, "")
	if err != nil || len(parts) != 2 || parts[1].Name != "" || parts[1].Status != "unallocated" || parts[1].Chunks != 12 {
		t.Errorf("%+v, %v", parts, err)
	}
	for _, err := range []error{c.DeletePartition(ctx, "training", uuid, "large"), c.DeleteNamespace(ctx, "training", "low"), c.ForceDeleteServer(ctx, "training"), c.Quit(ctx)} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Servers(ctx); !errors.Is(err, mps.ErrNoDaemon) {
		t.Errorf("after quit: %v", err)
	}
}

func TestBadInput(t *testing.T) {
	ctx := t.Context()
	c, base, d := newClient(t)
	uuid := d.GPUs()[0].UUID
	for name, err := range map[string]error{
		"name":    func() error { _, err := c.CreateServer(ctx, "Training", mpsv3.ServerOptions{}); return err }(),
		"newline": c.ForceDeleteServer(ctx, "a\nquit"),
		"absent": func() error {
			_, err := c.CreateServer(ctx, "a", mpsv3.ServerOptions{AllowedDevices: []string{"GPU-beef"}, Devices: []string{uuid}})
			return err
		}(),
		"nothing": c.SetServer(ctx, "a", mpsv3.Limits{}),
		"percent": c.SetNamespace(ctx, "a", "b", mpsv3.Limits{ActiveThreadPercentage: 101}),
		"limit":   c.SetNamespace(ctx, "a", "b", mpsv3.Limits{PinnedMemLimit: 5}),
		"partition": func() error {
			_, err := c.CreatePartition(ctx, "a", mpsv3.PartitionSpec{Name: "x", Device: "0"})
			return err
		}(),
		"pid": c.TerminateClient(ctx, 0),
	} {
		if !errors.Is(err, mps.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if cmds := d.Commands(); len(cmds) != 0 {
		t.Errorf("sent %q", cmds)
	}
	if s, err := base.Probe(ctx); err != nil || s.Protocol != mps.ProtocolV3 || s.ProtocolV3.Answer != sharing.AnswerYes {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestServers(t *testing.T) {
	ask := func(answer string) ([]mpsv3.Server, error) {
		c, err := mps.NewClient(mps.Options{Runner: answers(answer)})
		if err != nil {
			t.Fatal(err)
		}
		return mpsv3.NewClient(c).Servers(t.Context())
	}
	got, err := ask("training,1000,48201,Ready,/run/nvidia-mps/training,GPU-abcd-1234,-\nb,0,-,Stopped,/p,GPU-1,GPU-2,7\n")
	want := []mpsv3.Server{
		{Name: "training", UID: 1000, PID: 48201, Status: "Ready", PipeDirectory: "/run/nvidia-mps/training", AllowedDevices: []string{"GPU-abcd-1234"}},
		{Name: "b", Status: "Stopped", PipeDirectory: "/p", AllowedDevices: []string{"GPU-1", "GPU-2"}, ContextIDs: "7"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{"x", "training,1000,48201,Ready,/p,GPU-1", "T,1,2,Ready,/p,-,-", "t,x,2,Ready,/p,-,-", "t,1,x,Ready,/p,-,-", "t,1,2,Ready,/p,??,-"} {
		if got, err := ask(bad); !errors.Is(err, mps.ErrGarbled) || got != nil {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}

// answers is a Runner whose every answer is the same.
type answers string

func (a answers) Run(context.Context, mps.Invocation) (mps.Output, error) {
	return mps.Output{Stdout: string(a)}, nil
}

// FuzzAnswers feeds every list command: rows or ErrGarbled or a refusal, never
// both.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{"training,1000,48201,Ready,/run/nvidia-mps/training,GPU-abcd-1234,-\n", "a,b,Ready,4G,50,0,/p\n", "1,a,0,b,python \"a,b\"\n",
		"0,-,00:06.0,GPU-1,NVIDIA H200,132,16,-\n", "a,GPU-1,-,12,96,-,unallocated,-\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		base, err := mps.NewClient(mps.Options{Runner: answers(text)})
		if err != nil {
			t.Fatal(err)
		}
		c, ctx := mpsv3.NewClient(base), t.Context()
		for name, f := range map[string]func() (int, error){
			"servers":    func() (int, error) { l, err := c.Servers(ctx); return len(l), err },
			"namespaces": func() (int, error) { l, err := c.Namespaces(ctx, ""); return len(l), err },
			"clients":    func() (int, error) { l, err := c.Clients(ctx, ""); return len(l), err },
			"devices":    func() (int, error) { l, err := c.Devices(ctx, ""); return len(l), err },
			"partitions": func() (int, error) { l, err := c.Partitions(ctx, ""); return len(l), err },
		} {
			n, err := f()
			if err != nil && (n != 0 || len(err.Error()) > 1000 || !errors.Is(err, mps.ErrGarbled) && !errors.Is(err, mps.ErrRejected)) {
				t.Errorf("%s: %d rows with error %v", name, n, err)
			}
		}
	})
}

func TestClientEnvironment(t *testing.T) {
	env := mpsv3.ClientEnvironment{ClientEnvironment: mps.ClientEnvironment{PipeDirectory: "/run/nvidia-mps"}, Server: "training", Namespace: "low"}
	want := []string{"CUDA_MPS_PIPE_DIRECTORY=/run/nvidia-mps/training/low"}
	if got, err := env.Build(); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := env.Environ([]string{"A=1", mps.EnvThreads + "=50"}); err != nil || !slices.Equal(got, append([]string{"A=1"}, want...)) {
		t.Errorf("%v, %v", got, err)
	}
	for name, c := range map[string]struct {
		change func(*mpsv3.ClientEnvironment)
		want   string
	}{
		"percentage": {func(e *mpsv3.ClientEnvironment) { e.ActiveThreadPercentage = 50 }, "overrides the client's"},
		"no server":  {func(e *mpsv3.ClientEnvironment) { e.Server = "" }, "name its Server"},
		"name":       {func(e *mpsv3.ClientEnvironment) { e.Namespace = "../x" }, "is no name"},
		"pipe":       {func(e *mpsv3.ClientEnvironment) { e.PipeDirectory = "x" }, "relative"},
	} {
		bad := env
		c.change(&bad)
		if got, err := bad.Build(); !errors.Is(err, mps.ErrInvalid) || !strings.Contains(err.Error(), c.want) || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestSetupTOML(t *testing.T) {
	setup := mpsv3.Setup{
		Servers: []mpsv3.ServerSetup{
			{
				Name: "training", UID: mps.Some(1000), AllowedDevices: []string{"GPU-abcd-1234", "GPU-efgh-5678"},
				Limits:     mpsv3.Limits{PinnedMemLimit: 10 * gib, ActiveThreadPercentage: 50, Priority: mps.PriorityNormal},
				Namespaces: []mpsv3.NamespaceSetup{{Name: "low", Limits: mpsv3.Limits{PinnedMemLimit: 1536 * sharing.MiB, ActiveThreadPercentage: 25, Priority: mps.PriorityBelowNormal}}},
				Partitions: []mpsv3.PartitionSpec{{Name: "large", Device: "GPU-abcd-1234", Chunks: 4}, {Name: "rest", Device: "GPU-abcd-1234", Chunks: 2, IncludeRemainder: true}, {Name: "large", Device: "GPU-efgh-5678", Chunks: 1}},
			},
			{Name: "dies", LocalityDomains: true},
		},
		MemAcct: mps.Some(true), AuditLog: mps.Some(true), ContextShare: mps.Some(false),
	}
	b, err := setup.TOML()
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/setup.toml", b)

	setup.Servers[0].Namespaces[0].Limits.PinnedMemLimit = 0
	setup.Servers[0].LocalityDomains = true
	setup.Servers[1].Name = "training"
	_, err = setup.TOML()
	for _, want := range []string{"Servers[0].Namespaces[0].Limits.PinnedMemLimit", "exclude each other", "used twice"} {
		if !errors.Is(err, mps.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if _, err := (mpsv3.Setup{}).TOML(); !errors.Is(err, mps.ErrInvalid) {
		t.Error(err)
	}
}

// TestNamesOfTenants lets a tenant choose what its program is called: the others
// stay listed, with their own names.
func TestNamesOfTenants(t *testing.T) {
	for _, hostile := range []string{"already exists", "a\nb", "\x1b[2J", "Server not found", `"`, `a"b,"c`, "x\n1,2", "bad\xff", " "} {
		c, _, d := newClient(t)
		if _, err := c.CreateServer(t.Context(), "serving", mpsv3.ServerOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{hostile, "./after"} {
			if _, err := d.Connect("serving", "default", mpstest.Process{Command: name}); err != nil {
				t.Fatal(err)
			}
		}
		ps, err := c.Clients(t.Context(), "serving")
		if err != nil || len(ps) != 2 || ps[1].Command != "./after" || strings.ContainsFunc(ps[0].Command, func(r rune) bool { return r < ' ' }) {
			t.Errorf("%q: %q, %v", hostile, ps, err)
		}
	}
}
