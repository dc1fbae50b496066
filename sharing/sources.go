package sharing

import "slices"

// Sources lists every source and row that a SourceID may name: first the
// documents and measurements, then the rows of the facts carried over (tables,
// flows, traps, test vectors, disagreements, contradictions, measured results)
// and the sections they stand in. The slice is the caller's.
func Sources() []Source { return slices.Clone(sourceTable) }

// SourceByID returns the source of an id, and whether there is one.
func SourceByID(id SourceID) (Source, bool) {
	i, ok := sourceIndex[id]
	if !ok {
		return Source{}, false
	}
	return sourceTable[i], true
}

// basisOf is the basis of a source's evidence; BasisUnknown if there is no such
// source.
func basisOf(id SourceID) Basis {
	s, _ := SourceByID(id)
	return s.Basis
}

var (
	sourceTable = slices.Concat(documentSources, rowSources, trapSources(), disagreementSources(), measuredSources, sectionSources)
	sourceIndex = indexSources(sourceTable)
)

func indexSources(table []Source) map[SourceID]int {
	index := make(map[SourceID]int, len(table))
	for i, s := range table {
		index[s.ID] = i
	}
	return index
}

// trapSources makes each trap a source of its own row.
func trapSources() []Source {
	var rows []Source
	for _, t := range trapTable {
		where := "traps of the decision sources"
		if t.ID[0] == 'M' {
			where = "traps of MPS, time-slicing and HAMi"
		}
		rows = append(rows, Source{ID: SourceID(t.ID), Title: "trap: " + t.Statement, Basis: BasisDocumented, Locator: where})
	}
	return rows
}

// disagreementSources makes each disagreement a source of its own row.
func disagreementSources() []Source {
	var rows []Source
	for _, d := range disagreementRows {
		where := "where the decision sources disagree"
		if d.ID[0] == 'C' {
			where = "contradictions with primary documentation"
		}
		rows = append(rows, Source{ID: SourceID(d.ID), Title: d.Topic, Basis: BasisDocumented, Locator: where})
	}
	return rows
}
