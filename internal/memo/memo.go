// Package memo keeps results that are asked for again and again, and computes some before they are asked for.
package memo

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Table holds values by key; the zero Table is empty. A table that is full begins anew. It is safe for concurrent use,
// and a nil one keeps nothing.
type Table[K comparable, V any] struct {
	mu   sync.Mutex
	kept map[K]func() (V, error)
}

// Of returns the value of a key, in a table of at most so many. Where there is none f computes it, once for all who
// ask; with an error it is not kept.
func (t *Table[K, V]) Of(key K, most int, f func() (V, error)) (V, error) {
	if t == nil {
		return f()
	}
	t.mu.Lock()
	value, ok := t.kept[key]
	if !ok {
		if value = sync.OnceValues(f); t.kept == nil || len(t.kept) >= most {
			t.kept = map[K]func() (V, error){}
		}
		t.kept[key] = value
	}
	t.mu.Unlock()
	v, err := value()
	if err != nil {
		t.mu.Lock()
		delete(t.kept, key)
		t.mu.Unlock()
	}
	return v, err
}

// Ahead returns the results of f for 0 to n-1, each computed once: when it is asked for, and where there are other
// cores also before that, in order. f must not depend on what was asked; end waits for what is under way.
func Ahead[T any](n int, f func(i int) (T, error)) (get func(i int) (T, error), end func()) {
	results := make([]func() (T, error), n)
	for i := range results {
		results[i] = sync.OnceValues(func() (T, error) { return f(i) })
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for k, cores := 0, runtime.GOMAXPROCS(0); cores > 1 && n > 1 && k < min(n, cores); k++ {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				results[i-1]()
			}
		})
	}
	get = func(i int) (T, error) { return results[i]() }
	return get, func() { next.Store(int64(n)); workers.Wait() }
}
