// SPDX-License-Identifier: Apache-2.0

package parted_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/parted"
	"github.com/cotenant/cotenant/sharing"
)

const partedText = `version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false
  all-enabled:
    - devices: all
      mig-enabled: true
      mig-devices: {}
  balanced:
    - device-filter: ["0x20b010DE", "0x20B110DE"]
      devices: all
      mig-enabled: true
      mig-devices: {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}
    - device-filter: "0x2BB310DE:0x204D10DE"
      devices: [0, 2]
      mig-enabled: true
      mig-devices:
        "1g.24gb": 1
  cut:
    - devices: [1]
      mig-enabled: true
      mig-devices: {"1c.3g.20gb": 2, "4c.4g.20gb": 1}
`

func TestPartedRoundTrip(t *testing.T) {
	c := must.Get(parted.Parse([]byte(partedText)))(t)
	out := must.Get(c.Marshal())(t)
	golden.Check(t, "testdata/parted.yaml", out)
	back := must.Get(parted.Parse(out))(t)
	if diff := cmp.Diff(c, back); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
}

func TestParsePartedErrors(t *testing.T) {
	entry := func(s string) string { return "version: v1\nmig-configs:\n  a:\n    - " + s + "\n" }
	for _, c := range []struct{ in, want string }{
		{"", "empty"},
		{"version: v2\nmig-configs: {a: [{devices: all, mig-enabled: false}]}", `version: is "v2"`},
		{"mig-configs: {a: [{devices: all, mig-enabled: false}]}", "version: is missing"},
		{"version: v1\nmig-configs: {}", "has no labels"},
		{"version: v1\nmig-configs: {a: []}", "has no entries"},
		{entry("{devices: some, mig-enabled: false}"), "selects no devices"},
		{entry("{devices: [-1], mig-enabled: false}"), "no device index"},
		{entry("{mig-enabled: false}"), "mig-configs.a[0].devices: is missing"},
		{entry("{devices: all}"), "mig-enabled: is missing"},
		{entry("{devices: all, mig-enabled: true}"), "mig-devices: is missing"},
		{entry("{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}"), "MIG is disabled"},
		{entry("{devices: all, mig-enabled: true, mig-devices: {9x: 1}}"), "not a MIG profile name"},
		{entry("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: -1}}"), "-1 is not a count"},
		{entry("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 99999999999999999999}}"), "whole number"},
		{entry("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}"), "every count is 0"},
		{entry("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 1, 1c.1g.5gb: 1}}"), "same profile"},
		{entry("{devices: all, mig-enabled: true, mig-devices: {}, device-filter: 0x233510DE}"), "must be a string"},
		{entry(`{devices: all, mig-enabled: true, mig-devices: {}, device-filter: "0x2"}`), "not a device filter"},
		{entry("{devices: all, mig-enabled: true, mig-devices: {}, surprise: 1}"), "unknown key"},
		{entry("{devices: &x all, mig-enabled: true, mig-devices: {}}"), "anchors"},
		{entry("{devices: all, devices: all, mig-enabled: true, mig-devices: {}}"), "duplicate key"},
		{strings.Repeat("#", 10<<20), "larger than"},
	} {
		got, err := parted.Parse([]byte(c.in))
		if !errors.Is(err, mig.ErrInvalid) || got != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80q: %v, want %q", c.in, err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(partedText)
	f.Add(`{"version":"v1","mig-configs":{"a":[{"devices":"all","mig-enabled":true,"mig-devices":{"1g.5gb":7}}]}}`)
	f.Add("version: v1\nmig-configs:\n  \"\\u0000: x\":\n    - devices: []\n      mig-enabled: true\n      mig-devices: {}\n")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := parted.Parse([]byte(s))
		if (err == nil) != (c != nil) {
			t.Fatalf("%v with %v", c, err)
		}
		if err != nil {
			return
		}
		out, err := c.Marshal()
		if err != nil {
			t.Fatalf("%v\n%+v", err, c)
		}
		back, err := parted.Parse(out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		again, err := back.Marshal()
		if err != nil || string(again) != string(out) {
			t.Errorf("%v: %s\n%s", err, out, again)
		}
	})
}

