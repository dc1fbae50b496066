// SPDX-License-Identifier: Apache-2.0

package promtext

import (
	"fmt"
	"strings"
	"testing"
)

func pages(t *testing.T, text string) (string, error) {
	t.Helper()
	var b strings.Builder
	err := Read(strings.NewReader(text), func(p Page) {
		for _, f := range p.Families {
			for _, m := range f.Metric {
				v, ok := Value(m)
				fmt.Fprintf(&b, "%d %s %v %v\n", p.Number, f.GetName(), v, ok)
			}
		}
	})
	return b.String(), err
}

func TestPages(t *testing.T) {
	one := "# HELP a A thing.\n# TYPE a gauge\na{x=\"1\"} 1\na{x=\"2\"} 2\n# HELP b Another.\n# TYPE b counter\nb 3\n"
	got, err := pages(t, one+one)
	if want := "0 a 1 true\n0 a 2 true\n0 b 3 true\n1 a 1 true\n1 a 2 true\n1 b 3 true\n"; got != want || err != nil {
		t.Errorf("%v\n%s", err, got)
	}
}

// A broken line is named by its place in the whole stream; the rest is read.
func TestBrokenLines(t *testing.T) {
	got, err := pages(t, "# TYPE a gauge\na 1\n# TYPE a gauge\na{x=\"1} 2\na{x=\"2\"} 3\na nonsense\na{x=\"4\"} 5")
	if want := "0 a 1 true\n1 a 3 true\n1 a 5 true\n"; got != want {
		t.Errorf("%s", got)
	}
	if err == nil || !strings.Contains(err.Error(), "line 4: ") || !strings.Contains(err.Error(), "line 6: ") {
		t.Errorf("err = %v", err)
	}
}

// A bucket with a bound that is not a number is named; the histogram's others are read.
func TestBucketWithoutBound(t *testing.T) {
	for _, label := range []string{`le="NaN"`, `a="b,le=",le = "nan"`, `a="\"}",le="NAN",z="1"`} {
		var buckets int
		err := Read(strings.NewReader("# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{"+label+"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 4\nh_count 3\n"),
			func(p Page) {
				for _, m := range p.Families[0].Metric {
					buckets += len(m.Histogram.Bucket)
				}
			})
		if buckets != 2 || err == nil || !strings.HasPrefix(err.Error(), "line 3: h_bucket has a bucket with le=") {
			t.Errorf("%s: %d buckets, %v", label, buckets, err)
		}
	}
	if got, err := pages(t, "# TYPE a gauge\na{le=\"NaN\"} 1\n"); err != nil || got != "0 a 1 true\n" {
		t.Errorf("a label of no bucket: %s%v", got, err)
	}
}

// A line may be longer than the buffer.
func TestLongLine(t *testing.T) {
	for _, tail := range []string{"", "{", "#"} {
		value := strings.Repeat("y", 64<<10-len("# TYPE a gauge\na{x=\"")) + tail
		got, err := pages(t, "# TYPE a gauge\na{x=\""+value+strings.Repeat("z", 200<<10)+"\"} 7\nb 8\n")
		if got != "0 a 7 true\n0 b 8 true\n" || err != nil {
			t.Errorf("%v\n%.200s", err, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("# TYPE a gauge\na{x=\"1\"} 1 1700000000000\n# TYPE a gauge\na NaN\n")
	f.Add("# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 4\nh_count 3\n")
	f.Add("a{b=\"\\\"\\n\"} +Inf\n{\"utf8 name\",x=\"1\"} 2\n")
	f.Fuzz(func(t *testing.T, text string) {
		n := -1
		if err := Read(strings.NewReader(text), func(p Page) {
			if p.Number != n+1 || len(p.Families) == 0 {
				t.Errorf("page %d after %d with %d families", p.Number, n, len(p.Families))
			}
			n = p.Number
		}); err == nil && n < 0 && strings.HasPrefix(text, "a 1\n") {
			t.Error("nothing was read")
		}
	})
}
