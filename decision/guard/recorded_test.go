// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// TestRecorded plays the observations of two model servers and a job on an H100 (driver 580.159.04): eight minutes of
// quiet at two requests a second each, then a process that starts to multiply matrices, then the job, which held a
// context all the time, doing the same. No tenant is named in the quiet time, and after it only the disturbers, within
// ten seconds.
func TestRecorded(t *testing.T) {
	tenants := []Tenant{
		{Name: "a/chat-3b", Kind: decision.KindOnlineInference, Holds: 0.4},
		{Name: "b/chat-1b", Kind: decision.KindOnlineInference, Holds: 0.3},
		{Name: "c/job", Kind: decision.KindBatch, Holds: 0.3},
	}
	for _, c := range []struct {
		file      string
		mechanism sharing.Mechanism
		process   string
		on        [2]time.Duration // when they were switched on
	}{
		{"h100-time-slicing.jsonl.gz", sharing.MechanismTimeSlicing, "process 949", [2]time.Duration{480_190 * time.Millisecond, 504_160 * time.Millisecond}},
		{"h100-mps.jsonl.gz", sharing.MechanismMPS, "process 935", [2]time.Duration{480_180 * time.Millisecond, 502_150 * time.Millisecond}},
	} {
		file, err := os.Open("testdata/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		text, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		var all []Observation
		for lines := bufio.NewScanner(text); lines.Scan(); {
			var o Observation
			if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
				t.Fatal(err)
			}
			all = append(all, o)
		}
		// Wherever it begins, a minute of learning must suffice.
		for from := 180; from >= 0; from -= 10 {
			g, err := New(DefaultRules(2*time.Second), Config{GPUs: []layout.Device{{Mode: c.mechanism}}, Tenants: tenants})
			if err != nil {
				t.Fatal(err)
			}
			named := map[string]time.Duration{}
			evaluated := 0
			for _, o := range all[from:] {
				for _, p := range g.Step(o) {
					if o.At < c.on[0] || p.Target != c.process && p.Target != "c/job" || o.At < c.on[1] && p.Target == "c/job" {
						t.Errorf("%v from window %d at %v: %s %s: %q", c.mechanism, from, o.At, p.Action, p.Target, p.Evidence)
					}
					if newcomer := strings.Contains(p.Evidence[1], "was not there before"); newcomer != (c.mechanism == sharing.MechanismMPS && p.Target == c.process) {
						t.Errorf("%v: %q", c.mechanism, p.Evidence)
					}
					if _, twice := named[p.Target]; !twice {
						named[p.Target] = o.At
					}
				}
				if o.At < c.on[0] && !g.devices[0].blind {
					evaluated++
				}
			}
			for i, name := range []string{c.process, "c/job"} {
				if after := named[name] - c.on[i]; after <= 0 || after > 10*time.Second {
					t.Errorf("%v from window %d: %s is named at %v, switched on at %v", c.mechanism, from, name, named[name], c.on[i])
				}
			}
			if want := 9 * (240 - from) / 10; evaluated < want {
				t.Errorf("%v from window %d: only %d windows of the quiet time could be evaluated", c.mechanism, from, evaluated)
			}
		}
	}
}
