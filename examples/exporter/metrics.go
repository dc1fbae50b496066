package main

import (
	_ "embed" // what goes with the metrics
	"fmt"
	"io"
	"slices"
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

// metric is a family that the exporter exposes.
type metric struct {
	name, help string
	kind       dto.MetricType
	labels     []string
}

// metricOf returns the metric of a name.
func metricOf(name string) *metric {
	return &metrics[slices.IndexFunc(metrics, func(m metric) bool { return m.name == name })]
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
	{mSeconds, "Time of the GPU by account and tenant. Over all accounts of a GPU it is the time observed, until a " +
		"pod's series ends a day after the pod.", counter, rowLabels},
	{mSecondsLow, "The least that " + mSeconds + " can be.", counter, rowLabels},
	{mSecondsHigh, "The most that " + mSeconds + " can be.", counter, rowLabels},
	{mEnergy, "Energy of the GPU by account and tenant.", counter, rowLabels},
	{mCost, "Price of the GPU's time by account and tenant, in millionths of the currency's unit.", counter, rowLabels},
	{mTotalSeconds,
		"Time of the GPU by account and namespace. Its series never end: over all accounts it is the time observed.",
		counter, totalLabels},
	{mTotalEnergy, "Energy of the GPU by account and namespace.", counter, totalLabels},
	{mTotalCost, "Price of the GPU's time by account and namespace, in millionths.", counter, totalLabels},
	{mObserved, "Time since the GPU was first seen, whatever saw it.", counter, gpuLabels},
	{mUp, "Whether the GPU answers; the reason where it does not.", gauge, []string{"gpu", "reason"}},
	{mInfo, "What the GPU is and how it is shared.", gauge,
		[]string{"gpu", "node", "index", "name", "mechanism", "basis"}},
	{mPrice, "Price of an hour of the GPU, in millionths of the currency's unit.", gauge,
		[]string{"gpu", "node", "currency"}},
	{mWatts, "Power of the board.", gauge, gpuLabels},
	{mMemoryUsed, "Device memory in use.", gauge, gpuLabels},
	{mMemoryTotal, "Device memory there is.", gauge, gpuLabels},
	{mMemory, "Device memory that a tenant's processes hold; what is no pod's has empty labels.", gauge, podLabels},
	{mTenants, "Containers with a process on the GPU.", gauge, gpuLabels},
	{mHeld, "Devices of the GPU (it, its replicas or instances) that pods were given.", gauge, gpuLabels},
	{mSlots, "Devices of the GPU that the device plugin offers.", gauge, gpuLabels},
	{mIsolation, "How far the mechanism in use isolates tenants.", gauge, []string{"mechanism", "axis", "level"}},
	{mTrap, "Traps of the mechanism in use.", gauge, []string{"mechanism", "trap", "severity"}},
	{mTokens, "Tokens that a tenant's model server took in (kind prompt) and gave (generation) while its page was read " +
		"(-serving).", counter, tokenLabels},
	{mGoodLow, "Generated tokens of requests that kept the tenant's objective (-objective), at least.", counter,
		serverLabels},
	{mGoodHigh, "The same, at most.", counter, serverLabels},
	{mMPSServers, "MPS servers that the control daemon lists.", gauge, []string{"node"}},
	{mMPSClients, "MPS clients that the control daemon lists.", gauge, []string{"node"}},
	{mAnswers, "Whether what the exporter asks answers: kubelet, mps.", gauge, []string{"node", "source"}},
	{mUnknown, "Processes on GPUs whose pod is not known, by reason.", gauge, []string{"node", "reason"}},
	{mStoreErrors, "Failed attempts to store the accounts. They are tried again; nothing is shown that is not stored.",
		counter, []string{"node"}},
	{mStoredAt, "When the accounts were stored last.", gauge, []string{"node"}},
	{mRefused, "Postings that the ledger refused: a defect.", counter, []string{"node"}},
	{mSeriesDropped, "Series of pods that ended.", counter, []string{"node"}},
	{mReadSeconds, "How long readings took, by group.", histogram, []string{"group"}},
	{mExporterInfo, "The exporter: where its figures come from and how often it reads.", gauge,
		[]string{"node", "source", "basis", "period"}},
}

// The rules and the dashboard are files that go with the metrics; tests hold that every metric they name is there.
// A million tokens cost what the tenant's container was charged with, idle time too, over the tokens of the same
// time: cost.PerUnits in PromQL, in millionths of the currency's unit.
var (
	//go:embed deploy/rules.yaml
	rulesYAML string
	//go:embed deploy/dashboard.json
	dashboardJSON string
)

// printed holds the writers of rules, dashboard and table by their flags.
var printed = map[string]func(io.Writer) error{"rules": printing(rulesYAML), "dashboard": printing(dashboardJSON),
	"metrics": writeMetrics}

func printing(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// writeMetrics writes the table of metrics as Markdown.
func writeMetrics(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| metric | type | labels | what it is |\n|---|---|---|---|\n")
	for _, m := range metrics {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, strings.ToLower(m.kind.String()),
			strings.Join(m.labels, ", "), m.help)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
