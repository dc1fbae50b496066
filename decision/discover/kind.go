package discover

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
)

// KindRule is a rule by which a workload's kind is guessed.
type KindRule struct {
	Name string
	Kind decision.Kind
	What string // it looks at
}

// nameRule fits what has one of the labels, the owners or ports, or an image or command of the name.
type nameRule struct {
	KindRule       `yaml:",inline"`
	Image, Command *regexp.Regexp
	Owners, Labels []string
	Ports          []int
	And            bool // the owner and the rest
}

//go:embed names.yaml
var namesYAML []byte

// names says what the names of images, commands, owners and machines tell.
var names = sync.OnceValue(func() (all struct {
	Rules, Servers []nameRule
	Machines       map[string]string
}) {
	_ = yaml.Unmarshal(namesYAML, &all) // a test reads the file that is built in
	return all
})

// instanceModel is the GPU of a cloud's machine type.
func instanceModel(machine string) (string, bool) {
	for prefix, gpu := range names().Machines {
		if strings.HasPrefix(machine, prefix) {
			return gpu, true
		}
	}
	return "", false
}

// shapeOf is the kind that a workload's use of its GPU suggests, where nothing else says any.
func shapeOf(u *Used, known time.Duration) (guess, bool) {
	idle, ok := u.ExecutionIdle.Get()
	switch {
	case known < 6*time.Hour:
	case ok && idle >= 0.7:
		return guess{decision.KindNotebook, "idle-shape"}, true
	case u.BusyMean.Or(0) >= 0.85:
		return guess{decision.KindTraining, "steady-shape"}, true
	}
	return guess{}, false
}

// KindRules lists the rules in the order in which they are asked.
func KindRules() (all []KindRule) {
	for _, r := range names().Rules {
		all = append(all, r.KindRule)
	}
	return all
}

// guess is a kind and the rule that gave it.
type guess struct {
	kind decision.Kind
	rule string
}

func guessKind(m *metadata, containers []container, o owner) guess {
	for _, r := range names().Rules {
		if r.fits(m, containers, o) {
			return guess{r.Kind, r.Name}
		}
	}
	return guess{}
}

func (r *nameRule) fits(m *metadata, containers []container, o owner) bool {
	if len(r.Labels) > 0 {
		return slices.ContainsFunc(r.Labels, func(l string) bool { return m.Labels[l] != "" })
	}
	owned := slices.ContainsFunc(r.Owners, func(kind string) bool { return kind == "" || kind == o.kind })
	if r.And && !owned {
		return false
	}
	if len(r.Owners) > 0 && !r.And {
		return owned
	}
	return slices.ContainsFunc(containers, func(c container) bool {
		if r.Image != nil && r.Image.MatchString(strings.ToLower(c.Image)) {
			return true
		}
		if r.Command != nil && r.Command.MatchString(strings.Join(slices.Concat(c.Command, c.Args), " ")) {
			return true
		}
		for _, p := range c.Ports {
			if slices.Contains(r.Ports, p.Port) || slices.Contains(r.Ports, 0) {
				return true
			}
		}
		return false
	})
}

// serverOf is the model server that an image or command names, or "".
func serverOf(image string, words []string) string {
	text := strings.ToLower(image) + " " + strings.Join(words, " ")
	for _, s := range names().Servers {
		if s.Image.MatchString(text) {
			return s.Name
		}
	}
	return ""
}
