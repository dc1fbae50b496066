// SPDX-License-Identifier: Apache-2.0

package discover

import (
	_ "embed"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
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
	Plugin                       map[string]any
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
