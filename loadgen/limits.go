package loadgen

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// isClientLimit says whether a connection failed for want of this machine's own
// descriptors, ports or buffers: the server never heard of it.
func isClientLimit(err error) bool {
	return slices.ContainsFunc(clientLimitErrors, func(limit error) bool { return errors.Is(err, limit) }) ||
		strings.Contains(err.Error(), "too many open files") // the resolver keeps the text alone
}

// checkOpenFiles refuses a plan whose closed loops and bounded open loops need more
// connections at once than the process may have open files.
func checkOpenFiles(p *LoadPlan, w Worker) error {
	limit, ok := openFileLimit()
	if !ok {
		return nil
	}
	return checkFiles(p, w, limit, filesOpen())
}

// spareFiles are those of the run itself: its log, pollers, a resolver.
const spareFiles = 16

func checkFiles(p *LoadPlan, w Worker, limit, open uint64) error {
	connections := uint64(0)
	for i := range p.Tenants {
		t := &p.Tenants[i]
		if slices.ContainsFunc(t.Endpoints, func(e Endpoint) bool { return e.Dial != nil }) {
			continue // its connections need not be files
		}
		n := max(t.Load.Concurrency, t.Load.MaxInFlight)
		if t.Requests > 0 {
			n = min(n, t.Requests)
		}
		connections += uint64(w.share(n))
	}
	need := connections + open + spareFiles
	if connections == 0 || need <= limit {
		return nil
	}
	var l problem.List
	l.Addf("tenants", fmt.Sprintf("raise the limit, e.g. with ulimit -n %d, lower the concurrency, or share the load "+
		"between workers", need),
		"%d connections at once need about %d open files, and this process may have %d", connections, need, limit)
	return l.Under(errors.New("loadgen: the client's own limits"))
}

// filesOpen is the number of files that are open now, or a guess.
func filesOpen() uint64 {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return spareFiles
	}
	return uint64(len(entries))
}
