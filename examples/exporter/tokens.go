package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
)

// tokens are what a server took in and gave, and how much of that was good under
// its objective, at least and at most, or is not judged yet; missing where it
// does not say, or has no objective.
type tokens struct {
	prompt, generated, goodLow, goodHigh, pending telemetry.Optional[float64]
}

func (t *tokens) fields() []*telemetry.Optional[float64] {
	return []*telemetry.Optional[float64]{&t.prompt, &t.generated, &t.goodLow, &t.goodHigh, &t.pending}
}

// metaTokens begins the name of the record of a server's tokens: the pod as
// -serving names it follows. Its value is the fields of tokens, with - for what
// is missing; a version that knew of no objectives left out the last three.
const metaTokens = "tokens "

func tokensName(p container.Pod) string {
	return metaTokens + p.Namespace + "/" + p.Name + "/" + p.Container
}

// restore takes up the tokens that another run stored. Those of a server that
// -serving no longer names are left out.
func (s *servers) restore(stored map[string]tokens) {
	for pod, d := range s.state {
		d.stored = stored[tokensName(pod)]
		d.counted = d.stored.resume()
	}
}

// changes returns the records that have changed since the last call.
func (s *servers) changes() []ledger.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var records []ledger.Record
	for pod, d := range s.state {
		if d.counted != d.stored {
			records = append(records, ledger.Record{Name: tokensName(pod), Value: d.counted.record()})
			d.stored = d.counted
		}
	}
	return records
}

// totals are what every server has done, as changes gave it out last.
func (s *servers) totals() map[container.Pod]tokens {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[container.Pod]tokens{}
	for pod, d := range s.state {
		out[pod] = d.stored
	}
	return out
}

func (t tokens) record() []byte {
	var out []string
	for _, f := range t.fields() {
		if v, ok := f.Get(); ok {
			out = append(out, strconv.FormatFloat(v, 'g', -1, 64))
		} else {
			out = append(out, "-")
		}
	}
	return []byte(strings.Join(out, " "))
}

func parseTokens(r ledger.Record) (t tokens, err error) {
	fields, to := strings.Fields(string(r.Value)), t.fields()
	if len(fields) != 2 && len(fields) != len(to) {
		return t, fmt.Errorf("%s: %q are not numbers of tokens", r.Name, r.Value)
	}
	for i, field := range fields {
		if field == "-" {
			continue
		}
		v, err := strconv.ParseFloat(field, 64)
		if err != nil || !(v >= 0) || math.IsInf(v, 0) {
			return t, fmt.Errorf("%s: %q is no number of tokens", r.Name, field)
		}
		*to[i] = telemetry.Some(v)
	}
	return t, nil
}
