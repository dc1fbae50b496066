package loadgen

import (
	"encoding"
	"errors"
	"testing"
)

func TestEnumTexts(t *testing.T) {
	for _, e := range []struct {
		names []string
		value func(int) encoding.TextMarshaler
		into  encoding.TextUnmarshaler
	}{
		{classNames, func(i int) encoding.TextMarshaler { return Class(i) }, new(Class)},
		{apiNames, func(i int) encoding.TextMarshaler { return API(i) }, new(API)},
		{routingNames, func(i int) encoding.TextMarshaler { return Routing(i) }, new(Routing)},
		{usageNames, func(i int) encoding.TextMarshaler { return UsageMode(i) }, new(UsageMode)},
		{pacingNames, func(i int) encoding.TextMarshaler { return Pacing(i) }, new(Pacing)},
		{metricNames, func(i int) encoding.TextMarshaler { return Metric(i) }, new(Metric)},
		{tokenSourceNames, func(i int) encoding.TextMarshaler { return TokenSource(i) }, new(TokenSource)},
	} {
		for i, name := range e.names {
			b, err := e.value(i).MarshalText()
			if err != nil || string(b) != name {
				t.Errorf("%d: %s, %v", i, b, err)
			}
			if err := e.into.UnmarshalText(b); err != nil {
				t.Error(err)
			}
			if back, err := e.into.(encoding.TextMarshaler).MarshalText(); err != nil || string(back) != name {
				t.Errorf("%s comes back as %s, %v", name, back, err)
			}
		}
		if _, err := e.value(len(e.names)).MarshalText(); !errors.Is(err, ErrUnknownName) {
			t.Errorf("%v", err)
		}
		if err := e.into.UnmarshalText([]byte("nonsense")); !errors.Is(err, ErrUnknownName) {
			t.Errorf("%v", err)
		}
	}
	if len(metricNames) != metricCount {
		t.Errorf("%d names for %d metrics", len(metricNames), metricCount)
	}
	for _, m := range Metrics() {
		if definitions[m.String()] == "" {
			t.Errorf("%v is not defined", m)
		}
	}
}
