package manifest

import (
	"testing"

	"github.com/cotenant/cotenant/sharing"
)

func TestParseQuantity(t *testing.T) {
	for in, want := range map[string]sharing.Bytes{
		"10Gi": 10 << 30, "1.5Gi": 3 << 29, "500M": 500e6, "1e9": 1e9, "2E3": 2000, "1E": 1e18, "128974848": 128974848,
		"1500m": 2, "0.1": 1, "0": 0, "5.": 5, ".5Ki": 512, "1000e-3": 1,
	} {
		if got, err := parseQuantity(in); err != nil || got != want {
			t.Errorf("parseQuantity(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "Gi", "-1Gi", "10GiB", "10 Gi", "1e", "1e999", "0x10", "16Ei", "1Gi\n", "9e18k", "１Gi"} {
		if got, err := parseQuantity(bad); err == nil || got != 0 {
			t.Errorf("parseQuantity(%q) = %d, %v", bad, got, err)
		}
	}
}

func FuzzParseQuantity(f *testing.F) {
	for _, s := range []string{"10Gi", "1.5G", "1e9", "500m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := parseQuantity(s)
		if err != nil {
			if v != 0 {
				t.Fatalf("%d with %v", v, err)
			}
			return
		}
		if back, err := parseQuantity(formatQuantity(v)); err != nil || back != v || v < 0 {
			t.Fatalf("%q -> %d -> %q -> %d, %v", s, v, formatQuantity(v), back, err)
		}
	})
}
