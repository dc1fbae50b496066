// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"fmt"
	"log"
	"testing/fstest"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
)

// web is a container of which process 10 is one.
var web = container.Pod{Namespace: "shop", Name: "web", Container: "c"}

// host holds the files of /proc and /var for that.
func host() fstest.MapFS {
	id := "3f2a9c0d1e4b5a69788796a5b4c3d2e1f00112233445566778899aabbccddeef"
	return fstest.MapFS{
		"proc/10/stat":   {Data: []byte("10 (serve) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0")},
		"proc/10/cgroup": {Data: []byte("0::/kubepods/podfecd2321-17b5-49b9-9f75-8c5be777fbfb/" + id)},
		"var/log/containers/web_shop_c-" + id + ".log": {},
	}
}

// tenSeconds gives an accountant the readings that a telemetry.Sampler makes of a GPU in ten seconds: these processes are
// on it, and it is busy for 60% of the time if there are any.
func tenSeconds(a *ledger.Accountant, now *time.Duration, processes ...telemetry.Process) {
	for range 10 {
		*now += time.Second
		x := telemetry.Sample{Groups: telemetry.GroupsFast, Reading: telemetry.Reading{Processes: processes}}
		x.Set(telemetry.MetricGPUUtilPercent, float64(60*min(1, len(processes))))
		_ = a.Sample(&x)
	}
	_ = a.Sample(&telemetry.Sample{Groups: telemetry.GroupProcessUtil, Reading: telemetry.Reading{Processes: processes}})
}

var (
	serve = telemetry.Process{PID: 10, SMUtilPercent: sharing.Some(60.0)}
	gpu   = telemetry.Header{Devices: []telemetry.Device{{UUID: "GPU-1", Name: "H100", MIG: sharing.AnswerNo}}}
)

// Ten seconds of a GPU on which one container's process runs.
func Example() {
	now := time.Duration(0)
	a := ledger.New(ledger.Options{
		Clock:    ledger.Clock{Name: "boot", Now: func() time.Duration { return now }},
		Resolver: container.NewResolver(host()), Basis: sharing.BasisMeasured, Fast: time.Second, Slow: 10 * time.Second,
	})
	if err := a.Begin(gpu); err != nil {
		log.Fatal(err)
	}
	tenSeconds(a, &now, serve)
	for _, r := range a.View().Rows {
		fmt.Println(r.Account, r.Namespace, r.Name, r.Time)
	}
	// Output:
	// tenant shop web 6s
	// execution-idle shop web 4s
}

// The accounts go on where another run of the program left them: the stored records of Changes are given to New. The
// minute between the two is unattributed, as is the time up to the first costly reading.
func ExampleAccountant_Changes() {
	now := time.Duration(0)
	options := ledger.Options{
		Clock:    ledger.Clock{Name: "boot", Now: func() time.Duration { return now }},
		Resolver: container.NewResolver(host()), Basis: sharing.BasisMeasured, Fast: time.Second, Slow: 10 * time.Second,
	}
	for range 2 {
		a := ledger.New(options)
		if err := a.Begin(gpu); err != nil {
			log.Fatal(err)
		}
		tenSeconds(a, &now, serve)
		tenSeconds(a, &now, serve)
		a.Finish()
		_, records, view, err := a.Changes()
		if err != nil {
			log.Fatal(err)
		}
		options.Records = append(options.Records, records...)
		for _, r := range view.Rows {
			fmt.Println(now, r.Account, r.Name, r.Time)
		}
		now += time.Minute
	}
	// Output:
	// 20s tenant web 12s
	// 20s execution-idle web 8s
	// 1m40s unattributed  1m10s
	// 1m40s tenant web 18s
	// 1m40s execution-idle web 12s
}

// kubelet reports that a container was given the GPU.
type kubelet struct{ asked func() }

