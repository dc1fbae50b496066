// SPDX-License-Identifier: Apache-2.0

package discover

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// ErrInvalid is matched by every error about an input that cannot be read.
var ErrInvalid = errors.New("discover: invalid")

// Provenance names the source of a field of the fleet.
type Provenance struct {
	// Basis is "declared" by a label, annotation or request; "derived" from such; "measured" by samples over time or by
	// the device itself; "guess" by a rule; or "given" by the user's own file.
	Basis  string `json:"basis"`
	Source string `json:"source"` // "label nvidia.com/gpu.product"
}

// The bases.
const (
	basisDeclared = "declared"
	basisDerived  = "derived"
	basisMeasured = "measured"
	basisGuess    = "guess"
	basisGiven    = "given"
)

// String writes it as the fleet file's comments do.
func (p Provenance) String() string { return p.Basis + ": " + p.Source }

func declared(format string, args ...any) Provenance {
	return Provenance{basisDeclared, fmt.Sprintf(format, args...)}
}

func derived(format string, args ...any) Provenance {
	return Provenance{basisDerived, fmt.Sprintf(format, args...)}
}

func guessed(format string, args ...any) Provenance {
	return Provenance{basisGuess, fmt.Sprintf(format, args...)}
}

// Finding is something about the cluster that its owner should know.
type Finding struct {
	Code     string           `json:"code"` // "two-managers"
	Severity sharing.Severity `json:"severity"`
	Object   string           `json:"object"` // "node gpu-1", "workload team/chat"
	Message  string           `json:"message"`
	Source   string           `json:"source"` // the label, resource or file that shows it
}

// findings holds the findings in any order, perhaps twice.
type findings []Finding

//go:embed findings.yaml
var findingsYAML []byte

// findingTexts has the severity and the text of each finding of findings.yaml.
var findingTexts = sync.OnceValue(func() map[string]Finding {
	bySeverity, out := map[sharing.Severity]map[string]string{}, map[string]Finding{}
	_ = yaml.Unmarshal(findingsYAML, &bySeverity) // a test reads the file that is built in
	for severity, texts := range bySeverity {
		for id, text := range texts {
			code, _, _ := strings.Cut(id, "/")
			out[id] = Finding{Code: code, Severity: severity, Message: text}
		}
	}
	return out
})

// find adds a finding of findings.yaml; args are those of its verbs.
func (l *findings) find(id, object, source string, args ...any) {
	f := findingTexts()[id]
	f.Object, f.Source, f.Message = object, source, fmt.Sprintf(f.Message, args...)
	l.add(f)
}

// add adds a finding. The names in it are others' and may hold anything.
func (l *findings) add(f Finding) {
	for _, text := range []*string{&f.Object, &f.Message, &f.Source} {
		*text = plaintext.Show(oneLine(*text))
	}
	*l = append(*l, f)
}

// ambiguous are the boards that an ambiguous name may mean.
func ambiguous(err error) []string {
	if a := (*sharing.AmbiguousGPUError)(nil); errors.As(err, &a) {
		return a.Matches
	}
	return nil
}
