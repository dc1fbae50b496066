// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"hash/maphash"
	"slices"
)

const indexShards = 512

// index finds positions by the hashes of names. It is immutable: with and without return another one that shares all
// but one shard. Equal hashes are adjacent, for the caller to distinguish.
type index struct{ shards *[indexShards][]entry }

type entry struct {
	hash uint32
	at   int32
}

var hashSeed = maphash.MakeSeed()

func hashOf(name string) uint32 { return uint32(maphash.String(hashSeed, name)) }

func (x index) shard(hash uint32) []entry {
	if x.shards == nil {
		return nil
	}
	return x.shards[hash%indexShards]
}

// find returns the first position under a name for which is holds, -1 where there is none.
func (x index) find(name string, is func(at int32) bool) int32 {
	h := hashOf(name)
	for _, e := range x.shard(h) {
		if e.hash == h && is(e.at) {
			return e.at
		}
	}
	return -1
}

// own copies the table of shards, for changes.
func (x index) own() index {
	next := new([indexShards][]entry)
	if x.shards != nil {
		*next = *x.shards
	}
	return index{next}
}

// set adds a position to an index that own returned.
func (x index) set(name string, at int32) {
	h := hashOf(name)
	s := &x.shards[h%indexShards]
	*s = append((*s)[:len(*s):len(*s)], entry{h, at})
}

// unset takes a position out of an index that own returned.
func (x index) unset(name string, at int32) {
	h := hashOf(name)
	s := &x.shards[h%indexShards]
	if i := slices.Index(*s, entry{h, at}); i >= 0 {
		*s = slices.Delete(slices.Clone(*s), i, i+1)
	}
}
