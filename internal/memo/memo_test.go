package memo_test

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cotenant/cotenant/internal/memo"
	"github.com/google/go-cmp/cmp"
)

// TestTable: a value is computed once for all who ask, an error is not kept, and a full table begins anew.
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

// TestAhead: each result is computed once, on one core only what is asked for, and none is begun after the end.
func TestAhead(t *testing.T) {
	for _, cores := range []int{1, 4} {
		before := runtime.GOMAXPROCS(cores)
		var computed atomic.Int64
		get, end := memo.Ahead(100, func(i int) (int, error) { computed.Add(1); return i * i, nil })
		var got []int
		for _, i := range []int{3, 0, 3, 7} {
			v, err := get(i)
			if err != nil {
				t.Error(err)
			}
			got = append(got, v)
		}
		end()
		runtime.GOMAXPROCS(before)
		if d := cmp.Diff([]int{9, 0, 9, 49}, got); d != "" {
			t.Error(d)
		}
		if n := computed.Load(); n < 3 || n > 100 || cores == 1 && n != 3 {
			t.Errorf("%d cores computed %d results", cores, n)
		}
	}
}
