package mig

import (
	"fmt"
	"strings"
)

const cellWidth = 9 // the width of one placement unit of a bar, in characters

// Bar draws the layout as one line of placement units: names of instances, a
// star on busy ones, dots where nothing stands.
//
//	|2g.20gb          |1g.10gb* |.........|3g.40gb                            |
func (l Layout) Bar() string {
	if l.Model == nil || l.Model.Units == 0 {
		return "|?|"
	}
	var b strings.Builder
	b.WriteByte('|')
	for u := 0; u < l.Model.Units; {
		in, ok := l.at(u)
		if !ok {
			b.WriteString(strings.Repeat(".", cellWidth) + "|")
			u++
			continue
		}
		name := in.Profile.Name
		if in.Busy {
			name += "*"
		}
		width := in.Size*(cellWidth+1) - 1
		if len(name) > width {
			name = name[:width]
		}
		fmt.Fprintf(&b, "%-*s|", width, name)
		u += in.Size
	}
	return b.String()
}

// at returns the instance that starts at a unit.
func (l Layout) at(unit int) (Instance, bool) {
	for _, in := range l.Instances {
		if in.Start == unit {
			return in, true
		}
	}
	return Instance{}, false
}
