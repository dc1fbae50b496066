package account

import (
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
)

// Other is the name of the pod, and of the namespace, to which everything goes
// that has no account of its own any more. Kubernetes gives it to nobody.
const Other = "(other)"

// The budget of accounts on a node: maxPods containers have accounts of their own
// until a day after they ended, and the others share one for each of maxNamespaces
// namespaces, and one for the rest. Sums stay exact, and no account goes back.
const (
	maxPods       = 1000
	maxNamespaces = 200
)

// budget holds the containers that have accounts of their own, and the namespaces
// that have one for all others.
type budget struct {
	pods       map[container.Pod]bool
	namespaces map[string]bool
}

// of counts the accounts that there are.
func (b *budget) of(rows []ledger.Row) {
	b.pods, b.namespaces = map[container.Pod]bool{}, map[string]bool{}
	for i := range rows {
		if p := rows[i].Pod; p.Name == Other {
			b.namespaces[p.Namespace] = true
		} else if p != (container.Pod{}) {
			b.pods[p] = true
		}
	}
}

// account returns the container under whose name p is posted, and takes an account
// of its own for it while there are any.
func (b *budget) account(p container.Pod) container.Pod {
	if p == (container.Pod{}) || b.pods[p] {
		return p
	}
	if len(b.pods) < maxPods {
		b.pods[p] = true
		return p
	}
	if !b.namespaces[p.Namespace] && len(b.namespaces) >= maxNamespaces {
		return container.Pod{Namespace: Other, Name: Other}
	}
	b.namespaces[p.Namespace] = true
	return container.Pod{Namespace: p.Namespace, Name: Other}
}

// fold gives parts to the accounts that there are, one part to each.
func (b *budget) fold(parts []ledger.Part) []ledger.Part {
	var out []ledger.Part
	at := map[ledger.Part]int{}
	for _, p := range parts {
		if p.High == 0 {
			continue
		}
		p.Pod = b.account(p.Pod)
		key := ledger.Part{Account: p.Account, Pod: p.Pod, Basis: p.Basis}
		i, there := at[key]
		if !there {
			at[key] = len(out)
			out = append(out, p)
			continue
		}
		out[i].Time, out[i].Low, out[i].High = out[i].Time+p.Time, out[i].Low+p.Low, out[i].High+p.High
	}
	return out
}
