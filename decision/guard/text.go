package guard

import (
	"fmt"
	"time"
)

// String describes the proposal in a paragraph: when, what and to whom, the evidence and the effect to expect.
func (p *Proposal) String() string {
	at := p.At.Round(time.Second)
	text := fmt.Sprintf("%02d:%02d:%02d  GPU %d: %s %s",
		int(at.Hours()), int(at.Minutes())%60, int(at.Seconds())%60, p.GPU, p.Action, p.Target)
	if p.Percent > 0 {
		text += fmt.Sprintf(" to %.0f%% of the threads", p.Percent)
	}
	if p.To != nil {
		text += fmt.Sprintf(" to GPU %d", *p.To)
	}
	if p.Owner != "" {
		text += " (" + p.Owner + ")"
	}
	text += "\n"
	for _, e := range p.Evidence {
		text += "  because   " + e + "\n"
	}
	text += "  effect    " + p.Effect + "\n"
	if p.Withheld != "" {
		text += "  withheld  " + p.Withheld + "\n"
	}
	return text
}
