package main

import (
	"strings"

	dto "github.com/prometheus/client_model/go"

	pages "github.com/cotenant/cotenant/examples/internal/page"
)

// The types of metrics.
const (
	counter   = dto.MetricType_COUNTER
	gauge     = dto.MetricType_GAUGE
	histogram = dto.MetricType_HISTOGRAM
)

// metric is a family that the exporter exposes. The dashboard, the rules and the README's table are made from this
// list, so that they cannot name what is not there.
type metric struct {
	name, help string
	kind       dto.MetricType
	labels     []string
	// panel is its place on the dashboard; the zero panel is none.
	panel panel
}

// pairs returns the metric's labels with their values, as text that can be shown.
func (m *metric) pairs(values ...string) []*dto.LabelPair {
	pairs, out := make([]dto.LabelPair, len(values)), make([]*dto.LabelPair, len(values))
	for i, v := range values {
		v = strings.Map(pages.Visible, v)
		pairs[i].Name, pairs[i].Value = &m.labels[i], &v
		out[i] = &pairs[i]
	}
	return out
}

// value returns one series of the metric.
func (m *metric) value(v float64, labels []*dto.LabelPair) *dto.Metric {
	if m.kind == counter {
		return &dto.Metric{Label: labels, Counter: &dto.Counter{Value: &v}}
	}
	return &dto.Metric{Label: labels, Gauge: &dto.Gauge{Value: &v}}
}

var (
	rowLabels    = []string{"gpu", "node", "account", "namespace", "pod", "container", "mechanism", "basis"}
	totalLabels  = []string{"gpu", "node", "account", "namespace"}
	gpuLabels    = []string{"gpu", "node"}
	podLabels    = []string{"gpu", "node", "namespace", "pod", "container"}
	serverLabels = []string{"namespace", "pod", "container"}
	tokenLabels  = append(serverLabels[:3:3], "kind")
)

// The metrics, by name.
const (
	mSeconds       = "cotenant_gpu_seconds_total"
	mSecondsLow    = "cotenant_gpu_seconds_low_total"
	mSecondsHigh   = "cotenant_gpu_seconds_high_total"
	mEnergy        = "cotenant_gpu_energy_joules_total"
	mCost          = "cotenant_gpu_cost_micros_total"
	mTotalSeconds  = "cotenant_gpu_account_seconds_total"
	mTotalEnergy   = "cotenant_gpu_account_energy_joules_total"
	mTotalCost     = "cotenant_gpu_account_cost_micros_total"
	mObserved      = "cotenant_gpu_observed_seconds_total"
	mUp            = "cotenant_gpu_up"
	mInfo          = "cotenant_gpu_info"
	mPrice         = "cotenant_gpu_price_micros_per_hour"
	mWatts         = "cotenant_gpu_power_watts"
	mMemoryUsed    = "cotenant_gpu_memory_used_bytes"
	mMemoryTotal   = "cotenant_gpu_memory_total_bytes"
	mMemory        = "cotenant_gpu_tenant_memory_bytes"
	mTenants       = "cotenant_gpu_resident_tenants"
	mHeld          = "cotenant_gpu_held_devices"
	mSlots         = "cotenant_gpu_offered_devices"
	mIsolation     = "cotenant_mechanism_isolation_info"
	mTrap          = "cotenant_mechanism_trap_info"
	mTokens        = "cotenant_tokens_total"
	mGoodLow       = "cotenant_good_tokens_low_total"
	mGoodHigh      = "cotenant_good_tokens_high_total"
	mMPSServers    = "cotenant_mps_servers"
	mMPSClients    = "cotenant_mps_clients"
	mAnswers       = "cotenant_exporter_source_up"
	mUnknown       = "cotenant_exporter_unidentified_processes"
	mStoreErrors   = "cotenant_exporter_store_errors_total"
	mStoredAt      = "cotenant_exporter_stored_timestamp_seconds"
	mRefused       = "cotenant_exporter_refused_postings_total"
	mReadSeconds   = "cotenant_exporter_read_seconds"
	mExporterInfo  = "cotenant_exporter_info"
	mSeriesDropped = "cotenant_exporter_expired_series_total"
)

