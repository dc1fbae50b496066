// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/discover"
)

var large = flag.Int("large", 24, "MiB of pods that TestLarge reads")

// TestLarge reads many pods, one in ten with a GPU, and bounds the memory by the number of pods with GPUs: it does not
// grow with the file. With -large=500 it took 10 MiB.
func TestLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a large file")
	}
	filler := strings.Repeat(`{"name":"A_VARIABLE","value":"something that nobody reads"},`, 90)
	r, w := io.Pipe()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	pods, before, peak := 0, heap(), uint64(0) // the pipe's end orders the writer's last access before the reader's
	go func() {
		fmt.Fprint(w, `{"apiVersion":"v1","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"nvidia.com/gpu.product":"NVIDIA-L4-SHARED","nvidia.com/gpu.count":"1000","nvidia.com/gpu.replicas":"100"}},"status":{"capacity":{"nvidia.com/gpu":"100000"}}}`)
		for written := 0; written < *large<<20; pods++ {
			if pods%500 == 0 { // the reader has all pods but the last few
				peak = max(peak, heap())
			}
			limits := "{}"
			if pods%10 == 0 {
				limits = `{"nvidia.com/gpu":"1"}`
			}
			n, err := fmt.Fprintf(w, `,{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p-%d","namespace":"ns-%d","uid":"u-%d","labels":{"pod-template-hash":"5d8f7c9b6d"},
				"ownerReferences":[{"kind":"ReplicaSet","name":"web-5d8f7c9b6d","controller":true}]},"spec":{"nodeName":"n","containers":[{"image":"i","env":[%s{"name":"Z","value":"z"}],"resources":{"limits":%s}}]},"status":{"phase":"Running"}}`,
				pods, pods%50, pods, filler, limits)
			if err != nil {
				return
			}
			written += n
		}
		fmt.Fprint(w, `],"kind":"List"}`)
		w.Close()
	}()
	c := discover.New(discover.Options{})
	if err := c.Read("pods.json", r); err != nil {
		t.Fatal(err)
	}
	tenants := 0
	for _, s := range c.Discover().Today {
		tenants += s.Tenants
	}
	if want := (pods + 9) / 10; tenants != want {
		t.Errorf("%d of %d pods with GPUs", tenants, want)
	}
	above := int64(peak) - int64(before)
	if limit := int64(32<<20) + int64(pods/10)*4096; above > limit {
		t.Errorf("%d MiB on the heap, at most %d", above>>20, limit>>20)
	}
}

// FuzzRead: any input gives a discovery that can be written, and a fleet that is
// read again where it has pools and workloads.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"", "{}", "[]", "null", `{"kind":"List","items":null}`, `{"kind":"List","items":[{}]}`, `{"kind":"Pod"}`, "index, name\n0, NVIDIA L4\n", samples,
		`{"kind":"List","items":[{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","labels":{"nvidia.com/gpu.product":"NVIDIA-A100-SXM4-80GB-MIG-1g.10gb","nvidia.com/gpu.count":"-1"}},"status":{"capacity":{"nvidia.com/gpu":"9e9"}}}]}`,
		`{"kind":"List","items":[{"kind":"Node","apiVersion":"v1","metadata":{"name":"n/../x","annotations":{"hami.io/node-nvidia-register":"a,1,2,3,NVIDIA L4,0,true:"}},"status":{"capacity":{"nvidia.com/gpu":"7"}}},{"kind":"Pod","apiVersion":"v1","metadata":{"name":"..","namespace":"--"},"spec":{"nodeName":"n/../x","containers":[{"resources":{"limits":{"nvidia.com/gpu":1,"nvidia.com/gpumem":-5}}}]}}]}`,
		objects,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := discover.New(discover.Options{})
		_ = c.Read("file", strings.NewReader(s))
		d := c.Discover()
		var fleet, text strings.Builder
		if err := d.WriteFleet(&fleet); err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(io.Discard).Encode(d); err != nil {
			t.Fatal(err)
		}
		if err := d.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if len(d.Fleet.Pools) > 0 && len(d.Fleet.Workloads) > 0 {
			if err := d.Fleet.Validate(); err != nil {
				t.Fatalf("%v\n%s", err, fleet.String())
			}
		}
	})
}
