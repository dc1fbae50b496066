// SPDX-License-Identifier: Apache-2.0

// Package memo caches results.
package memo

import "sync"

// Table holds values by key; the zero Table is empty. A table that is full begins anew. It is safe for concurrent use,
// and a nil one keeps nothing.
type Table[K comparable, V any] struct {
	mu   sync.Mutex
	kept map[K]func() (V, error)
}

// Of returns the value of a key, in a table of at most so many. Where there is none f computes it, once for all that
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
