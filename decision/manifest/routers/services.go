package routers

import (
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/sharing"
)

// Services is an extension of package manifest that puts a router before the replicas of each service of a decision: a
// language model that answers online from more than one replica. One replica needs none. A service is of a language
// model where it states its model, a server of such models, tokens of its answers, or a limit for them.
type Services struct {
	Policy Policy // of all
}

// ServiceLabel is the label of a service's pods, by which its router finds them.
const ServiceLabel = "cotenant.dev/service"

// PodLabels returns the label of a service's pods, nil for what gets no router.
func (s Services) PodLabels(m *manifest.Member) map[string]string {
	if !routed(m) {
		return nil
	}
	return map[string]string{ServiceLabel: m.Name}
}

// Labels returns none.
func (Services) Labels(*manifest.Group) map[string]string { return nil }

// Documents writes the files of Build for each service.
func (s Services) Documents(groups []manifest.Group) ([]manifest.File, []sharing.Warning, error) {
	var pools []Pool
	taken := map[string]bool{}
	for i := range groups {
		for k := range groups[i].Members {
			m := &groups[i].Members[k]
			if !routed(m) {
				continue
			}
			p := Pool{Name: m.Name, Namespace: m.Namespace, Model: m.Name, Policy: s.Policy, Labels: s.PodLabels(m)}
			for n := 1; len(p.Name) > longestName || taken[p.file()]; n++ {
				end := fmt.Sprintf("-%d", n)
				p.Name = strings.TrimRight(m.Name[:min(len(m.Name), longestName-len(end))], "-") + end
			}
			taken[p.file()] = true
			if f := m.Workload.Framework; f != nil {
				p.Port = ports[f.Name]
			}
			pools = append(pools, p)
		}
	}
	if len(pools) == 0 {
		return nil, nil, nil
	}
	folder, err := Build(pools)
	if err != nil {
		return nil, nil, err
	}
	return folder.Files, folder.Warnings, nil
}

// ports are those that servers of language models listen on by default.
var ports = map[string]int{"vllm": 8000, "sglang": 30000, "tgi": 80}

func routed(m *manifest.Member) bool {
	w := m.Workload
	if w.Kind != decision.KindOnlineInference || m.Replicas < 2 {
		return false
	}
	if w.Model != nil || !w.SLO.TPOTP99.IsZero() || w.Load != nil && !w.Load.OutputTokens.IsZero() {
		return true
	}
	return w.Framework != nil && ports[w.Framework.Name] > 0
}
