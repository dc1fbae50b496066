package main

import "testing"

func TestBadServing(t *testing.T) {
	for _, s := range []string{"", "a/b=http://x", "a/b/c", "a/b/c=ftp://x", "a/b/c=/metrics"} {
		if pod, page, err := parseServing(s); err == nil {
			t.Errorf("%q: %v %s", s, pod, page)
		}
	}
}
