// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"-json"}, &out, &errs); code != 130 || !strings.Contains(errs.String(), "interrupted after 0 of 50 fleets") || !json.Valid(out.Bytes()) {
		t.Errorf("exit %d, %s%s", code, errs.String(), out.String())
	}
}

func TestFlags(t *testing.T) {
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"-fleets", "0", "-confidence", "2", "more"}, io.Discard, &stderr); code != 2 {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"judge: -fleets: 0", "judge: -confidence: 2", `judge: unexpected argument "more"`} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in %q", want, stderr.String())
		}
	}
	var help bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, &help, io.Discard); code != 0 || !strings.Contains(help.String(), "-confidence") {
		t.Errorf("exit %d: %s", code, help.String())
	}
}