func TestCheckParted(t *testing.T) {
	c := must.Get(parted.Parse([]byte(`
version: v1
mig-configs:
  bad:
    - {devices: all, mig-enabled: true, mig-devices: {"3g.20gb": 2, "1g.5gb": 1}}
    - {devices: all, mig-enabled: true, mig-devices: {"1c.2g.10gb": 7}}
    - {devices: all, mig-enabled: true, mig-devices: {"9g.99gb": 1}}
    - {devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 1, "1g.18gb": 1}}
  filtered:
    - {device-filter: ["0x20B010DE", "0x233510DE"], devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 7}}
    - {device-filter: "0xFFFF10DE", devices: [0], mig-enabled: true, mig-devices: {"1g.5gb": 7}}
    - {device-filter: "0xFFFF10DE", devices: [0], mig-enabled: false}
    - {device-filter: "0x2BB310DE:0x204D10DE", devices: all, mig-enabled: true, mig-devices: {"1g.24gb": 2}}
  good:
    - {devices: all, mig-enabled: true, mig-devices: {"1c.3g.20gb": 3, "4g.20gb": 1}}
    - {devices: all, mig-enabled: true, mig-devices: {"1g.10gb": 7}}
    - {devices: all, mig-enabled: false}
`)))(t)
	var b strings.Builder
	for _, f := range parted.Check(c, nil) {
		fmt.Fprintf(&b, "%s[%d] %s %s layout=%q %s\n", f.Label, f.Entry, f.GPU, f.Feasible, f.Layout, f.Reason)
	}
	golden.Check(t, "testdata/check.txt", []byte(b.String()))
	for _, f := range parted.Check(c, lookup(t, "H200")) {
		if f.Label == "filtered" && (f.Entry != 0 || f.Feasible != sharing.AnswerNo) {
			t.Errorf("%+v", f)
		}
	}
}

// TestPartedFileOfManyKeys holds that the time to read a file grows with its length: half a second for these keys,
// and a minute and a half where each is compared with all others.
func TestPartedFileOfManyKeys(t *testing.T) {
	var text bytes.Buffer
	text.WriteString("kind: ConfigMap\napiVersion: v1\n")
	for i := range 50_000 {
		fmt.Fprintf(&text, "a%d: 1\n", i)
	}
	began := time.Now()
	if _, err := parted.ParseFile(text.Bytes()); err == nil || time.Since(began) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// TestCheckPartedNames: both names of a profile that drivers name differently are reported, and an entry that mixes the
// names of two drivers is refused.
func TestCheckPartedNames(t *testing.T) {
	for _, c := range []struct {
		gpu, devices string
		feasible     sharing.Answer
		want         string
	}{
		{"GB200", `{"1g.23gb": 7}`, sharing.AnswerYes, "a board has 1g.23gb or 1g.24gb, by its driver"},
		{"GB200", `{"1g.24gb": 7}`, sharing.AnswerYes, "a board has 1g.23gb or 1g.24gb, by its driver"},
		{"GB200", `{"1g.24gb+me": 1, "1g.24gb": 6}`, sharing.AnswerYes, "1g.23gb or 1g.24gb, 1g.23gb+me or 1g.24gb+me, by"},
		{"GB200", `{"1c.3g.95gb": 2}`, sharing.AnswerUnknown, "3g.93gb or 3g.95gb"},
		{"GB200", `{"1g.47gb": 1}`, sharing.AnswerYes, ""},
		{"GB200", `{"1g.23gb": 2, "3g.95gb": 1}`, sharing.AnswerNo, "no driver has both 1g.23gb and 3g.95gb"},
		{"GB200", `{"1g.24gb": 2, "1g.47gb": 1}`, sharing.AnswerYes, "1g.23gb or 1g.24gb"},
		{"A100-SXM4-80GB", `{"7g.79gb": 1}`, sharing.AnswerYes, "7g.80gb or 7g.79gb"},
		{"A100-SXM4-80GB", `{"1g.10gb": 7}`, sharing.AnswerYes, ""},
		{"B200", `{"1g.23gb": 7}`, sharing.AnswerYes, ""},
	} {
		m := must.Get(mig.Lookup(c.gpu))(t)
		text := "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: " + c.devices + "}]}\n"
		all, err := parted.CheckFile([]byte(text), m)
		if err != nil || len(all) != 1 {
			t.Fatalf("%s: %v, %v", c.devices, all, err)
		}
		f := all[0]
		if f.Feasible != c.feasible || !strings.Contains(f.String(), c.want) || c.want == "" && f.Note != "" {
			t.Errorf("%s on %s: %v: %s", c.devices, c.gpu, f.Feasible, f)
		}
	}
}
