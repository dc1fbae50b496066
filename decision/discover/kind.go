// SPDX-License-Identifier: Apache-2.0

package discover

import (
	_ "embed"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/sharing"
)

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

// names is names.yaml.
var names = sync.OnceValue(func() (all struct {
	Rules, Servers               []nameRule
	Machines, GKE, Platforms     map[string]string
	Ordinary, Kept, Groups, SKUs []string
	Owners                       [][2]string
}) {
	_ = yaml.Unmarshal(namesYAML, &all) // a test reads the file that is built in
	return all
})

// instanceModel is the GPU of a cloud's machine type.
func instanceModel(machine string) (string, bool) {
	for _, prefix := range slices.Sorted(maps.Keys(names().Machines)) {
		if strings.HasPrefix(machine, prefix) {
			return names().Machines[prefix], true
		}
	}
	return "", false
}

// shapeOf returns the kind that the use of a GPU suggests, where nothing else does: by the share of the time in which
// memory was held without work, and the mean busy share.
func shapeOf(idle, busy float64, known time.Duration) (guess, bool) {
	switch {
	case known < 6*time.Hour:
	case idle >= 0.7:
		return guess{decision.KindNotebook, "idle-shape"}, true
	case busy >= 0.85:
		return guess{decision.KindTraining, "steady-shape"}, true
	}
	return guess{}, false
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
		if r.Image != nil && r.Image.MatchString(strings.ToLower(c.Image)) ||
			r.Command != nil && r.Command.MatchString(strings.Join(slices.Concat(c.Command, c.Args), " ")) {
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

// version is that of dcgm-exporter, as the tag of its image has it. The zero value is unknown.
type version struct {
	text    string
	numbers []int
}

// exporterImage has DCGM's version first: 4.5.3-4.8.2.
var exporterImage = regexp.MustCompile(`/dcgm-exporter:((\d+)\.(\d+)\.(\d+)-(\d+)\.(\d+)\.(\d+))`)

// attributing is the first dcgm-exporter that gives DCGM_FI_DEV_GPU_UTIL and DCGM_FI_DEV_FB_USED of each pod's own
// processes, after the device's, where pods share a GPU: https://github.com/NVIDIA/dcgm-exporter/pull/594. Other
// fields stay the device's, repeated for each pod.
var attributing = []int{4, 5, 3, 4, 8, 2}

// before reports whether a version is known and came before that of the numbers.
func (v *version) before(numbers ...int) bool {
	return v.text != "" && slices.Compare(v.numbers, numbers) < 0
}

// see notes the version of an image of dcgm-exporter: the oldest, where there are several. One of zeros is unknown.
func (v *version) see(image string) {
	m := exporterImage.FindStringSubmatch(image)
	if m == nil {
		return
	}
	got := version{text: m[1]}
	for _, text := range m[2:] {
		n, _ := strconv.Atoi(text) // digits
		got.numbers = append(got.numbers, n)
	}
	if slices.Max(got.numbers) > 0 && (v.text == "" || got.before(v.numbers...)) {
		*v = got
	}
}

// checkKAI reports that KAI may not enforce the memory of shares. Annotations by container are read by the mode in
// which the driver enforces limits.
func (b *build) checkKAI() {
	for _, w := range b.workloads {
		n, _ := b.home(w)
		if p := b.poolOf[n]; p != nil && w.first.ask.delivery == sharing.DeliveryKAI &&
			!strings.HasPrefix(w.first.ask.resource, "annotation nvidia.com/container.") {
			b.find("kai-memory", sharing.SeverityMedium, "pool "+p.name, "kai-gpu-sharing-modes",
				"KAI places pods by their share, and each can take all of the GPU's memory, unless its global.gpuSharingMode is "+
					"HamiCore (from 0.17) or NvFractions (from 0.18)")
		}
	}
}
