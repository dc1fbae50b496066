// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
)

func TestDispatch(t *testing.T) {
	for _, tc := range []struct {
		args     string
		code     int
		out, err string
	}{
		{"", exitDone, "usage: cotenant COMMAND", ""},
		{"help", exitDone, "version", ""},
		{"help version", exitDone, "the features of this build", ""},
		{"version", exitDone, "cotenant ", ""},
		{"version -h", exitDone, "the features of this build", ""},
		{"monitor -every 5", exitBadInput, "", "a duration like 500ms or 2s"},
		{"version x", exitBadInput, "", `unexpected argument "x"`},
		{"version -nonsense", exitBadInput, "", "-nonsense"},
		{"nonsense", exitBadInput, "", `"nonsense" is no command`},
		{"help nonsense", exitBadInput, "", `"nonsense" is no command`},
	} {
		var out, errs strings.Builder
		code := run(context.Background(), strings.Fields(tc.args), stdio{strings.NewReader(""), &out, &errs})
		if code != tc.code || !strings.Contains(out.String(), tc.out) || !strings.Contains(errs.String(), tc.err) || (tc.err == "") != (errs.Len() == 0) {
			t.Errorf("%q: code %d, output %q, errors %q", tc.args, code, out.String(), errs.String())
		}
		if strings.HasSuffix(out.String(), "flags:\n") {
			t.Errorf("%q announces flags that are not there", tc.args)
		}
	}
}