var metrics = []metric{
	{mSeconds,
		"Time of the GPU by account and tenant. Over all accounts of a GPU it is the time observed, until a pod's series ends a day after the pod.", counter, rowLabels,
		panel{"GPU seconds per second, by account", "sum by (account) (rate(" + mSeconds + sel + "[$__rate_interval]))",
			"short", "{{account}}"}},
	{mSecondsLow, "The least that " + mSeconds + " can be.", counter, rowLabels, panel{}},
	{mSecondsHigh, "The most that " + mSeconds + " can be.", counter, rowLabels,
		panel{"Width of what can be told, by tenant", "sum by (namespace, pod) (rate(" + mSecondsHigh + tenantSel +
			"[$__rate_interval]) - rate(" + mSecondsLow + tenantSel + "[$__rate_interval]))", "percentunit",
			"{{namespace}}/{{pod}}"}},
	{mEnergy, "Energy of the GPU by account and tenant.", counter, rowLabels,
		panel{"Power by account", "sum by (account) (rate(" + mEnergy + sel + "[$__rate_interval]))", "watt", "{{account}}"}},
	{mCost, "Price of the GPU's time by account and tenant, in millionths of the currency's unit.", counter, rowLabels,
		panel{"Cost an hour by namespace", "sum by (namespace) (rate(" + mCost + sel +
			"[$__rate_interval])) * 3600 / 1e6", "short", "{{namespace}}"}},
	{mTotalSeconds,
		"Time of the GPU by account and namespace. Its series never end: over all accounts it is the time observed.",
		counter, totalLabels,
		panel{"GPU hours by namespace", "sum by (namespace, account) (" + mTotalSeconds + sel + ") / 3600", "short",
			"{{namespace}} {{account}}"}},
	{mTotalEnergy, "Energy of the GPU by account and namespace.", counter, totalLabels, panel{}},
	{mTotalCost, "Price of the GPU's time by account and namespace, in millionths.", counter, totalLabels,
		panel{"Cost by account", "sum by (account) (" + mTotalCost + sel + ") / 1e6", "short", "{{account}}"}},
	{mObserved, "Time since the GPU was first seen, whatever saw it.", counter, gpuLabels, panel{}},
	{mUp, "Whether the GPU answers; the reason where it does not.", gauge, []string{"gpu", "reason"},
		panel{"GPUs that answer", "min by (gpu, reason) (" + mUp + ")", "bool_yes_no", "{{gpu}} {{reason}}"}},
	{mInfo, "What the GPU is and how it is shared.", gauge,
		[]string{"gpu", "node", "index", "name", "mechanism", "basis"}, panel{}},
	{mPrice, "Price of an hour of the GPU, in millionths of the currency's unit.", gauge,
		[]string{"gpu", "node", "currency"}, panel{}},
	{mWatts, "Power of the board.", gauge, gpuLabels, panel{"Power by GPU", mWatts + sel, "watt", "{{gpu}}"}},
	{mMemoryUsed, "Device memory in use.", gauge, gpuLabels, panel{}},
	{mMemoryTotal, "Device memory there is.", gauge, gpuLabels, panel{}},
	{mMemory, "Device memory that a tenant's processes hold; what is no pod's has empty labels.", gauge, podLabels,
		panel{"Memory by tenant", "sum by (namespace, pod) (" + mMemory + sel + ")", "bytes", "{{namespace}}/{{pod}}"}},
	{mTenants, "Containers with a process on the GPU.", gauge, gpuLabels, panel{}},
	{mHeld, "Devices of the GPU (it, its replicas or instances) that pods were given.", gauge, gpuLabels,
		panel{"Devices given and offered", mHeld + sel, "short", "{{gpu}} given"}},
	{mSlots, "Devices of the GPU that the device plugin offers.", gauge, gpuLabels, panel{}},
	{mIsolation, "How far the mechanism in use isolates tenants.", gauge, []string{"mechanism", "axis", "level"}, panel{}},
	{mTrap, "Traps of the mechanism in use.", gauge, []string{"mechanism", "trap", "severity"}, panel{}},
	{mTokens,
		"Tokens that a tenant's model server took in (kind prompt) and gave (generation) while its page was read (-serving).", counter, tokenLabels,
		panel{"Cost of a million generated tokens", perMillion(sel, mTokens+`{kind="generation"}`, "$__rate_interval") +
			" / 1e6", "short", "{{namespace}}/{{pod}}"}},
	{mGoodLow, "Generated tokens of requests that kept the tenant's objective (-objective), at least.", counter,
		serverLabels,
		panel{"Cost of a million good tokens, at most", perMillion(sel, mGoodLow, "$__rate_interval") + " / 1e6", "short",
			"{{namespace}}/{{pod}}"}},
	{mGoodHigh, "The same, at most.", counter, serverLabels, panel{}},
	{mMPSServers, "MPS servers that the control daemon lists.", gauge, []string{"node"}, panel{}},
	{mMPSClients, "MPS clients that the control daemon lists.", gauge, []string{"node"}, panel{}},
	{mAnswers, "Whether what the exporter asks answers: kubelet, mps.", gauge, []string{"node", "source"}, panel{}},
	{mUnknown, "Processes on GPUs whose pod is not known, by reason.", gauge, []string{"node", "reason"},
		panel{"Processes of no pod", "sum by (reason) (" + mUnknown + sel + ")", "short", "{{reason}}"}},
	{mStoreErrors, "Failed attempts to store the accounts. They are tried again; nothing is shown that is not stored.",
		counter, []string{"node"}, panel{}},
	{mStoredAt, "When the accounts were stored last.", gauge, []string{"node"}, panel{}},
	{mRefused, "Postings that the ledger refused: a defect.", counter, []string{"node"}, panel{}},
	{mSeriesDropped, "Series of pods that ended.", counter, []string{"node"}, panel{}},
	{mReadSeconds, "How long readings took, by group.", histogram, []string{"group"}, panel{}},
	{mExporterInfo, "The exporter: where its figures come from and how often it reads.", gauge,
		[]string{"node", "source", "basis", "period"}, panel{}},
}
