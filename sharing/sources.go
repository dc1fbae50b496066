package sharing

import "slices"

// Sources lists every source that a SourceID may name, by publisher. The slice
// is the caller's.
func Sources() []Source { return slices.Clone(sourceTable) }

// SourceByID returns the source of an id, and whether there is one.
func SourceByID(id SourceID) (Source, bool) {
	i, ok := sourceIndex[id]
	if !ok {
		return Source{}, false
	}
	return sourceTable[i], true
}

var sourceIndex = indexSources(sourceTable)

func indexSources(table []Source) map[SourceID]int {
	index := make(map[SourceID]int, len(table))
	for i, s := range table {
		index[s.ID] = i
	}
	return index
}
