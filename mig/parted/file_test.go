// SPDX-License-Identifier: Apache-2.0

package parted_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/parted"
)

func lookup(t testing.TB, name string) *mig.Model {
	t.Helper()
	return must.Get(mig.Lookup(name))(t)
}

func FuzzParseFile(f *testing.F) {
	f.Add("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  config.yaml: |\n    version: v1\n    mig-configs: {a: [{devices: all, mig-enabled: false}]}\n")
	f.Add("apiVersion: v1\nkind: List\nitems: [{kind: ConfigMap, data: {config.yaml: 7}}, 3, null]\n")
	f.Fuzz(func(t *testing.T, s string) {
		named, err := parted.ParseFile([]byte(s))
		if (err == nil) != (len(named) > 0) {
			t.Fatalf("%v with %v", named, err)
		}
		for _, n := range named {
			if _, err := n.Config.Marshal(); err != nil {
				t.Errorf("%s: %v", n.Source, err)
			}
		}
	})
}

func TestManifests(t *testing.T) {
	text := must.Get(os.ReadFile("testdata/configmap.yaml"))(t)
	list := "apiVersion: v1\nkind: List\nitems:\n  - apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: other}\n    data: {clients.yaml: x}\n"
	named, err := parted.ParseFile([]byte("apiVersion: v1\nkind: Pod\n---\n" + string(text) + "---\n" + list))
	if err != nil || len(named) != 1 || named[0].Source != "gpu-operator/mig-config" {
		t.Fatalf("%v, %v", named, err)
	}
	if got := named[0].Config.Configs["all-2g.12gb"][0].MIGDevices["2g.12gb"]; got != 2 {
		t.Errorf("%d instances", got)
	}
	for in, want := range map[string]string{
		"apiVersion: v1\nkind: Pod\n": "no ConfigMap",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {config.yaml: 'version: v2'}": "ConfigMap a: config.yaml",
		"version: v1": "mig-configs",
		"a: &x 1":     "anchors",
		"":            "empty",
	} {
		if named, err := parted.ParseFile([]byte(in)); !errors.Is(err, mig.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", in, named, err)
		}
	}
}
