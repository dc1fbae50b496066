// SPDX-License-Identifier: Apache-2.0

package memo_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cotenant/cotenant/internal/memo"
)

// TestTable: a value is computed once for all that ask, an error is not kept, and a full table begins anew.
func TestTable(t *testing.T) {
	var table memo.Table[string, int]
	var computed atomic.Int64
	of := func(key string, err error) (int, error) {
		return table.Of(key, 2, func() (int, error) { return int(computed.Add(1)), err })
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if v, err := of("a", nil); v != 1 || err != nil {
				t.Errorf("%d, %v", v, err)
			}
		})
	}
	all.Wait()
	failed := errors.New("failed")
	for i, step := range []struct {
		key  string
		err  error
		want int
	}{{"b", failed, 2}, {"b", nil, 3}, {"b", failed, 3}, {"a", nil, 1}, {"c", nil, 4}, {"a", nil, 5}} {
		want := step.err
		if step.want == 3 {
			want = nil // it is kept
		}
		if v, err := of(step.key, step.err); v != step.want || !errors.Is(err, want) {
			t.Errorf("step %d: %d, %v", i, v, err)
		}
	}
	if v, err := (*memo.Table[string, int])(nil).Of("a", 2, func() (int, error) { return 7, nil }); v != 7 || err != nil {
		t.Errorf("of no table %d, %v", v, err)
	}
}
