package sharing

import "slices"

// Disagreement is a topic on which sources differ, and what we go by.
type Disagreement struct {
	// ID is in words, for example "mps-compute"; that of a popular cell that
	// differs from the primary reading is "asleekgeek-sharing:mps:fault" and the
	// like.
	ID        string
	Topic     string
	Positions []Statement // what the sources say
	// Finding is the statement that this package follows.
	Finding Statement
	// Cell is the cell of the isolation table that the row is about, and nil
	// for other topics.
	Cell *CellDifference
}

// CellDifference is a cell of the isolation table whose readings differ.
type CellDifference struct {
	Mechanism Mechanism
	Axis      Axis
	Popular   Property   // the printed cell
	Primary   []Property // every statement of the primary reading
}

// Disagreements lists where widely read sources differ from one another or from
// primary ones, then the cells of the popular isolation tables that the default
// statement of the primary reading does not confirm, in the order of the tables.
// The slice is the caller's; what its rows point to is shared and must not be
// modified.
func Disagreements() []Disagreement {
	return slices.Concat(disagreementRows, cellDisagreements)
}

var cellDisagreements = compareReadings(popularProperties)

func compareReadings(printed []Property) []Disagreement {
	var rows []Disagreement
	for _, p := range printed {
		ours := Isolation(p.Mechanism, p.Axis, ReadingPrimary)
		if ours.Level == p.Level {
			continue
		}
		cell := &CellDifference{Mechanism: p.Mechanism, Axis: p.Axis, Popular: p}
		for _, q := range propertiesOf(p.Mechanism, p.Axis) {
			if q.Reading == ReadingPrimary {
				cell.Primary = append(cell.Primary, q)
			}
		}
		rows = append(rows, Disagreement{
			ID:        string(p.Source) + ":" + p.Mechanism.String() + ":" + p.Axis.String(),
			Topic:     p.Axis.String() + " isolation of " + p.Mechanism.String(),
			Positions: []Statement{{p.Text, p.Basis, p.Source}},
			Finding:   Statement{ours.Text, ours.Basis, ours.Source},
			Cell:      cell,
		})
	}
	return rows
}
