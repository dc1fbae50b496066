// SPDX-License-Identifier: Apache-2.0

//go:build nightly

package replay

import (
	"context"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestOpenb replays the openb default trace on all ten seeds and compares with
// the published results. It runs where OPENB_DIR names a folder with
// openb_node_list_gpu_node.csv, openb_pod_list_default.csv and
// fgd_expected_default.csv (hkust-adsl/kubernetes-scheduler-simulator, commit
// 8f3d641, Apache-2.0); the trace is not a part of this module.
func TestOpenb(t *testing.T) {
	dir := os.Getenv("OPENB_DIR")
	if dir == "" {
		t.Skip("OPENB_DIR is not set")
	}
	f, err := os.Open(filepath.Join(dir, "fgd_expected_default.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	published := map[string]float64{}
	for _, r := range rows[1:] {
		v, err := strconv.ParseFloat(r[len(r)-1], 64)
		if err != nil {
			t.Fatal(err)
		}
		published[r[1]] += v / seedCount
	}
	c, err := Load(filepath.Join(dir, "openb_node_list_gpu_node.csv"), filepath.Join(dir, "openb_pod_list_default.csv"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.Compare(context.Background(), 42, 1.3)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]PolicyResult{}
	for _, p := range all.Policies {
		by[p.Name] = p
		t.Logf("%-8s mean %.2f: %.2f, %.2f s", p.Name, p.Mean, p.Allocated, p.Seconds)
	}
	for name, row := range map[string]string{"random": "01-Random", "best-fit": "05-BestFit", "fgd": "06-FGD"} {
		if got, want := by[name].Mean, published[row]; math.Abs(got-want) > 0.4 {
			t.Errorf("%s: mean %.2f, published %.2f", name, got, want)
		}
	}
	for i, ours := range by["cotenant"].Allocated {
		if fgd := by["fgd"].Allocated[i]; ours < fgd {
			t.Errorf("seed %d: %.2f, fgd %.2f", all.Seeds[i], ours, fgd)
		}
	}
	if ours := by["cotenant"].Mean; ours < published["06-FGD"]+0.2 || ours < by["fgd"].Mean+0.2 {
		t.Errorf("mean %.2f, fgd %.2f here, %.2f published", ours, by["fgd"].Mean, published["06-FGD"])
	}
}
