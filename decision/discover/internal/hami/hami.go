// SPDX-License-Identifier: Apache-2.0

// Package hami reads the annotations in which HAMi, the scheduler that became HAMi, and Volcano record the GPUs of
// nodes and the devices that pods were given.
package hami

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const mostMiB = 16 << 20 // of a GPU: more is a mistake

// GPU is a GPU as the device plugins of HAMi and Volcano register it in an annotation of its node.
type GPU struct {
	ID      string `json:"id"`
	Count   int    `json:"count"`  // pods that may share it
	Memory  int64  `json:"devmem"` // MiB, scaled
	Type    string `json:"type"`
	Mode    string `json:"mode"` // hami-core, mps, mig; empty where it is not given
	Healthy *bool  `json:"health"`
}

// ParseRegister reads a node's annotation: a JSON list (HAMi since 2.5), or GPUs divided by colons and their
// fields by commas. HAMi before 2.5 has seven fields of a GPU, or nine with its index and mode, and its first
// version six; Volcano has five, or six with the mode. The GPUs before one that cannot be read are returned with the
// error. Values are not checked.
func ParseRegister(text string) ([]GPU, error) {
	var out []GPU
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
		d := GPU{ID: f[0]}
		var errs [4]error
		d.Count, errs[0] = strconv.Atoi(f[1])
		d.Memory, errs[1] = strconv.ParseInt(f[2], 10, 64)
		_, noCores := strconv.Atoi(f[3])
		var health string
		switch {
		case len(f) >= 7:
			d.Type, health, errs[2] = f[4], f[6], noCores
			if len(f) >= 9 {
				d.Mode = f[8]
			}
		case len(f) == 6 && noCores == nil:
			d.Type, health = f[4], f[5]
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

// Grant is one device of a container.
type Grant struct {
	UUID     string
	Template bool // one of HAMi's MIG templates; the device plugin creates the instance
	MiB      int64
	Cores    int
}

// Before 2.10 HAMi writes the MIG template and the slot in it behind the UUID.
var migSlot = regexp.MustCompile(`^(.*)\[\d+-\d+\]$`)

// ParseGrants reads a pod's annotation: for each container its devices, UUID,kind,MiB,percent and a colon behind each,
// and a semicolon behind the container.
func ParseGrants(text string) (containers [][]Grant, err error) {
	for part := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(text), ";"), ";") {
		var devices []Grant
		for d := range strings.SplitSeq(part, ":") {
			if strings.TrimSpace(d) == "" {
				continue
			}
			f := strings.Split(d, ",")
			if len(f) < 4 {
				return nil, fmt.Errorf("%.60q has %d fields; four belong there", d, len(f))
			}
			g := Grant{UUID: strings.TrimSpace(f[0])}
			if m := migSlot.FindStringSubmatch(g.UUID); m != nil {
				g.UUID, g.Template = m[1], true
			}
			var wrong error
			g.MiB, err = strconv.ParseInt(f[2], 10, 64)
			g.Cores, wrong = strconv.Atoi(f[3])
			if err = cmp.Or(err, wrong); err != nil || g.MiB < 0 || g.MiB > mostMiB || g.Cores < 0 {
				return nil, fmt.Errorf("%.60q is no device with its memory and its percent", d)
			}
			devices = append(devices, g)
		}
		containers = append(containers, devices)
	}
	return containers, nil
}
