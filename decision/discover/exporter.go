package discover

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// exporterVersion is dcgm-exporter's version, DCGM's first: 4.5.3-4.8.2. The zero value is unknown.
type exporterVersion [6]int

// attributing is the first dcgm-exporter that gives DCGM_FI_DEV_GPU_UTIL and DCGM_FI_DEV_FB_USED of each pod's own
// processes, after the device's, where pods share a GPU: https://github.com/NVIDIA/dcgm-exporter/pull/594. Other
// fields stay the device's, repeated for each pod.
var attributing = exporterVersion{4, 5, 3, 4, 8, 2}

func (v exporterVersion) IsZero() bool { return v == exporterVersion{} }

// Compare is negative where v came before o.
func (v exporterVersion) Compare(o exporterVersion) int { return slices.Compare(v[:], o[:]) }

func (v exporterVersion) String() string {
	return fmt.Sprintf("%d.%d.%d-%d.%d.%d", v[0], v[1], v[2], v[3], v[4], v[5])
}

var exporterImage = regexp.MustCompile(`/dcgm-exporter:(\d+)\.(\d+)\.(\d+)-(\d+)\.(\d+)\.(\d+)`)

// seeExporter notes the version of dcgm-exporter from its image: the oldest, where nodes have several.
func (c *Collector) seeExporter(containers []container) {
	for i := range containers {
		m := exporterImage.FindStringSubmatch(containers[i].Image)
		if m == nil {
			continue
		}
		var v exporterVersion
		for k := range v {
			v[k], _ = strconv.Atoi(m[k+1])
		}
		if c.exporter.IsZero() || v.Compare(c.exporter) < 0 {
			c.exporter = v
		}
	}
}
