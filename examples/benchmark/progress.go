package main

import (
	"fmt"
	"io"
	"time"

	"github.com/cotenant/cotenant/loadgen"
)

// progress writes a line each time it is shown.
type progress struct {
	w     io.Writer
	label string

	tokens int64
	at     time.Duration
}

// show writes what has happened; token rates are those since the last line, of
// requests that ended.
func (p *progress) show(now loadgen.Progress) {
	var sent, ok, failed, inFlight, tokens int64
	for _, t := range now.Tenants {
		sent, ok, failed, inFlight, tokens = sent+t.Sent, ok+t.OK, failed+t.Failed, inFlight+t.InFlight, tokens+t.Tokens
	}
	rate := ""
	if d := now.Elapsed - p.at; d >= 100*time.Millisecond {
		rate = fmt.Sprintf(", %.0f tokens/s", float64(tokens-p.tokens)/d.Seconds())
	}
	p.tokens, p.at = tokens, now.Elapsed
	fmt.Fprintf(p.w, "%s %5.1fs: sent %d, ok %d, failed %d, in flight %d%s\n", p.label, now.Elapsed.Seconds(), sent, ok, failed, inFlight, rate)
}
