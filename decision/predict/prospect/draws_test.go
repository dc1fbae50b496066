package prospect

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/sharing"
	"github.com/google/go-cmp/cmp"
)

// Whatever is said of a tenant, its GPU or its share is part of what simulations are
// known by, but for whose replica it is and for the floor under the outcome.
func TestSimulationsAreToldApart(t *testing.T) {
	base := func() *evaluation {
		return &evaluation{machine: costs.Machine{Bandwidth: 2, FLOPs: 3}, share: costs.Share{Mechanism: sharing.MechanismMPS, SMs: 1, Bandwidth: 1}, tenants: []Tenant{{Serving: new(Serving)}, {}}}
	}
	var check func(e *evaluation, v reflect.Value, path string)
	check = func(e *evaluation, v reflect.Value, path string) {
		before := e.key()
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				check(e, v.Field(i), path+"."+v.Type().Field(i).Name)
			}
			return
		case reflect.Array:
			for i := range v.Len() {
				check(e, v.Index(i), path)
			}
			return
		case reflect.Pointer:
			check(e, v.Elem(), path)
			v.SetZero()
		case reflect.Float64:
			v.SetFloat(v.Float() + 1)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Uint8:
			v.SetUint(v.Uint() + 1)
		case reflect.Int:
			v.SetInt(v.Int() + 1)
		default:
			t.Errorf("%s: %s is not told apart", path, v.Type())
		}
		floor := path == "machine.Narrowest" || strings.HasPrefix(path, "tenant.Least.") // which bound what was played
		if same := e.key() == before; same != (floor || path == "tenant.Workload" || path == "tenant.AloneSigma" || path == "tenant.Slower") {
			t.Errorf("%s: the same: %v", path, same)
		}
	}
	e := base()
	check(e, reflect.ValueOf(&e.machine).Elem(), "machine")
	check(e, reflect.ValueOf(&e.share).Elem(), "share")
	check(e, reflect.ValueOf(&e.tenants[0]).Elem(), "tenant")
	if e, f := base(), base(); e.key() != f.key() {
		t.Error("the same is not known again")
	}
}

// What a simulation leaves behind changes nothing for the next, whose tenants are more, fewer or of other kinds.
func TestStageIsAsNew(t *testing.T) {
	llm := Tenant{Serving: &Serving{PerS: 2, Input: 500, Output: 100, Weights: 16e9, Parameters: 8e9, KVPerToken: 131072, Layers: 32}, Limits: [costs.LatencyCount]float64{costs.LatencyTTFT: 1, costs.LatencyTPOT: 0.1}}
	server := Tenant{Busy: 0.2, Online: true, Alone: [costs.LatencyCount]float64{costs.LatencyE2E: 0.2}, Limits: [costs.LatencyCount]float64{costs.LatencyE2E: 0.5}}
	batch := Tenant{Busy: 0.3}
	played := func(on *stage, tenants ...Tenant) (out [][costs.LatencyCount + 1][]float64) {
		e := evaluation{machine: costs.Machine{Bandwidth: 2e12, FLOPs: 3e14}, share: costs.Share{Mechanism: sharing.MechanismMPS, SMs: 1, Bandwidth: 1}, tenants: tenants}
		for _, p := range e.play(on) {
			out = append(out, [costs.LatencyCount + 1][]float64{})
			for k, s := range p.samples {
				out[len(out)-1][k] = append([]float64(nil), s...)
			}
		}
		return out
	}
	used := new(stage)
	for _, tenants := range [][]Tenant{{llm}, {llm, server, batch, llm}, {batch, llm}, {server, server}, {llm, server, batch, llm}} {
		if d := cmp.Diff(played(new(stage), tenants...), played(used, tenants...)); d != "" {
			t.Fatalf("%d tenants: %.400s", len(tenants), d)
		}
	}
	if alone, beside := played(new(stage), llm)[0], played(used, llm)[0]; len(alone[costs.LatencyE2E]) < fewestSimulated || !cmp.Equal(alone, beside) {
		t.Errorf("%d requests were played", len(alone[costs.LatencyE2E]))
	}
}
