// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"testing"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
)

// testdata is the folder of the measurements; its DATA.md describes their sources.
const testdata = "testdata/"

func rowsOf(tb testing.TB, name string) profile.Rows {
	tb.Helper()
	rows := must.Get(profile.LoadRows(testdata + name))(tb)
	return rows
}

func colocation(tb testing.TB) profile.Rows { return rowsOf(tb, "h200-colocation.json") }

func profilesOf(tb testing.TB, rows profile.Rows) *profile.Profiles {
	tb.Helper()
	ps := must.Get(profile.NewProfiles(rows.Profiles()...))(tb)
	return ps
}
