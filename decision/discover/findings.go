// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// ErrInvalid is matched by every error about an input that cannot be read.
var ErrInvalid = errors.New("discover: invalid")

// Provenance names the source of a field of the fleet.
type Provenance struct {
	// Basis is "declared" by a label, annotation or request; "derived" from these; "measured" by samples over time or by
	// the device itself; "guess" by a rule; or "given" by the user's file.
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

// String writes it in the form of the fleet file's comments.
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

// Finding is a remark on the cluster for its owner.
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

func ambiguous(err error) []string {
	if a := (*sharing.AmbiguousGPUError)(nil); errors.As(err, &a) {
		return a.Matches
	}
	return nil
}

// nameRule guesses the kind of workloads with one of the labels, owners or ports, or with a matching image or command.
type nameRule struct {
	Name           string
	Kind           decision.Kind
	Image, Command *regexp.Regexp
	Owners, Labels []string
	Ports          []int
	And            bool // the owner and the rest
}

//go:embed names.yaml
var namesYAML []byte

var names = sync.OnceValue(func() (all struct {
	Rules, Servers               []nameRule
	Machines, GKE, Platforms     map[string]string
	Controllers                  map[string]string
	Ordinary, Kept, Groups, SKUs []string
	Owners                       [][2]string
	Plugin                       map[string]any
	Unknown                      map[string]Unknown
	Resources                    map[string]struct {
		Role     role
		Delivery sharing.Delivery
	}
}) {
	_ = yaml.Unmarshal(namesYAML, &all) // a test reads the file that is built in
	return all
})

// instanceModel is the GPU of a cloud's machine type, "" where it is not known. No type has two of the prefixes.
func instanceModel(machine string) string {
	for prefix, gpu := range names().Machines {
		if strings.HasPrefix(machine, prefix) {
			return gpu
		}
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// cutLast cuts around the last sep; without one, before is empty.
func cutLast(s string, sep byte) (before, after string) {
	i := strings.LastIndexByte(s, sep)
	return s[:max(i, 0)], s[i+1:]
}

func inFile(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// stem is a file's base name up to the first dot.
func stem(file string) string {
	base := path.Base(strings.ReplaceAll(file, `\`, "/"))
	base, _, _ = strings.Cut(base, ".")
	return base
}

// unique takes the first of the names that is not taken, or the first name with a number.
func unique(taken map[string]bool, names ...string) string {
	i := slices.IndexFunc(names, func(name string) bool { return !taken[name] })
	name := names[max(i, 0)]
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", names[0], n)
	}
	taken[name] = true
	return name
}

var badName = regexp.MustCompile(`[^-_.A-Za-z0-9]+`)

// workloadName is a name that a fleet file accepts.
func workloadName(namespace, name string) string {
	clean := func(s string, most int) string {
		s = strings.Trim(badName.ReplaceAllString(s, "-"), "-_.")
		if len(s) > most {
			s = strings.Trim(s[:most], "-_.")
		}
		return cmp.Or(s, "unnamed")
	}
	if namespace == "" {
		return clean(name, 63)
	}
	return clean(namespace, 63) + "/" + clean(name, 240)
}

// named is an object's name with its namespace; empty without one.
func named(namespace, name string) string {
	if name == "" {
		return ""
	}
	return namespace + "/" + name
}

func thousands(n float64) string { return plaintext.Amount(fmt.Sprint(int64(n))) }

func span(d time.Duration) string {
	switch {
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

func round3(f float64) float64 { return float64(int(f*1000+0.5)) / 1000 }

func only[M ~map[string]V, V any](all M, keys map[string]bool) M {
	out := maps.Clone(all)
	if maps.DeleteFunc(out, func(key string, _ V) bool { return !keys[key] }); len(out) == 0 {
		return nil
	}
	return out
}

const mostNames = 8 // bound of the names of a list that is written out

func some(names []string) string { return plaintext.Some(names, mostNames, len(names)) }

func begins(key string, with []string) bool {
	return slices.ContainsFunc(with, func(k string) bool { return strings.HasPrefix(key, k) })
}
