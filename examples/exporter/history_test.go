package main

import (
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cotenant/cotenant/telemetry/account"
	"github.com/cotenant/cotenant/telemetry/ledger"
)

// TestHistoryWindows posts three weeks of two GPUs with gaps and restarts, and holds
// every hour and day that can be asked for to the time that passed in it.
func TestHistoryWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 1))
	const price = 3_600_000 // micros an hour: one for each millisecond
	now := time.Date(2026, 11, 1, 7, 20, 0, 0, time.UTC)
	begun := now
	stored := map[string]ledger.Record{}
	store := func(list []ledger.Record) {
		for _, x := range list {
			if stored[x.Name] = x; x.Value == nil {
				delete(stored, x.Name)
			}
		}
	}
	h, _, changed := openHistory(nil, 1, now)
	store(changed)
	through := map[string]time.Time{"A": now, "B": now}
	v := account.View{Observed: map[string]time.Duration{}}
	sums := totals{}
	end := now.Add(21 * 24 * time.Hour)
	for now.Before(end) {
		step := time.Duration(10+r.IntN(600)) * time.Second
		if r.IntN(400) == 0 {
			step = time.Duration(r.IntN(30*3600)) * time.Second // nobody looks
		}
		now = now.Add(step)
		if step > time.Hour || r.IntN(100) == 0 {
			var others []ledger.Record
			h, others, changed = openHistory(append(slices.Collect(maps.Values(stored)), ledger.Record{Name: "row x"}), 1, now)
			if len(others) != 1 || len(changed) != 0 {
				t.Fatal(others, changed)
			}
			h.view = v
		}
		for _, gpu := range []string{"A", "B"} { // each is posted at times of its own
			if r.IntN(3) == 0 {
				continue
			}
			span := now.Sub(through[gpu])
			key := ledger.TotalKey{GPU: gpu, Account: ledger.AccountTenant, Namespace: "n"}
			a := sums[key]
			a.Time, a.Micros = a.Time+span, a.Micros+span.Milliseconds()*price/3_600_000
			sums[key], through[gpu] = a, now
			v.Observed = maps.Clone(v.Observed)
			v.Observed[gpu] += span
		}
		v.Totals = nil
		for k, a := range sums {
			v.Totals = append(v.Totals, ledger.Total{TotalKey: k, Amount: a})
		}
		store(h.note(v, now))
	}
	check := func(from, to time.Time, want time.Duration) {
		t.Helper()
		before, err := h.until(from)
		after, err2 := h.until(to)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for k := range sums {
			got := combine(after[k], before[k], minus)
			if off := got.Time - want; off.Abs() > time.Second || max(got.Micros-want.Milliseconds(), want.Milliseconds()-got.Micros) > 1000 {
				t.Errorf("%s from %v to %v: %v, %d", k.GPU, from, to, got.Time, got.Micros)
			}
		}
	}
	hour := through["A"]
	if through["B"].Before(hour) {
		hour = through["B"]
	}
	hour = hour.Truncate(time.Hour)
	for i := range 49 {
		check(hour.Add(-time.Duration(i+1)*time.Hour), hour.Add(-time.Duration(i)*time.Hour), time.Hour)
	}
	day := hour.Truncate(24 * time.Hour)
	for i := range 14 {
		check(day.AddDate(0, 0, -i-1), day.AddDate(0, 0, -i), 24*time.Hour)
	}
	check(begun.Add(-time.Hour), hour, hour.Sub(begun))
	if _, err := h.until(hour.AddDate(0, 0, -9).Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "midnight") {
		t.Error(err)
	}
	if n := len(h.moments); n > 70 || n != len(stored) {
		t.Errorf("%d moments, %d stored", n, len(stored))
	}
}

