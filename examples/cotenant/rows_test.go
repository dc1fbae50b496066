package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRows(t *testing.T) {
	rows, err := os.ReadFile("../../decision/predict/testdata/h100-mixes-11.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.json"), filepath.Join(dir, "bad.json")
	for name, text := range map[string]string{good: string(rows), bad: strings.Replace(string(rows), `"case":"`, `"case":"on 10.1.2.3 `, 1)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"rows", "check", good}, exitDone, "fit to be given"},
		{[]string{"rows", "check", bad}, exitNo, "an address"},
		{[]string{"rows", "check", filepath.Join(dir, "none")}, exitBadInput, "none"},
		{[]string{"rows", "check"}, exitBadInput, "a file of rows"},
		{[]string{"rows", "-schema"}, exitDone, "json-schema.org"},
	} {
		var o, e strings.Builder
		code := run(t.Context(), c.args, stdio{in: strings.NewReader(""), out: &o, err: &e})
		out, errs := o.String(), e.String()
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%v: %d, %s%s", c.args, code, out, errs)
		}
	}
}
