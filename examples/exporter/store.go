// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/cotenant/cotenant/telemetry/ledger"
)

// store keeps records in a file that a kill at any moment leaves whole. Without a folder it keeps them in memory only.
type store struct {
	db   *bbolt.DB
	file string
	info os.FileInfo // of the file when it was opened
	// pending holds records that are not stored yet, by name.
	pending map[string][]byte
	// update is db.Update, which tests replace by a disk that is full.
	update func(func(*bbolt.Tx) error) error
}

var bucket = []byte("ledger 1")

// openStore opens or makes the state in dir; "" is memory.
func openStore(dir string) (*store, error) {
	s := &store{pending: map[string][]byte{}, update: func(func(*bbolt.Tx) error) error { return nil }}
	if dir == "" {
		return s, nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("-state: %w", err)
	}
	file := filepath.Join(dir, "ledger.db")
	if info, err := os.Stat(file); err == nil && info.Size() == 0 { // bbolt would begin anew in it
		return nil, fmt.Errorf("-state: %w", unusable(file, errors.New("the file is empty")))
	}
	var db *bbolt.DB
	err := guarded(func() (err error) {
		db, err = bbolt.Open(file, 0o640, &bbolt.Options{Timeout: time.Second})
		return err
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("-state: %s is in use (another exporter runs on it)", file)
	}
	if err != nil {
		return nil, fmt.Errorf("-state: %w", unusable(file, err))
	}
	s.db, s.update, s.file = db, db.Update, file
	err = guarded(func() error {
		return db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists(bucket)
			return err
		})
	})
	if err == nil {
		s.info, err = os.Stat(file)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("-state: %w", unusable(file, err)), db.Close())
	}
	return s, nil
}

// guarded turns panics of bbolt into errors, and the faults of reading a file
// that is shorter than it was: a state may be broken.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the file is broken: %v", p)
		}
	}()
	return f()
}

func (s *store) close() error {
	if s.db == nil {
		return nil
	}
	return s.db.Close()
}

// all returns every record there is.
func (s *store) all() ([]ledger.Record, error) {
	if s.db == nil {
		return nil, nil
	}
	var out []ledger.Record
	err := guarded(func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			return tx.Bucket(bucket).ForEach(func(k, v []byte) error {
				out = append(out, ledger.Record{Name: string(k), Value: slices.Clone(v)})
				return nil
			})
		})
	})
	if err != nil {
		return nil, unusable(s.file, err)
	}
	return out, nil
}

func unusable(file string, err error) error {
	return fmt.Errorf("%s: %w (move it away to begin anew; its counts are lost then)", file, err)
}

// put adds records to the pending ones.
func (s *store) put(records ...ledger.Record) {
	for _, r := range records {
		s.pending[r.Name] = r.Value
	}
}

// commit stores the pending records, all or none. After an error they are still pending.
func (s *store) commit() error {
	if len(s.pending) == 0 {
		return nil
	}
	if s.db != nil {
		if now, err := os.Stat(s.file); err != nil || !os.SameFile(now, s.info) {
			return fmt.Errorf("%s was taken away (later records would be lost; start anew)", s.file)
		}
	}
	err := guarded(func() error { return s.update(s.write) })
	if err == nil {
		clear(s.pending)
	}
	return err
}

// write writes the pending records.
func (s *store) write(tx *bbolt.Tx) error {
	b := tx.Bucket(bucket)
	for _, name := range slices.Sorted(maps.Keys(s.pending)) {
		var err error
		if v := s.pending[name]; v == nil {
			err = b.Delete([]byte(name))
		} else {
			err = b.Put([]byte(name), v)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return nil
}
