// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"encoding"
	"errors"
	"testing"

	"github.com/cotenant/cotenant/internal/enum"
)

// checkEnum holds the texts of all values against a round trip.
func checkEnum[T interface {
	~uint8
	encoding.TextMarshaler
}, P interface {
	*T
	encoding.TextUnmarshaler
}](t *testing.T, names *enum.Names[T]) {
	t.Helper()
	var back T
	for _, v := range names.Values() {
		b, err := v.MarshalText()
		if err != nil || string(b) != names.String(v) {
			t.Errorf("%d: %s, %v", v, b, err)
		}
		if err := P(&back).UnmarshalText(b); err != nil || back != v {
			t.Errorf("%s comes back as %d, %v", b, back, err)
		}
	}
	if _, err := T(len(names.Values())).MarshalText(); !errors.Is(err, ErrUnknownName) {
		t.Errorf("%v", err)
	}
	if err := P(&back).UnmarshalText([]byte("nonsense")); !errors.Is(err, ErrUnknownName) {
		t.Errorf("%v", err)
	}
}

func TestEnumTexts(t *testing.T) {
	checkEnum(t, classNames)
	checkEnum(t, apiNames)
	checkEnum(t, usageNames)
	checkEnum(t, metricNames)
	checkEnum(t, tokenSourceNames)
	if len(metricNames.Values()) != metricCount {
		t.Errorf("%d names for %d metrics", len(metricNames.Values()), metricCount)
	}
	for _, m := range metricNames.Values() {
		if definitions()[m.String()] == "" {
			t.Errorf("%v is not defined", m)
		}
	}
}
