package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// HAMiGPU is a GPU as the device plugins of HAMi and Volcano register it in an annotation of its node.
type HAMiGPU struct {
	ID      string `json:"id"`
	Count   int    `json:"count"`   // pods that may share it
	Memory  int64  `json:"devmem"`  // MiB, scaled
	Cores   int    `json:"devcore"` // percent; 0 where it is not said
	Type    string `json:"type"`
	Mode    string `json:"mode"` // hami-core, mps, mig; empty where it is not said
	Healthy *bool  `json:"health"`
}

// ParseHAMiRegister reads such an annotation: a JSON list (HAMi since 2.5), or GPUs divided by colons and their
// fields by commas. HAMi before 2.5 has seven fields of a GPU, or nine with its index and mode, and its first
// version six; Volcano has five, or six with the mode. The GPUs before one that cannot be read are returned beside
// the error. Values are not judged, only read.
func ParseHAMiRegister(text string) ([]HAMiGPU, error) {
	var out []HAMiGPU
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			return nil, fmt.Errorf("it is no list of devices: %w", err)
		}
		return out, nil
	}
	for part := range strings.SplitSeq(text, ":") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		f := strings.Split(part, ",")
		if len(f) < 5 {
			return out, fmt.Errorf("%.60q has %d fields; at least five belong there", part, len(f))
		}
		d := HAMiGPU{ID: f[0]}
		var errs [4]error
		d.Count, errs[0] = strconv.Atoi(f[1])
		d.Memory, errs[1] = strconv.ParseInt(f[2], 10, 64)
		cores, noCores := strconv.Atoi(f[3])
		var health string
		switch {
		case len(f) >= 7:
			d.Cores, d.Type, health, errs[2] = cores, f[4], f[6], noCores
			if len(f) >= 9 {
				d.Mode = f[8]
			}
		case len(f) == 6 && noCores == nil:
			d.Cores, d.Type, health = cores, f[4], f[5]
		default:
			d.Type, health = f[3], f[4]
			if len(f) == 6 {
				d.Mode = f[5]
			}
		}
		healthy, err := strconv.ParseBool(health)
		d.Healthy, errs[3] = &healthy, err
		if err := errors.Join(errs[:]...); err != nil {
			return out, fmt.Errorf("%.60q: %w", part, err)
		}
		out = append(out, d)
	}
	return out, nil
}
