package sharing

import (
	"slices"

	"github.com/cotenant/cotenant/internal/enum"
)

// Complexity grades the work of running a mechanism. The zero value is
// ComplexityUnknown.
type Complexity uint8

// The complexities.
const (
	ComplexityUnknown Complexity = iota
	ComplexityLow
	ComplexityMedium
	ComplexityHigh
	ComplexityVeryHigh
)

var complexityNames = enum.Of[Complexity](ErrUnknownName, "complexity", "unknown", "low", "medium", "high", "very-high")

// Statement is a sentence with its source.
type Statement struct {
	Text   string
	Basis  Basis
	Source SourceID
}

// ComplexityRating is one source's rating of the work a mechanism is.
type ComplexityRating struct {
	Complexity Complexity
	Text       string // why, or the printed wording
	Basis      Basis
	Source     SourceID
}

// Overhead brackets what a mechanism itself costs: the extra time for a unit
// of work, as a fraction of the time it takes alone on the whole GPU without
// the mechanism. It does not hold the slow-down by neighbours. 0.08 is 8%.
type Overhead struct {
	Low, High float64 // fractions; mean something only if Known
	Known     bool
	Text      string // of what, under which load
	Basis     Basis
	Source    SourceID
}

// Info describes a mechanism as a whole.
type Info struct {
	Mechanism Mechanism
	Title     string
	Summary   string
	// Complexity is our own rating, ComplexityRatings are those of the sources
	// where they give one.
	Complexity        ComplexityRating
	ComplexityRatings []ComplexityRating
	// Overhead is the bracket to plan with, Overheads are the positions of the
	// sources, which disagree.
	Overhead  Overhead
	Overheads []Overhead
	// MaxTenants is the most tenants that any GPU takes under the mechanism;
	// unknown where no number bounds it. MPSClientLimit knows the limit of a GPU.
	MaxTenants Cell[int]
	// PopularMaxTenants is the limit as lucaberton-sharing prints it; its zero
	// value where that has none.
	PopularMaxTenants Statement
	BestFor           []Statement
	AvoidWhen         []Statement
	Hardware          []Statement
	// Deliveries are those of Deliveries() that can deliver it.
	Deliveries []Delivery
}

// InfoFor returns what there is to say of m; of a value that is no mechanism,
// nothing but the value itself. The slices are shared and must not be modified.
func InfoFor(m Mechanism) Info {
	if int(m) >= MechanismCount {
		return Info{Mechanism: m}
	}
	return infoTable[m]
}

var infoTable = indexInfos(infos)

func indexInfos(rows []Info) (t [MechanismCount]Info) {
	for _, row := range rows {
		for _, d := range Deliveries() {
			if Delivers(d, row.Mechanism).Answer == AnswerYes {
				row.Deliveries = append(row.Deliveries, d)
			}
		}
		row.Deliveries = slices.Clip(row.Deliveries)
		t[row.Mechanism] = row
	}
	return t
}
