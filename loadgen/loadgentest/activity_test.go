package loadgentest

import (
	"testing"
	"time"
)

func TestActivity(t *testing.T) {
	for _, tc := range []struct {
		mode                Sharing
		busy, sms, bw, till float64
	}{
		// 20 ms of work at 0.5 SMs and 0.8 bandwidth, 10 ms at 0.3 and 0.2.
		{SharingTimeSliced, 0.030, 0.013, 0.018, 0.100},
		{SharingConcurrent, 0.020, 0.013, 0.018, 0.100},
		{SharingConcurrent, 0.005, 0.004, 0.005, 0.005},
	} {
		c := newCore(tc.mode, 5*time.Millisecond, time.Millisecond)
		for _, k := range []kernel{{0.020, 0.5, 0.8}, {0.010, 0.3, 0.2}} {
			c.clients = append(c.clients, &coreClient{sm: 1, bw: 1, tasks: []*task{{kernels: []kernel{k}, done: make(chan struct{})}}})
		}
		c.advance(tc.till)
		for _, v := range []struct {
			name      string
			got, want float64
		}{{"busy", c.busy, tc.busy}, {"sms", c.smUse, tc.sms}, {"bandwidth", c.bwUse, tc.bw}} {
			if d := v.got - v.want; d > 1e-9 || d < -1e-9 {
				t.Errorf("%s until %v s: %s is %v s, want %v", tc.mode, tc.till, v.name, v.got, v.want)
			}
		}
	}
}
