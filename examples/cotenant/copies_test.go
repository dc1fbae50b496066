// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/copies"
	"github.com/cotenant/cotenant/internal/golden"
)

func TestCopies(t *testing.T) {
	code, out, errs := program(t, "", "copies", "-rate", "50/s", "-gpu-busy", "0.33", "-memory", "12GiB", "-gpu", "h100-sxm5-80gb")
	if code != exitDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	golden.Check(t, "testdata/copies.txt", []byte(out))
}

// TestCopiesRows reads the answers as a script would.
func TestCopiesRows(t *testing.T) {
	code, out, errs := program(t, "", "copies", "-json", "-rows", "../../decision/predict/copies/testdata/copies-published.json")
	var answers struct {
		Rows []copies.Answer `json:"rows"`
	}
	if err := json.Unmarshal([]byte(out), &answers); err != nil || code != exitDone || len(answers.Rows) != 78 {
		t.Fatalf("exit %d: %s, %v, %d rows", code, errs, err, len(answers.Rows))
	}
	code, out, _ = program(t, `{"rows": [{"id": "x", "mechanism": "mps", "copies": 2, "busy_alone_fraction": 3}]}`, "copies", "-rows", "-")
	if code != exitDone || !strings.Contains(out, "unknown: ") {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestCopiesProfile takes the figures of one isolated tenant from rows that measure wrote.
func TestCopiesProfile(t *testing.T) {
	code, out, errs := program(t, "", "copies", "-json", "-mechanism", "mps", "-profile", predictRows+"h200-two-models.json")
	var rep copiesReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil || code != exitDone || len(rep.Curves) != 1 ||
		!rep.Curves[0].Points[1].Measured {
		t.Errorf("exit %d: %s, %v: %s", code, errs, err, out)
	}
}

func TestCopiesBadInput(t *testing.T) {
	for args, want := range map[string]string{
		"":                                     "one of GPU busy",
		"-rate 50":                             "one of GPU busy",
		"-gpu-busy 0":                          "gpu_busy: 0",
		"-gpu-busy 1.5 -sm-active 2":           "sm_active: 2",
		"-rate 200 -gpu-time 8ms":              "1.60 seconds of GPU time a second",
		"-gpu-busy 0.3 -memory 30GiB -gpu l4":  "does not fit",
		"-gpu-busy 0.3 -mechanism mig -gpu l4": "L4 has no MIG",
		"-gpu-busy 0.3 -load twice -gpu x100":  "-load: \"twice\"",
		"-rows no.json -gpu-busy 0.3":          "reads these figures from the file",
		"-gpu-busy 0.3 -profile no.json":       "no.json",
		"-gpu-busy 0.3 -objective 1s":          "give the latency",
	} {
		code, _, errs := program(t, "", append([]string{"copies"}, strings.Fields(args)...)...)
		if code != exitBadInput || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d: %s", args, code, errs)
		}
	}
}
