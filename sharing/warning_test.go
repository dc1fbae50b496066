package sharing

import "testing"

func TestWarningString(t *testing.T) {
	for _, c := range []struct {
		w    Warning
		want string
	}{
		{Warning{Message: "m"}, "m"},
		{Warning{Path: "a.b", Message: "m", Remedy: "r", Source: "KDP"}, "a.b: m (r) [KDP]"},
	} {
		if got := c.w.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