func (k kubelet) Allocations(context.Context) ([]container.Allocation, error) {
	return []container.Allocation{{Pod: web, Devices: []container.Device{{UUID: "GPU-1"}}}}, nil
}

func (k kubelet) Slots(context.Context) (map[container.Device]int, error) {
	k.asked()
	return map[container.Device]int{{UUID: "GPU-1"}: 1}, nil
}

// A pod that was given a GPU and does not use it pays for it too.
func ExampleAllocator() {
	price, err := cost.ParsePrice("3.60 USD")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	now := time.Duration(0)
	a := ledger.New(ledger.Options{
		Clock:    ledger.Clock{Name: "boot", Now: func() time.Duration { return now }},
		Resolver: container.NewResolver(host()), Kubelet: kubelet{cancel},
		Price: func(uuid, name string) cost.Money { return price },
		Basis: sharing.BasisMeasured, Fast: time.Second, Slow: 10 * time.Second,
	})
	if err := a.Begin(gpu); err != nil {
		log.Fatal(err)
	}
	a.Watch(ctx, time.Minute) // a program runs it in a goroutine, next to the sampler
	tenSeconds(a, &now)
	for _, r := range a.View().Rows {
		fmt.Printf("%v %s %v: %.4f USD\n", r.Account, r.Name, r.Time, float64(r.Micros)/1e6)
	}
	// Output:
	// held-idle web 10s: 0.0100 USD
}

// Under MPS the driver sees one server: tokens served narrow the bounds.
func ExampleDivide() {
	a, b := container.Pod{Name: "a"}, container.Pod{Name: "b"}
	parts, _ := ledger.Divide(ledger.Window{
		Length: time.Minute, Mechanism: sharing.MechanismMPS, Busy: sharing.Some(1.0),
		Claims: []ledger.Claim{
			{Pod: a, Resident: true, Tokens: sharing.Some(9000.0)},
			{Pod: b, Resident: true, Tokens: sharing.Some(3000.0)},
		},
	})
	for _, p := range parts {
		fmt.Println(p.Pod.Name, p.Time, "between", p.Low.Round(time.Second), "and", p.High.Round(time.Second), p.Basis)
	}
	// Output:
	// a 45s between 16s and 58s derived
	// b 15s between 2s and 44s derived
}

// The bill of three tenants for an hour of a GPU under MPS. A tenth had no holder, and the MPS server took 2%.
func ExampleNewBill() {
	price, _ := cost.ParsePrice("3.50 USD")
	w := ledger.Window{Length: time.Hour, Mechanism: sharing.MechanismMPS, Busy: sharing.Some(0.62), Slots: 10, Claims: []ledger.Claim{
		{Pod: container.Pod{Namespace: "ads"}, Held: 4, Resident: true, Tokens: sharing.Some(3e6)},
		{Pod: container.Pod{Namespace: "chat"}, Held: 3, Resident: true, Tokens: sharing.Some(1e6)},
		{Pod: container.Pod{Namespace: "lab"}, Held: 2},
		{Overhead: true, Resident: true, Busy: sharing.Some(0.02)},
	}}
	totals, err := ledger.TotalsOf("GPU-1", w, price)
	if err != nil {
		log.Fatal(err)
	}
	for _, policy := range []string{"own-row", "by-holding"} {
		bill, err := ledger.NewBill(totals, policy)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(bill)
	}
	// Output:
	// idle time: own-row
	// namespace                   GPU hours        kWh         cost
	// ads                             0.602      0.000       2.1070
	// chat                            0.264      0.000       0.9240
	// lab                             0.076      0.000       0.2660
	// (idle)                          0.038      0.000       0.1330
	// (system)                        0.020      0.000       0.0700
	// idle time: by-holding
	// namespace                   GPU hours        kWh         cost
	// ads                             0.626      0.000       2.1920
	// chat                            0.275      0.000       0.9613
	// lab                             0.079      0.000       0.2767
	// (system)                        0.020      0.000       0.0700
}
