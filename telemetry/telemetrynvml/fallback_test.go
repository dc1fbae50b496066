// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !cgo

package telemetrynvml_test

import (
	"errors"
	"testing"

	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

func TestOpenSaysWhyThereIsNoDriver(t *testing.T) {
	if _, err := telemetrynvml.Open(telemetrynvml.Options{}); !errors.Is(err, telemetrynvml.ErrUnavailable) || len(err.Error()) < 50 {
		t.Errorf("err = %v", err)
	}
}
