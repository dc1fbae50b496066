package manifest

import (
	_ "embed"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/sharing"
)

// Privilege is a right that carrying out a mechanism needs.
type Privilege struct {
	Who    string // who or what must hold it
	What   string // the right
	Why    string
	Source sharing.SourceID
}

// phase is a step of a roll-out.
type phase struct {
	When, Focus string
	Do, Check   []string
	Source      sharing.SourceID
}

//go:embed rollout.yaml
var rolloutYAML []byte

var rolloutTable = sync.OnceValue(func() (all struct {
	Privileges []struct {
		Privilege `yaml:",inline"`
		Of        []sharing.Mechanism
	}
	Phases []phase
}) {
	_ = yaml.Unmarshal(rolloutYAML, &all) // a test reads the file that is built in
	return all
})

// Privileges lists what m needs beyond the right to create pods, in the order
// in which the rollout meets it. It is empty for a mechanism that needs none.
func Privileges(m sharing.Mechanism) (out []Privilege) {
	if m == sharing.MechanismExclusive || m == sharing.MechanismInServer {
		return nil
	}
	for _, p := range rolloutTable().Privileges {
		if slices.Contains(p.Of, m) || p.Of == nil && out == nil {
			out = append(out, p.Privilege)
		}
	}
	return out
}
