package main

import (
	"io"

	"go.yaml.in/yaml/v3"
)

// rule is a recording or an alert rule, in the form of Prometheus' files.
type rule struct {
	Record      string            `yaml:"record,omitempty"`
	Alert       string            `yaml:"alert,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

// unattributedLimit is the share of a GPU's time that may stay unattributed.
const unattributedLimit = "0.05"

func alert(name, severity, expr, wait, summary string) rule {
	return rule{Alert: name, Expr: expr, For: wait, Labels: map[string]string{"severity": severity},
		Annotations: map[string]string{"summary": summary}}
}

// perMillion is a query for the cost of a million tokens to a tenant, by mechanism: all that its container was
// charged with, idle time too, over the tokens of the same time. It is cost.PerUnits in PromQL, in millionths of
// the currency's unit, as a test holds; there is none for a tenant that served nothing. costs are labels of the
// costs, tokens a series of tokens.
func perMillion(costs, tokens, span string) string {
	const tenant = "namespace, pod, container"
	return "1e6 * sum by (" + tenant + ", mechanism) (rate(" + mCost + costs + "[" + span + "])) / on (" + tenant + ") group_left () (sum by (" + tenant + ") (rate(" + tokens + "[" + span + "])) > 0)"
}

// tokenCosts are the rules of what a million tokens cost. A million good ones cost the least where most were good.
func tokenCosts() (out []rule) {
	for _, r := range []struct {
		tokens string
		labels map[string]string
	}{
		{mTokens + `{kind="prompt"}`, map[string]string{"kind": "prompt"}},
		{mTokens + `{kind="generation"}`, map[string]string{"kind": "generation"}},
		{mGoodHigh, map[string]string{"kind": "good", "bound": "low"}},
		{mGoodLow, map[string]string{"kind": "good", "bound": "high"}},
	} {
		out = append(out, rule{Record: "cotenant:tenant_tokens:micros_per_million", Expr: perMillion("", r.tokens, "1h"),
			Labels: r.labels})
	}
	return out
}

func ruleGroups() []ruleGroup {
	const (
		share  = "cotenant:gpu_account:share5m"
		tenant = "cotenant:gpu_tenant:share5m"
	)
	return []ruleGroup{
		{"cotenant-recorded", append(tokenCosts(), []rule{
			{Record: share, Expr: "sum by (node, gpu, account) (rate(" + mTotalSeconds +
				"[5m])) / on (node, gpu) group_left () rate(" + mObserved + "[5m])"},
			{Record: tenant, Expr: "sum by (node, gpu, namespace, pod, mechanism, account) (rate(" + mSeconds +
				`{pod!=""}[5m]))`},
			{Record: "cotenant:namespace_cost:micros_per_hour", Expr: "sum by (namespace) (rate(" + mTotalCost +
				"[1h])) * 3600"},
			{Record: "cotenant:namespace_watts:mean1h", Expr: "sum by (namespace) (rate(" + mTotalEnergy + "[1h]))"},
		}...)},
		{"cotenant-alerts", []rule{
			alert("GPUHeldIdle", "warning",
				"sum by (node, gpu, namespace, pod) ("+tenant+`{account=~"held-idle|execution-idle"}) > 0.95`, "1h",
				"{{ $labels.namespace }}/{{ $labels.pod }} has held {{ $labels.gpu }} for an hour without using it."),
			alert("GPUIdle", "info", share+`{account="idle"} > 0.95`, "6h",
				"Nobody has held {{ $labels.gpu }} of {{ $labels.node }} for six hours."),
			alert("GPUMemoryOversubscribed", "warning",
				mMemoryUsed+" / "+mMemoryTotal+" > 0.95 and on (node, gpu) "+mTenants+" > 1", "5m",
				"Tenants of {{ $labels.gpu }} hold {{ $value | humanizePercentage }} of its memory together; the next allocation of any of them can fail."),
			alert("GPUNeighbourSlowdown", "warning",
				"sum by (node, gpu) ("+tenant+`{account="tenant",mechanism=~"time-slicing|mps|hami"}) > 0.9 and on (node, gpu) count by (node, gpu) (`+tenant+`{account="tenant"} > 0.1) > 1`, "10m",
				"Several tenants want all of {{ $labels.gpu }}: each waits for the others."),
			alert("MPSServerGone", "critical",
				mMPSServers+" == 0 and max_over_time("+mMPSServers+"[15m]) > 0 or "+mAnswers+`{source="mps"} == 0`, "1m",
				"The MPS server or its control daemon on {{ $labels.node }} is gone; its clients have lost their work."),
			alert("GPUUnattributed", "warning", share+`{account="unattributed"} > `+unattributedLimit, "15m",
				"{{ $value | humanizePercentage }} of the time of {{ $labels.gpu }} of {{ $labels.node }} belongs to no pod that is known."),
			alert("GPUDown", "critical", mUp+" == 0", "2m", "{{ $labels.gpu }} does not answer: {{ $labels.reason }}."),
			alert("GPUExporterCannotStore", "critical", "increase("+mStoreErrors+"[5m]) > 0", "5m",
				"The exporter on {{ $labels.node }} cannot store its accounts; its counters stand still."),
			alert("GPUAccountsContradict", "critical",
				"abs(sum by (node, gpu) ("+mTotalSeconds+") - on (node, gpu) "+mObserved+") > 1", "5m",
				"The accounts of {{ $labels.gpu }} do not add up to the time observed: a defect."),
		}},
	}
}

// writeRules writes the rules as a file for Prometheus.
func writeRules(w io.Writer) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(map[string]any{"groups": ruleGroups()}); err != nil {
		return err
	}
	return e.Close()
}
