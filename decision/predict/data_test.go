package predict_test

import (
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
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
