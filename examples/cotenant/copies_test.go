// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
)

func TestCopies(t *testing.T) {
	code, out, errs := program(t, "", "copies", "-rate", "50/s", "-gpu-busy", "0.33", "-memory", "12GiB", "-gpu", "h100-sxm5-80gb")
	if code != exitDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	golden.Check(t, "testdata/copies.txt", []byte(out))
}

// TestCopiesProfile takes the figures of one tenant alone from rows that measure wrote.
func TestCopiesProfile(t *testing.T) {
	code, out, errs := program(t, "", "copies", "-json", "-mechanism", "mps", "-profile", predictRows+"h200-two-models.json")
	var rep copiesReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil || code != exitDone || len(rep.Curves) != 1 ||
		!rep.Curves[0].Points[1].Measured {
		t.Errorf("exit %d: %s, %v: %s", code, errs, err, out)
	}
}

// TestCopiesMetrics takes the rate and the times of a request from two pages of a server, a minute apart.
func TestCopiesMetrics(t *testing.T) {
	var args []string
	for i, n := range []int{600, 1800} {
		text := fmt.Sprintf("# TYPE nv_inference_request_success counter\nnv_inference_request_success %d\n# TYPE nv_inference_exec_count counter\nnv_inference_exec_count %[1]d\n"+
			"# TYPE nv_inference_request_duration_us counter\nnv_inference_request_duration_us %d\n# TYPE nv_inference_compute_infer_duration_us counter\n"+
			"nv_inference_compute_infer_duration_us %d\n", n, 40_000*n, 25_000*n)
		name, at := filepath.Join(t.TempDir(), fmt.Sprint(i)), time.Unix(1_800_000_000+int64(60*i), 0)
		if err := errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chtimes(name, at, at)); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-metrics", name)
	}
	var reports [2]copiesReport
	for i, args := range [][]string{args, {"-rate", "20/s", "-latency", "40ms", "-gpu-time", "25ms", "-host-time", "15ms"}} {
		code, out, errs := program(t, "", append([]string{"copies", "-json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &reports[i]); err != nil || code != exitDone {
			t.Fatalf("exit %d: %s, %v", code, errs, err)
		}
	}
	if diff := cmp.Diff(reports[1], reports[0]); diff != "" {
		t.Error(diff)
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
		"-gpu-busy 0.3 -profile no.json":       "no.json",
		"-metrics copies_test.go":              "-metrics: copies_test.go: serving: no metric",
		"-gpu-busy 0.3 -objective 1s":          "give the latency",
	} {
		code, _, errs := program(t, "", append([]string{"copies"}, strings.Fields(args)...)...)
		if code != exitBadInput || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d: %s", args, code, errs)
		}
	}
}
