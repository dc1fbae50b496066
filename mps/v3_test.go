package mps_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/sharing"
)

func newV3(t testing.TB) (*mps.ClientV3, *mpstest.Daemon) {
	t.Helper()
	d := mpstest.New(mpstest.Options{Protocol: mps.ProtocolV3, PipeDirectory: "/run/nvidia-mps"})
	c, err := mps.NewClientV3(mps.Options{Runner: d, PipeDirectory: "/run/nvidia-mps"})
	if err != nil {
		t.Fatal(err)
	}
	return c, d
}

func TestV3(t *testing.T) {
	ctx := t.Context()
	c, d := newV3(t)
	uuid := d.GPUs()[0].UUID
	s, err := c.CreateServer(ctx, "training", mps.ServerOptions{UID: 1000, AllowedDevices: []string{uuid}, Devices: []string{uuid}})
	want := mps.ServerV3{Name: "training", UID: 1000, PID: s.PID, Status: "Ready", PipeDirectory: "/run/nvidia-mps/training", AllowedDevices: []string{uuid}}
	if diff := cmp.Diff(want, s); err != nil || diff != "" {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := c.CreateServer(ctx, "training", mps.ServerOptions{UID: -1}); !errors.Is(err, mps.ErrServerExists) {
		t.Errorf("twice: %v", err)
	}
	if err := c.SetServer(ctx, "training", mps.NamespaceLimits{PinnedMemLimit: 8 * gib, ActiveThreadPercentage: 50, Priority: mps.PriorityNormal}); err != nil {
		t.Error(err)
	}
	n, err := c.CreateNamespace(ctx, "training", "low", mps.NamespaceLimits{PinnedMemLimit: 4 * gib})
	if err != nil || n.PinnedMemLimit.Value != 4*gib || n.ActiveThreadPercentage.Known || n.PipeDirectory != "/run/nvidia-mps/training/low" {
		t.Errorf("%+v, %v", n, err)
	}
	pid, err := d.ConnectV3("training", "low", mpstest.Process{Command: "python a,b.py"})
	if err != nil {
		t.Fatal(err)
	}
	clients, err := c.Clients(ctx, "training")
	if diff := cmp.Diff([]mps.ClientInfoV3{{PID: pid, Server: "training", Device: "0", Namespace: "low", Command: "python a,b.py"}}, clients); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := c.TerminateClient(ctx, pid); err != nil {
		t.Error(err)
	}
	devs, err := c.Devices(ctx, "")
	if err != nil || len(devs) != 1 || devs[0].TotalSMs != 132 || devs[0].TotalChunks != 16 {
		t.Errorf("%+v, %v", devs, err)
	}
	p, err := c.CreatePartition(ctx, "training", mps.PartitionSpec{Name: "large", Device: uuid, Chunks: 4, IncludeRemainder: true})
	if err != nil || p.SMs != 36 || !p.ID.Valid() || p.Status != "created" {
		t.Errorf("%+v, %v", p, err)
	}
	parts, err := c.Partitions(ctx, "")
	if err != nil || len(parts) != 2 || parts[1].Name != "" || parts[1].Status != "unallocated" || parts[1].Chunks != 12 {
		t.Errorf("%+v, %v", parts, err)
	}
	for _, err := range []error{c.DeletePartition(ctx, "training", uuid, "large"), c.DeleteNamespace(ctx, "training", "low", false), c.DeleteServer(ctx, "training", true), c.Quit(ctx)} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Servers(ctx); !errors.Is(err, mps.ErrNoDaemon) {
		t.Errorf("after quit: %v", err)
	}
}

func TestV3BadInput(t *testing.T) {
	ctx := t.Context()
	c, d := newV3(t)
	uuid := d.GPUs()[0].UUID
	for name, err := range map[string]error{
		"name":    func() error { _, err := c.CreateServer(ctx, "Training", mps.ServerOptions{}); return err }(),
		"newline": c.DeleteServer(ctx, "a\nquit", true),
		"absent": func() error {
			_, err := c.CreateServer(ctx, "a", mps.ServerOptions{AllowedDevices: []string{"GPU-beef"}, Devices: []string{uuid}})
			return err
		}(),
		"nothing": c.SetServer(ctx, "a", mps.NamespaceLimits{}),
		"percent": c.SetNamespace(ctx, "a", "b", mps.NamespaceLimits{ActiveThreadPercentage: 101}),
		"limit":   c.SetNamespace(ctx, "a", "b", mps.NamespaceLimits{PinnedMemLimit: 5}),
		"partition": func() error {
			_, err := c.CreatePartition(ctx, "a", mps.PartitionSpec{Name: "x", Device: "0"})
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
	if s, err := newClientAt(t, d, "/run/nvidia-mps").Probe(ctx); err != nil || s.Protocol != mps.ProtocolV3 || s.ProtocolV3.Answer != sharing.AnswerYes {
		t.Errorf("%+v, %v", s, err)
	}
}

func newClientAt(t testing.TB, d *mpstest.Daemon, pipe string) *mps.Client {
	t.Helper()
	c, err := mps.NewClient(mps.Options{Runner: d, PipeDirectory: pipe})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParseServersV3(t *testing.T) {
	got, err := mps.ParseServersV3("training,1000,48201,Ready,/run/nvidia-mps/training,GPU-abcd-1234,-\nb,0,-,Stopped,/p,GPU-1,GPU-2,7\n")
	want := []mps.ServerV3{
		{Name: "training", UID: 1000, PID: 48201, Status: "Ready", PipeDirectory: "/run/nvidia-mps/training", AllowedDevices: []string{"GPU-abcd-1234"}},
		{Name: "b", Status: "Stopped", PipeDirectory: "/p", AllowedDevices: []string{"GPU-1", "GPU-2"}, ContextIDs: "7"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{"x", "training,1000,48201,Ready,/p,GPU-1", "T,1,2,Ready,/p,-,-", "t,x,2,Ready,/p,-,-", "t,1,x,Ready,/p,-,-", "t,1,2,Ready,/p,??,-"} {
		if got, err := mps.ParseServersV3(bad); !errors.Is(err, mps.ErrGarbled) || got != nil {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}

func TestSetupTOML(t *testing.T) {
	yes, uid := true, 1000
	setup := mps.Setup{
		Servers: []mps.ServerSetup{
			{
				Name: "training", UID: &uid, AllowedDevices: []string{"GPU-abcd-1234", "GPU-efgh-5678"},
				Limits:     mps.NamespaceLimits{PinnedMemLimit: 10 * gib, ActiveThreadPercentage: 50, Priority: mps.PriorityNormal},
				Namespaces: []mps.NamespaceSetup{{Name: "low", Limits: mps.NamespaceLimits{PinnedMemLimit: 1536 * sharing.MiB, ActiveThreadPercentage: 25, Priority: mps.PriorityBelowNormal}}},
				Partitions: []mps.PartitionSpec{{Name: "large", Device: "GPU-abcd-1234", Chunks: 4}, {Name: "rest", Device: "GPU-abcd-1234", Chunks: 2, IncludeRemainder: true}, {Name: "large", Device: "GPU-efgh-5678", Chunks: 1}},
			},
			{Name: "dies", LocalityDomains: true},
		},
		MemAcct: &yes, AuditLog: &yes, ContextShare: new(bool),
	}
	b, err := setup.TOML()
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/v3-setup.toml", b)

	setup.Servers[0].Namespaces[0].Limits.PinnedMemLimit = 0
	setup.Servers[0].LocalityDomains = true
	setup.Servers[1].Name = "training"
	_, err = setup.TOML()
	for _, want := range []string{"Servers[0].Namespaces[0].Limits.PinnedMemLimit", "exclude each other", "used twice"} {
		if !errors.Is(err, mps.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if _, err := (mps.Setup{}).TOML(); !errors.Is(err, mps.ErrInvalid) {
		t.Error(err)
	}
}

func TestClientEnvironment(t *testing.T) {
	gpus := []mps.GPU{mpstest.H200(0).GPU}
	env := mps.ClientEnvironment{
		PipeDirectory: "/tmp/nvidia-mps", DaemonPipeDirectory: "/tmp/nvidia-mps", GPUs: gpus, VisibleDevices: []string{gpus[0].UUID},
		ActiveThreadPercentage: 33.3334, PinnedMemLimits: []mps.DeviceLimit{{Device: "0", Limit: 1536 * sharing.MiB}},
		Priority: mps.PriorityBelowNormal, MaxConnections: 4, PerContextPartitioning: true,
	}
	got, err := env.Environ([]string{"HOME=/home/u", mps.EnvThreads + "=100", mps.EnvPartition + "=GPU-1/x", mps.EnvVisibleDevices + "=1,2"})
	want := []string{"HOME=/home/u", "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps", "CUDA_VISIBLE_DEVICES=" + gpus[0].UUID, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=33.3334",
		"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1536M", "CUDA_MPS_CLIENT_PRIORITY=1", "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING=1", "CUDA_DEVICE_MAX_CONNECTIONS=4"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	back, err := mps.ParseClientEnvironment(got)
	back.GPUs, back.DaemonPipeDirectory = env.GPUs, env.DaemonPipeDirectory
	if diff := cmp.Diff(env, back); err != nil || diff != "" {
		t.Errorf("round trip: %v (-want +got):\n%s", err, diff)
	}
	v3, err := mps.ClientEnvironment{Protocol: mps.ProtocolV3, PipeDirectory: "/run/nvidia-mps", Server: "training", Namespace: "low"}.Build()
	if err != nil || !slices.Equal(v3, []string{"CUDA_MPS_PIPE_DIRECTORY=/run/nvidia-mps/training/low"}) {
		t.Errorf("%v, %v", v3, err)
	}
}

func TestClientEnvironmentTraps(t *testing.T) {
	one := []mps.GPU{mpstest.H200(0).GPU}
	trap, err := mps.ParsePinnedMemLimits("0=2G,1=4G")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env  mps.ClientEnvironment
		want string
	}{
		"invisible GPU":   {mps.ClientEnvironment{GPUs: one, PinnedMemLimits: trap}, "PinnedMemLimits[1].Device: the client does not see device \"1\""},
		"GPUs not known":  {mps.ClientEnvironment{PinnedMemLimits: trap[:1]}, "GPUs: memory limits cannot be checked"},
		"chosen away":     {mps.ClientEnvironment{GPUs: []mps.GPU{one[0], mpstest.H200(1).GPU}, VisibleDevices: []string{one[0].UUID}, PinnedMemLimits: trap}, "PinnedMemLimits[1].Device"},
		"twice":           {mps.ClientEnvironment{GPUs: one, PinnedMemLimits: []mps.DeviceLimit{{Device: "0", Limit: gib}, {Device: one[0].UUID, Limit: gib}}}, "last entry would win"},
		"above the GPU":   {mps.ClientEnvironment{GPUs: one, PinnedMemLimits: []mps.DeviceLimit{{Device: "0", Limit: 999 * gib}}}, "larger than the GPU"},
		"another daemon":  {mps.ClientEnvironment{DaemonPipeDirectory: "/run/mps"}, "would run without MPS"},
		"ordinals":        {mps.ClientEnvironment{VisibleDevices: []string{"0"}}, "renumbered"},
		"v3 percentage":   {mps.ClientEnvironment{Protocol: mps.ProtocolV3, Server: "a", Namespace: "b", ActiveThreadPercentage: 50}, "overrides the client's"},
		"v2 namespace":    {mps.ClientEnvironment{Server: "a"}, "under v3 only"},
		"static":          {mps.ClientEnvironment{Partition: "GPU-1/x", ActiveThreadPercentage: 50}, "ignored with a static SM partition"},
		"relative":        {mps.ClientEnvironment{PipeDirectory: "mps"}, "relative"},
		"newline":         {mps.ClientEnvironment{PipeDirectory: "/tmp/a\nLD_PRELOAD=x"}, "control characters"},
		"long":            {mps.ClientEnvironment{PipeDirectory: "/" + strings.Repeat("x", 100)}, "too long for a socket"},
		"percentage":      {mps.ClientEnvironment{ActiveThreadPercentage: 100.1}, "out of range"},
		"limit":           {mps.ClientEnvironment{GPUs: one, PinnedMemLimits: []mps.DeviceLimit{{Device: "0", Limit: -1}}}, "is no limit"},
		"max connections": {mps.ClientEnvironment{MaxConnections: 33}, "out of range"},
	} {
		env, err := c.env.Build()
		if !errors.Is(err, mps.ErrInvalid) || !strings.Contains(err.Error(), c.want) || env != nil {
			t.Errorf("%s: %v, %v", name, env, err)
		}
	}
	for _, bad := range []string{"", "0", "0=", "0=2T", "x=2G", "0=-2G", "0=2G,", "0=2G\n"} {
		if l, err := mps.ParsePinnedMemLimits(bad); bad != "0=2G\n" && (!errors.Is(err, mps.ErrInvalid) || l != nil) {
			t.Errorf("%q: %v, %v", bad, l, err)
		}
	}
	bad := []string{mps.EnvThreads + "=0", mps.EnvPinnedMemLimit + "=0=x", mps.EnvPriority + "=2", mps.EnvPartition + "=x", mps.EnvPerContext + "=yes", mps.EnvMaxConnections + "=99", mps.EnvProtocol + "=4"}
	_, err = mps.ParseClientEnvironment(bad)
	for _, kv := range bad {
		if key, _, _ := strings.Cut(kv, "="); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%v does not name %s", err, key)
		}
	}
}
