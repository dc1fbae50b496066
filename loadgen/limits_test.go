package loadgen

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// TestClientLimits: what this machine has too little of is not the server's fault,
// and spoils the run.
func TestClientLimits(t *testing.T) {
	if len(clientLimitErrors) == 0 {
		t.Skip("this system has no such errors")
	}
	causes := []error{fmt.Errorf("lookup x: %s", "socket: too many open files")}
	for _, errno := range clientLimitErrors {
		causes = append(causes, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", errno)})
	}
	for _, cause := range causes {
		plan := LoadPlan{Tenants: []Tenant{{
			Name: "t", Prompts: Texts("x"), Requests: 4, Load: OfferedLoad{Concurrency: 2}, Retry: Retry{Max: 3},
			Endpoints: []Endpoint{{URL: "http://server", Dial: func(context.Context, string, string) (net.Conn, error) { return nil, cause }}},
		}}}
		res, err := Run(context.Background(), plan, Options{})
		if err != nil {
			t.Fatal(err)
		}
		h := res.Summary.ClientHealth
		if res.Summary.Counts.ByClass[ClassClientLimit] != 4 || res.Summary.Counts.Retries != 0 || h.Valid || h.ClientLimits != 4 {
			t.Errorf("%v: %+v, %+v", cause, res.Summary.Counts, h)
		}
		if r := strings.Join(h.Reasons, "; "); !strings.Contains(r, "4 requests failed for want of the client's own resources") || !strings.Contains(r, "ulimit -n") {
			t.Errorf("%s", r)
		}
	}
}

func TestCheckFiles(t *testing.T) {
	plan := func(change func(*Tenant)) *LoadPlan {
		tenant := Tenant{Name: "t", Load: OfferedLoad{Concurrency: 200}, Endpoints: []Endpoint{{URL: "http://h"}}}
		change(&tenant)
		return &LoadPlan{Tenants: []Tenant{tenant}}
	}
	for name, tc := range map[string]struct {
		change func(*Tenant)
		worker Worker
		limit  uint64
		fits   bool
	}{
		"too many users":   {func(*Tenant) {}, Worker{}, 64, false},
		"enough":           {func(*Tenant) {}, Worker{}, 256, true},
		"a worker's share": {func(*Tenant) {}, Worker{Count: 8}, 64, true},
		"few requests":     {func(t *Tenant) { t.Requests = 10 }, Worker{}, 64, true},
		"unbounded":        {func(t *Tenant) { t.Load = OfferedLoad{Schedule: Constant{PerS: 1}} }, Worker{}, 8, true},
		"own connections":  {func(t *Tenant) { t.Endpoints[0].Dial = (&net.Dialer{}).DialContext }, Worker{}, 64, true},
	} {
		err := checkFiles(plan(tc.change), tc.worker, tc.limit, 10)
		if (err == nil) != tc.fits {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "ulimit -n") {
			t.Errorf("%s: no remedy: %v", name, err)
		}
	}
}