// customCostFile describes OpenCost's messages by the facts of
// protos/customcost/messages.proto of opencost/opencost: names, numbers and types.
func customCostFile(t *testing.T) *dynamicpb.Message {
	t.Helper()
	message := func(name string, fields ...string) *descriptorpb.DescriptorProto {
		m := &descriptorpb.DescriptorProto{Name: proto.String(name)}
		for i, f := range fields {
			kind, name, _ := strings.Cut(f, " ")
			d := &descriptorpb.FieldDescriptorProto{Name: proto.String(name), Number: proto.Int32(int32(i + 1)),
				Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
			if rest, ok := strings.CutPrefix(kind, "repeated:"); ok {
				kind, d.Label = rest, descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			}
			switch kind {
			case "string":
				d.Type = descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()
			case "float":
				d.Type = descriptorpb.FieldDescriptorProto_TYPE_FLOAT.Enum()
			case "map":
				entry := strings.ToUpper(name[:1]) + name[1:] + "Entry"
				text := descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()
				m.NestedType = append(m.NestedType, &descriptorpb.DescriptorProto{
					Name: proto.String(entry), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
					Field: []*descriptorpb.FieldDescriptorProto{
						{Name: proto.String("key"), Number: proto.Int32(1), Type: text, Label: d.Label},
						{Name: proto.String("value"), Number: proto.Int32(2), Type: text, Label: d.Label},
					}})
				d.Type, d.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(".customcost.messages."+*m.Name+"."+entry)
				d.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			default:
				d.Type, d.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(kind)
			}
			m.Field = append(m.Field, d)
		}
		return m
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Syntax: proto.String("proto3"), Name: proto.String("customcost.proto"), Package: proto.String("customcost.messages"),
		Dependency: []string{"google/protobuf/timestamp.proto"},
		MessageType: []*descriptorpb.DescriptorProto{
			message("CustomCostResponse", "map metadata", "string cost_source", "string domain", "string version",
				"string currency", ".google.protobuf.Timestamp start", ".google.protobuf.Timestamp end",
				"repeated:.customcost.messages.CustomCost costs", "repeated:string errors"),
			message("CustomCost", "map metadata", "string zone", "string account_name", "string charge_category",
				"string description", "string resource_name", "string resource_type", "string id", "string provider_id",
				"float billed_cost", "float list_cost", "float list_unit_price", "float usage_quantity", "string usage_unit",
				"map labels"),
		},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return dynamicpb.NewMessage(file.Messages().ByName("CustomCostResponse"))
}

// TestOpenCostRequest asks as OpenCost asks its plugins, and reads the answer as it
// reads theirs.
func TestOpenCostRequest(t *testing.T) {
	e, url := started(t, "")
	kind := customCostFile(t)
	get := func(query string) (string, int) {
		resp, err := http.Get(url + "/opencost" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b), resp.StatusCode
	}
	e.mu.Lock()
	now := e.history.last
	e.mu.Unlock()
	start := now.Truncate(time.Hour).UTC()
	for query, want := range map[string]int{
		"": 1,
		"?start=" + start.Add(-3*time.Hour).Format(time.RFC3339) + "&end=" + start.Add(time.Hour).Format(time.RFC3339) + "&resolution=1h":                                   4,
		"?start=" + start.Truncate(24*time.Hour).Format(time.RFC3339) + "&end=" + start.Truncate(24*time.Hour).AddDate(0, 0, 1).Format(time.RFC3339) + "&resolution=86400s": 1,
		"?start=" + start.Add(48*time.Hour).Format(time.RFC3339) + "&end=" + start.Add(49*time.Hour).Format(time.RFC3339):                                                   0,
	} {
		text, code := get(query)
		var raw []json.RawMessage
		if err := json.Unmarshal([]byte(text), &raw); err != nil || code != http.StatusOK || len(raw) != want {
			t.Fatalf("%s: %d answers, %d, %v: %.300s", query, len(raw), code, err, text)
		}
		costs := 0
		for _, r := range raw {
			m := kind.New().Interface().(*dynamicpb.Message)
			if err := protojson.Unmarshal(r, m); err != nil {
				t.Fatalf("%s: %v: %.300s", query, err, r)
			}
			fields := m.Descriptor().Fields()
			costs += m.Get(fields.ByName("costs")).List().Len()
			if n := m.Get(fields.ByName("errors")).List().Len(); n != 0 || m.Get(fields.ByName("domain")).String() != "cotenant" {
				t.Errorf("%s: %.300s", query, r)
			}
		}
		if want > 0 && costs == 0 {
			t.Errorf("%s: no costs", query)
		}
	}
	for query, want := range map[string]string{
		"?start=yesterday": "RFC 3339",
		"?resolution=1m":   "1h or more",
		"?start=2026-01-01T00:00:00Z&end=2026-01-01T00:00:00Z": "before the end",
		"?start=2016-01-01T00:00:00Z&resolution=1h":            "at most",
	} {
		if text, code := get(query); code != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", query, code, text)
		}
	}
}

// TestLabelsAreShown keeps what a driver or a kubelet calls things from steering a
// terminal that prints the page.
func TestLabelsAreShown(t *testing.T) {
	m := &metric{labels: []string{"pod"}}
	if got := m.pairs("a\x1b[2J\xff")[0].GetValue(); got != "a␛[2J\uFFFD" {
		t.Errorf("%q", got)
	}
}
