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

// metaTokens begins the name of the record of a server's tokens: the pod as
// -serving names it follows. Its value is the tokens taken in and given, with -
// for what the server does not say.
const metaTokens = "tokens "

func tokensName(p container.Pod) string {
	return metaTokens + p.Namespace + "/" + p.Name + "/" + p.Container
}

// restore takes up the tokens that another run stored. Those of a server that
// -serving no longer names are left out.
func (s *servers) restore(stored map[string]tokens) {
	for pod, d := range s.state {
		d.counted = stored[tokensName(pod)]
		d.stored = d.counted
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
	one := func(o telemetry.Optional[float64]) string {
		if v, ok := o.Get(); ok {
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
		return "-"
	}
	return []byte(one(t.prompt) + " " + one(t.generated))
}

func parseTokens(r ledger.Record) (t tokens, err error) {
	fields := strings.Fields(string(r.Value))
	if len(fields) != 2 {
		return t, fmt.Errorf("%s: %q are not two numbers", r.Name, r.Value)
	}
	for i, to := range []*telemetry.Optional[float64]{&t.prompt, &t.generated} {
		if fields[i] == "-" {
			continue
		}
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil || !(v >= 0) || math.IsInf(v, 0) {
			return t, fmt.Errorf("%s: %q is no number of tokens", r.Name, fields[i])
		}
		*to = telemetry.Some(v)
	}
	return t, nil
}
