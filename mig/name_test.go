// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseName(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Name
		text string
	}{
		{"1g.10gb", Name{1, 1, 10, nil, nil}, "1g.10gb"},
		{"MIG 1g.10gb+me", Name{1, 1, 10, []string{"me"}, nil}, "1g.10gb+me"},
		{"1c.3g.40gb", Name{1, 3, 40, nil, nil}, "1c.3g.40gb"},
		{"3c.3g.40gb", Name{3, 3, 40, nil, nil}, "3g.40gb"},
		{"1g.24gb-me", Name{1, 1, 24, nil, []string{"me"}}, "1g.24gb-me"},
		{"1g.24gb+me.all", Name{1, 1, 24, []string{"me.all"}, nil}, "1g.24gb+me.all"},
		{"2g.48gb+gfx,me", Name{2, 2, 48, []string{"gfx", "me"}, nil}, "2g.48gb+gfx,me"},
		{"3g.0gb+gfx", Name{3, 3, 0, []string{"gfx"}, nil}, "3g.0gb+gfx"},
	} {
		got, err := ParseName(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.in, diff)
		}
		if got.String() != c.text {
			t.Errorf("%s prints as %s, want %s", c.in, got, c.text)
		}
	}
	for _, bad := range []string{"", "1g", "1g.", "g.10gb", "0g.10gb", "01g.10gb", "1g.10gb+", "1g.10gb+me,me", "1g.10gb+me-gfx",
		"1g.10gb+9x", "1g.10gb+me.", "4c.3g.40gb", "0c.3g.40gb", "1g.10GB", "1x.1g.10gb", "1c.1g.10gb.me", "9999g.1gb", " 1g.10gb"} {
		if n, err := ParseName(bad); !errors.Is(err, ErrInvalid) || !cmp.Equal(n, Name{}) {
			t.Errorf("ParseName(%q) = %v, %v", bad, n, err)
		}
	}
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"1g.10gb", "1c.3g.40gb+me", "1g.24gb-me", "MIG 2g.48gb+me.all,gfx", "g.b+", "1g.10gb+-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseName(s)
		if err != nil {
			if !cmp.Equal(n, Name{}) {
				t.Errorf("value %v with error %v", n, err)
			}
			return
		}
		back, err := ParseName(n.String())
		if err != nil || !cmp.Equal(n, back) {
			t.Errorf("%q -> %v -> %s -> %v, %v", s, n, n, back, err)
		}
		if res, err := ResourceName(s); err == nil {
			if back, err := ParseResourceName(res); err != nil || !cmp.Equal(n, back) {
				t.Errorf("%q -> %s -> %v, %v", s, res, back, err)
			}
		}
	})
}

func TestResourceNames(t *testing.T) {
	for profile, resource := range map[string]string{
		"1g.10gb+me": "nvidia.com/mig-1g.10gb.me", "1g.24gb+me.all": "nvidia.com/mig-1g.24gb.me.all",
		"1g.24gb-me": "nvidia.com/mig-1g.24gb-me", "1c.3g.40gb": "nvidia.com/mig-1c.3g.40gb",
	} {
		got, err := ResourceName(profile)
		if err != nil || got != resource {
			t.Errorf("ResourceName(%s) = %s, %v", profile, got, err)
		}
		back, err := ParseResourceName(resource)
		if err != nil || back.String() != profile {
			t.Errorf("ParseResourceName(%s) = %s, %v", resource, back, err)
		}
	}
	for _, bad := range []string{"", "nvidia.com/gpu", "nvidia.com/mig-", "nvidia.com/mig-1g.10gb+me", "mig-1g.10gb.", "amd.com/mig-1g.10gb"} {
		if n, err := ParseResourceName(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("ParseResourceName(%q) = %v, %v", bad, n, err)
		}
	}
}
