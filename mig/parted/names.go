// SPDX-License-Identifier: Apache-2.0

package parted

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/mig"
)

// names looks at how an entry names profiles that drivers name differently: a board has one set of names, and
// mig-parted takes no other. note has both names; conflict is set if the entry mixes names that no driver has
// together.
func (e Entry) names(m *mig.Model) (note, conflict string) {
	var both []string
	var by [2]string // a name of the entry that is the catalogue's, and one that is another driver's
	for _, c := range e.counts() {
		p, err := m.Profile(c.Profile)
		if err != nil || len(p.Aliases) == 0 {
			continue
		}
		all, which := append([]string{p.Name}, p.Aliases...), 0
		for _, name := range p.Aliases {
			if c.Profile == name || strings.HasSuffix(c.Profile, "c."+name) {
				which = 1
			}
		}
		if by[which] = c.Profile; by[1-which] != "" {
			conflict = fmt.Sprintf("no driver has both %s and %s", by[0], by[1])
		}
		if text := strings.Join(all, " or "); !slices.Contains(both, text) {
			both = append(both, text)
		}
	}
	if len(both) > 0 {
		note = fmt.Sprintf("a board has %s, by its driver: mig-parted takes only the name that nvidia-smi mig -lgip lists "+
			"there", strings.Join(both, ", "))
	}
	return note, conflict
}
