package main

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/cotenant/cotenant/telemetry/ledger"
)

// costResponse is OpenCost's CustomCostResponse (protos/customcost in
// opencost/opencost) as JSON, with the costs since the accounts began.
type costResponse struct {
	Metadata   map[string]string `json:"metadata"`
	CostSource string            `json:"cost_source"`
	Domain     string            `json:"domain"`
	Version    string            `json:"version"`
	Currency   string            `json:"currency"`
	Start      time.Time         `json:"start"`
	End        time.Time         `json:"end"`
	Costs      []customCost      `json:"costs"`
	Errors     []string          `json:"errors"`
}

type customCost struct {
	AccountName    string            `json:"account_name"`
	ChargeCategory string            `json:"charge_category"`
	Description    string            `json:"description"`
	ResourceName   string            `json:"resource_name"`
	ResourceType   string            `json:"resource_type"`
	ID             string            `json:"id"`
	ProviderID     string            `json:"provider_id"`
	BilledCost     float64           `json:"billed_cost"`
	ListCost       float64           `json:"list_cost"`
	ListUnitPrice  float64           `json:"list_unit_price"`
	UsageQuantity  float64           `json:"usage_quantity"`
	UsageUnit      string            `json:"usage_unit"`
	Labels         map[string]string `json:"labels"`
}

// opencost serves the totals by GPU, namespace and account: hours, and what they
// cost.
func (e *exporter) opencost(w http.ResponseWriter, _ *http.Request) {
	v := e.col.shown.Load()
	r := costResponse{
		Metadata:   map[string]string{"api_client_version": "1", "basis": e.col.basis.String()},
		CostSource: "gpu-sharing", Domain: "cotenant", Version: "1", Start: e.start.UTC(), End: v.at.UTC(),
		Costs: []customCost{}, Errors: []string{},
	}
	prices, currency := e.pricesNow()
	r.Currency = currency
	for _, t := range v.Totals {
		r.Costs = append(r.Costs, e.customCost(t, prices[t.GPU]))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(r) // the client has gone
}

func (e *exporter) customCost(t ledger.Total, price float64) customCost {
	name := t.Account.String()
	if t.Namespace != "" {
		name = t.Namespace + " " + name
	}
	amount := float64(t.Micros) / 1e6
	return customCost{
		AccountName: e.c.node, ChargeCategory: "Usage", Description: "GPU time: " + t.Account.String(),
		ResourceName: name, ResourceType: "GPU",
		ID: e.c.node + "/" + t.GPU + "/" + name, ProviderID: t.GPU, BilledCost: amount, ListCost: amount,
		ListUnitPrice: price,
		UsageQuantity: t.Time.Hours(), UsageUnit: "GPU-hours", Labels: map[string]string{"namespace": t.Namespace,
			"account": t.Account.String(), "node": e.c.node, "gpu": t.GPU},
	}
}

// pricesNow returns the price of each GPU's hour and their currency.
func (e *exporter) pricesNow() (hour map[string]float64, currency string) {
	hour = map[string]float64{}
	for _, d := range e.a.Devices() {
		if c := d.Price.Currency(); c != "" {
			hour[d.UUID], currency = float64(d.Price.Micros())/1e6, c
		}
	}
	return hour, currency
}
