// SPDX-License-Identifier: Apache-2.0

package timeslice

import (
	"encoding/csv"
	"os"
	"strconv"
	"testing"
	"time"
)

// TestH200 holds the built-in scheduler to the recorded probe: its quantum and
// switch are the means of the runs with 2 and 4 tenants.
func TestH200(t *testing.T) {
	f, err := os.Open("testdata/h200-quantum.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	mean := func(column int) time.Duration {
		var sum float64
		for _, row := range rows[1:] {
			v, err := strconv.ParseFloat(row[column], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
		return time.Duration(sum / 2 * 1e3).Round(time.Nanosecond)
	}
	if s := H200(); s.Quantum != mean(1) || s.Switch != mean(4) {
		t.Errorf("quantum %v, switch %v; the probe gives %v and %v", s.Quantum, s.Switch, mean(1), mean(4))
	}
}
