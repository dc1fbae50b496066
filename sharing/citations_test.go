// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/must"
)

func TestCitations(t *testing.T) {
	var c Citations
	if c.Ref("") != "" || !c.IsZero() {
		t.Errorf("an empty id is cited: %+v", c)
	}
	var b strings.Builder
	if err := c.WriteText(&b); err != nil || b.Len() > 0 {
		t.Errorf("nothing cited writes %q, %v", b.String(), err)
	}
	for i := range 12 {
		id := SourceID(fmt.Sprintf("nobody-%d", i))
		if got, want := c.Ref(id), " ["+string(id)+"]"; got != want {
			t.Errorf("Ref is %q, want %q", got, want)
		}
	}
	c.Add("nobody-3", "", "nobody-11")
	c.Rest = "-format json"
	must.Do(t, c.WriteText(&b))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 11 || lines[0] != "SOURCES" || lines[1] != "  nobody-0  not a source of this version" || lines[10] != "  and 3 more: -format json" {
		t.Errorf("got\n%s", b.String())
	}

	sources := sources()
	c = Citations{IDs: []SourceID{sources[1].ID, sources[0].ID}}
	text := must.Get(json.Marshal(c))(t)
	var object map[SourceID]Source
	var back Citations
	if err := json.Unmarshal(text, &object); err != nil || object[sources[0].ID].Title != sources[0].Title {
		t.Errorf("%s: %v", text, err)
	}
	if err := json.Unmarshal(text, &back); err != nil || len(back.IDs) != 2 {
		t.Errorf("%s reads back as %v, %v", text, back, err)
	}
	if err := json.Unmarshal([]byte("[]"), &back); err == nil {
		t.Error("a list is read")
	}
}

// TestCitationPath cuts a long path to its end and keeps a short one.
func TestCitationPath(t *testing.T) {
	commit := strings.Repeat("0123456789", 4)
	for path, want := range map[string]string{
		"README.md": "README.md",
		"src/nvidia/generated/some/very/long/folder/g_nv_name_released.h": "…/g_nv_name_released.h",
		"src/multiprocess/multiprocess_utilization_watcher.c":             "…_utilization_watcher.c",
	} {
		got := locatorLine("a", 24, "github.com/NVIDIA/k8s-device-plugin@"+commit+":"+path)
		if diff := cmp.Diff("  a                         github.com/NVIDIA/k8s-device-plugin@012345678901:"+want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
