// Package memo keeps results that are asked for again and again.
package memo

import "sync"

// Table holds values by key; the zero Table is empty. A table that is full begins anew. It is safe for concurrent use,
// and a nil one keeps nothing.
type Table[K comparable, V any] struct {
	mu   sync.Mutex
	kept map[K]V
}

// Get returns the value of a key, and whether there is one.
func (t *Table[K, V]) Get(key K) (v V, ok bool) {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		v, ok = t.kept[key]
	}
	return v, ok
}

// Put keeps a value in a table of at most so many.
func (t *Table[K, V]) Put(key K, v V, most int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil || len(t.kept) >= most {
		t.kept = map[K]V{}
	}
	t.kept[key] = v
}
