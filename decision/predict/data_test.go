package predict_test

import (
	"encoding/csv"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/timeslice"
)

// testdata is where the measurements are; its README.md says where they come
// from.
const testdata = "../../examples/predict/testdata/"

func rowsOf(tb testing.TB, name string) predict.Rows {
	tb.Helper()
	rows, err := predict.LoadRows(testdata + name)
	if err != nil {
		tb.Fatal(err)
	}
	return rows
}

func colocation(tb testing.TB) predict.Rows { return rowsOf(tb, "h200-colocation.json") }

func profilesOf(tb testing.TB, rows predict.Rows) *predict.Profiles {
	tb.Helper()
	ps, err := predict.NewProfiles(rows.Profiles()...)
	if err != nil {
		tb.Fatal(err)
	}
	return ps
}

// nos reads the saturated A100 rows of a mechanism.
func nos(tb testing.TB, mechanism string) []timeslice.SaturatedPoint {
	tb.Helper()
	f, err := os.Open(testdata + "nos-a100-sharing.csv")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		tb.Fatal(err)
	}
	var out []timeslice.SaturatedPoint
	for _, r := range records[1:] {
		n, err := strconv.Atoi(r[1])
		s, err2 := strconv.ParseFloat(r[2], 64)
		if err != nil || err2 != nil {
			tb.Fatal(err, err2)
		}
		if r[0] == mechanism {
			out = append(out, timeslice.SaturatedPoint{Tenants: n, Latency: time.Duration(s * float64(time.Second))})
		}
	}
	return out
}
