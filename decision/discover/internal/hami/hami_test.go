// SPDX-License-Identifier: Apache-2.0

package hami

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The forms are those that HAMi and Volcano decode.
func TestParseRegister(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		text string
		want GPU
	}{
		"HAMi as JSON":     {`[{"id":"a","count":10,"devmem":40960,"devcore":100,"type":"NVIDIA A100","mode":"mps","health":false}]`, GPU{ID: "a", Count: 10, Memory: 40960, Type: "NVIDIA A100", Mode: "mps", Healthy: &no}},
		"HAMi, seven":      {"a,10,40960,100,NVIDIA-A100,0,true:", GPU{ID: "a", Count: 10, Memory: 40960, Type: "NVIDIA-A100", Healthy: &yes}},
		"HAMi, nine":       {"a,10,40960,100,NVIDIA-A100,0,false,3,mig:", GPU{ID: "a", Count: 10, Memory: 40960, Type: "NVIDIA-A100", Mode: "mig", Healthy: &no}},
		"HAMi, its first":  {"a,10,40960,100,NVIDIA-A100,true:", GPU{ID: "a", Count: 10, Memory: 40960, Type: "NVIDIA-A100", Healthy: &yes}},
		"Volcano":          {"a,10,40960,NVIDIA-A100,true:", GPU{ID: "a", Count: 10, Memory: 40960, Type: "NVIDIA-A100", Healthy: &yes}},
		"Volcano and mode": {"a,10,40960,NVIDIA-A100,true,hami-core:", GPU{ID: "a", Count: 10, Memory: 40960, Type: "NVIDIA-A100", Mode: "hami-core", Healthy: &yes}},
	} {
		got, err := ParseRegister(c.text)
		if diff := cmp.Diff([]GPU{c.want}, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	for _, bad := range []string{"a,b", "[1]", "a,x,1,100,T,0,true", "a,1,x,100,T,0,true", "a,1,1,x,T,0,true", "a,1,1,100,T,0,maybe", "a,1,1,T,maybe"} {
		if got, err := ParseRegister("ok,1,1,T,true:" + bad); err == nil && bad[0] != '[' {
			t.Errorf("%q: %v", bad, got)
		} else if len(got) != 1 && bad[0] != '[' {
			t.Errorf("%q: the readable ones are lost: %v", bad, got)
		}
	}
	if got, err := ParseRegister("[1]"); err == nil {
		t.Error(got)
	}
}

func FuzzParseRegister(f *testing.F) {
	for _, s := range []string{"", ":", "a,10,40960,100,NVIDIA-A100,0,true:", "a,10,40960,NVIDIA-A100,true,mig:b", `[{"id":"a"}]`, "[null]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseRegister(text)
		if err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
		for _, d := range got {
			if text[0] != '[' && d.Healthy == nil {
				t.Errorf("%+v", d)
			}
		}
	})
}
