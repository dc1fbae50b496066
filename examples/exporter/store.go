package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/cotenant/cotenant/telemetry/ledger"
)

// store keeps records in a file that a kill at any moment leaves whole. Without
// a folder it keeps them in memory only.
type store struct {
	db *bbolt.DB
	// pending is what could not be stored yet, by name.
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
	db, err := bbolt.Open(file, 0o640, &bbolt.Options{Timeout: time.Second})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("-state: %s is in use (another exporter runs on it)", file)
	}
	if err != nil {
		return nil, fmt.Errorf("-state: %s: %w (move it away to begin anew; what it counted is lost then)", file, err)
	}
	s.db, s.update = db, db.Update
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("-state: %s: %w", file, err), db.Close())
	}
	return s, nil
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
	err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(k, v []byte) error {
			out = append(out, ledger.Record{Name: string(k), Value: slices.Clone(v)})
			return nil
		})
	})
	return out, err
}

// put adds records to what is to be stored.
func (s *store) put(records ...ledger.Record) {
	for _, r := range records {
		s.pending[r.Name] = r.Value
	}
}

// commit stores what is pending, all of it or nothing. After an error it is
// still pending.
func (s *store) commit() error {
	if len(s.pending) == 0 {
		return nil
	}
	err := s.update(func(tx *bbolt.Tx) error {
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
	})
	if err == nil {
		clear(s.pending)
	}
	return err
}
