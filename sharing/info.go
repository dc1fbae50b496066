package sharing

import "sync"

// Statement is a sentence with its source.
type Statement struct {
	Text   string
	Basis  Basis
	Source SourceID
}

// Overhead brackets what a mechanism itself costs: the extra time for a unit of work, as a fraction of the time it
// takes alone on the whole GPU without the mechanism. It does not hold the slow-down by neighbours. 0.08 is 8%.
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
	// Overhead is the bracket to plan with, Overheads are the positions of the sources, which disagree.
	Overhead  Overhead
	Overheads []Overhead
	// MaxTenants is the most tenants that any GPU takes under the mechanism;
	// unknown where no number bounds it. MPSClientLimit knows the limit of a GPU.
	MaxTenants Cell[int]
	BestFor    []Statement
	AvoidWhen  []Statement
	Hardware   []Statement
}

// InfoFor returns what there is to say of m; of a value that is no mechanism,
// nothing but the value itself. The slices are shared and must not be modified.
func InfoFor(m Mechanism) Info {
	if int(m) >= MechanismCount {
		return Info{Mechanism: m}
	}
	return infoTable()[m]
}

var infoTable = sync.OnceValue(func() *[MechanismCount]Info {
	t := new([MechanismCount]Info)
	for _, row := range infos() {
		t[row.Mechanism] = row
	}
	return t
})

var infos = table[Info]("mechanisms.json")
