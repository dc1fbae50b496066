// SPDX-License-Identifier: Apache-2.0

package sharing

import "testing"

func TestWarningString(t *testing.T) {
	for _, c := range []struct {
		w    Warning
		want string
	}{
		{Warning{Message: "m"}, "m"},
		{Warning{Path: "a.b", Message: "m", Remedy: "r", Source: "k8s-device-plugin"}, "a.b: m (r) [k8s-device-plugin]"},
	} {
		if got := c.w.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
