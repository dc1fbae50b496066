// SPDX-License-Identifier: Apache-2.0

package parted_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/parted"
	"github.com/cotenant/cotenant/sharing"
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

func TestGenerate(t *testing.T) {
	for _, c := range []struct {
		file   string
		models []string
	}{{"testdata/generate-a100.yaml", []string{"A100 80GB"}}, {"testdata/generate-mixed.yaml", []string{"a100-40gb", "H200", "rtx-pro-6000-blackwell-workstation", "rtx-pro-5000-blackwell-48gb"}}} {
		var models []*mig.Model
		for _, name := range c.models {
			models = append(models, lookup(t, name))
		}
		config := must.Get(parted.Generate(models...))(t)
		text := must.Get(config.Marshal())(t)
		golden.Check(t, c.file, text)
		for _, f := range parted.Check(config, nil) {
			if f.Feasible != sharing.AnswerYes && f.GPU != "rtx-pro-5000-blackwell-48gb" {
				t.Errorf("%+v", f)
			}
		}
	}
	if _, err := parted.Generate(lookup(t, "rtx-pro-5000-blackwell-72gb")); !errors.Is(err, mig.ErrInvalid) {
		t.Errorf("err = %v", err)
	}
}

func TestManifests(t *testing.T) {
	config := must.Get(parted.Generate(lookup(t, "A30")))(t)
	text := must.Get(config.ConfigMap("mig-config", "gpu-operator"))(t)
	golden.Check(t, "testdata/configmap.yaml", text)
	list := "apiVersion: v1\nkind: List\nitems:\n  - apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: other}\n    data: {clients.yaml: x}\n"
	named, err := parted.ParseFile([]byte("apiVersion: v1\nkind: Pod\n---\n" + string(text) + "---\n" + list))
	if err != nil || len(named) != 1 || named[0].Source != "gpu-operator/mig-config" {
		t.Fatalf("%v, %v", named, err)
	}
	if diff := cmp.Diff(config, named[0].Config); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
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
	for _, name := range []string{"", "A", "-a", "a..b", strings.Repeat("a", 300)} {
		if _, err := config.ConfigMap(name, ""); !errors.Is(err, mig.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
