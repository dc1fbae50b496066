package predict_test

import (
	"testing"

	"github.com/cotenant/cotenant/decision/predict/profile"
)

// testdata is where the measurements are; its README.md says where they come from.
const testdata = "testdata/"

func rowsOf(tb testing.TB, name string) profile.Rows {
	tb.Helper()
	rows, err := profile.LoadRows(testdata + name)
	if err != nil {
		tb.Fatal(err)
	}
	return rows
}

func colocation(tb testing.TB) profile.Rows { return rowsOf(tb, "h200-colocation.json") }

func profilesOf(tb testing.TB, rows profile.Rows) *profile.Profiles {
	tb.Helper()
	ps, err := profile.NewProfiles(rows.Profiles()...)
	if err != nil {
		tb.Fatal(err)
	}
	return ps
}
