// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// TestClientLimits: a lack of this machine's own resources is not counted as the server's fault, and makes the run invalid.
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
			Name: "t", Prompts: Texts("x"), Requests: 4, Load: OfferedLoad{Concurrency: 2}, Retries: 3,
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
