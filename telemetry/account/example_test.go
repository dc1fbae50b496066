package account_test

import (
	"fmt"
	"testing/fstest"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/account"
	"github.com/cotenant/cotenant/telemetry/container"
)

// Ten seconds of a GPU on which one container's process runs. A telemetry.Sampler
// gives the samples of a real one.
func Example() {
	id := "3f2a9c0d1e4b5a69788796a5b4c3d2e1f00112233445566778899aabbccddeef"
	host := fstest.MapFS{
		"proc/10/stat":   {Data: []byte("10 (serve) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0")},
		"proc/10/cgroup": {Data: []byte("0::/kubepods/podfecd2321-17b5-49b9-9f75-8c5be777fbfb/" + id)},
		"var/log/containers/web_shop_c-" + id + ".log": {},
	}
	now := time.Duration(0)
	a, err := account.New(account.Options{
		Clock:    account.Clock{Name: "boot", Now: func() time.Duration { return now }},
		Resolver: container.NewResolver(host), Basis: sharing.BasisMeasured, Fast: time.Second, Slow: 10 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = a.Begin(telemetry.Header{Devices: []telemetry.Device{{UUID: "GPU-1", Name: "H100", MIG: sharing.AnswerNo}}})
	for range 10 {
		now += time.Second
		x := telemetry.Sample{Groups: telemetry.GroupsFast, Reading: telemetry.Reading{Processes: []telemetry.Process{{PID: 10}}}}
		x.Set(telemetry.MetricGPUUtilPercent, 60)
		_ = a.Sample(&x)
	}
	_ = a.Sample(&telemetry.Sample{Groups: telemetry.GroupProcessUtil, Reading: telemetry.Reading{
		Processes: []telemetry.Process{{PID: 10, SMUtilPercent: telemetry.Some(60.0)}},
	}})
	for _, r := range a.View().Rows {
		fmt.Println(r.Account, r.Namespace, r.Name, r.Time)
	}
	// Output:
	// tenant shop web 6s
	// execution-idle shop web 4s
}
