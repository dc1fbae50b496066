package account

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
)

// Tokens counts what a server took in and gave, and how much of that was good under its objective, at least and at
// most, or is not judged yet; missing where it does not say, or has no objective.
type Tokens struct {
	Prompt, Generated, GoodLow, GoodHigh, Pending telemetry.Optional[float64]
}

func (t *Tokens) fields() []*telemetry.Optional[float64] {
	return []*telemetry.Optional[float64]{&t.Prompt, &t.Generated, &t.GoodLow, &t.GoodHigh, &t.Pending}
}

// metaTokens begins the name of the record of a server's tokens; the pod follows. Its value has the fields of
// Tokens, with - for what is missing; records without the last three are read too.
const metaTokens = "tokens "

func tokensName(p container.Pod) string {
	return metaTokens + name(p)
}

// restore takes up the tokens that another run stored, of the servers whose pages are read.
func (s *Servers) restore(stored map[string]Tokens) {
	for pod, d := range s.state {
		d.stored = stored[tokensName(pod)]
		d.counted = d.stored.resume()
	}
}

// changes returns the records that have changed since the last call.
func (s *Servers) changes() []ledger.Record {
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

// totals returns the tokens of every server, as changes gave them out last.
func (s *Servers) totals() map[container.Pod]Tokens {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[container.Pod]Tokens{}
	for pod, d := range s.state {
		out[pod] = d.stored
	}
	return out
}

func (t Tokens) record() []byte {
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

// parseAmount reads a finite number that is not negative.
func parseAmount(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err == nil && (!(v >= 0) || math.IsInf(v, 0)) {
		err = fmt.Errorf("%q is no amount", s)
	}
	return v, err
}

func parseTokens(r ledger.Record) (t Tokens, err error) {
	fields, to := strings.Fields(string(r.Value)), t.fields()
	if len(fields) != 2 && len(fields) != len(to) {
		return t, fmt.Errorf("%s: %q are not numbers of tokens", r.Name, r.Value)
	}
	for i, field := range fields {
		if field == "-" {
			continue
		}
		v, err := parseAmount(field)
		if err != nil {
			return t, fmt.Errorf("%s: %q is no number of tokens", r.Name, field)
		}
		*to[i] = telemetry.Some(v)
	}
	return t, nil
}
