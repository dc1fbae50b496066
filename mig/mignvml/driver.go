// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package mignvml

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/cotenant/cotenant/internal/nvmlret"
	"github.com/cotenant/cotenant/mig"
)

// Driver is an open NVML. It is safe for concurrent use.
type Driver struct {
	lib  nvml.Interface
	once sync.Once
	err  error
}

// Open loads NVML. The caller must call Close.
func Open() (*Driver, error) { return open(nvml.New()) }

func open(lib nvml.Interface) (*Driver, error) {
	if r := lib.Init(); r != nvml.SUCCESS {
		return nil, fmt.Errorf("%w: %w", ErrNoDriver, nvmlret.Error("Init", "", r))
	}
	return &Driver{lib: lib}, nil
}

// Close shuts NVML down. Later calls return the result of the first.
func (d *Driver) Close() error {
	d.once.Do(func() { d.err = nvmlret.Error("Shutdown", "", d.lib.Shutdown()) })
	return d.err
}

// Devices returns the GPUs that support MIG, in NVML's order.
func (d *Driver) Devices(ctx context.Context) ([]*Device, error) {
	n, r := d.lib.DeviceGetCount()
	if r != nvml.SUCCESS {
		return nil, nvmlret.Error("DeviceGetCount", "", r)
	}
	var out []*Device
	for i := range n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, r := d.lib.DeviceGetHandleByIndex(i)
		if r != nvml.SUCCESS {
			return nil, nvmlret.Error("DeviceGetHandleByIndex", strconv.Itoa(i), r)
		}
		if _, _, r := h.GetMigMode(); r == nvml.ERROR_NOT_SUPPORTED {
			continue
		}
		dev, err := newDevice(d.lib, h)
		if err != nil {
			return nil, err
		}
		out = append(out, dev)
	}
	return out, nil
}

// Device returns the GPU with a UUID ("GPU-..."), a PCI bus id or an index; an empty name means the first GPU that
// supports MIG.
func (d *Driver) Device(ctx context.Context, name string) (*Device, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if name == "" {
		all, err := d.Devices(ctx)
		if err == nil && len(all) == 0 {
			err = fmt.Errorf("%w: no GPU of this machine can do MIG", mig.ErrNotSupported)
		}
		if err != nil {
			return nil, err
		}
		return all[0], nil
	}
	var h nvml.Device
	var r nvml.Return
	op := "DeviceGetHandleByUUID"
	if i, err := strconv.Atoi(name); err == nil {
		op = "DeviceGetHandleByIndex"
		h, r = d.lib.DeviceGetHandleByIndex(i)
	} else if h, r = d.lib.DeviceGetHandleByUUID(name); r == nvml.ERROR_NOT_FOUND || r == nvml.ERROR_INVALID_ARGUMENT {
		op = "DeviceGetHandleByPciBusId"
		h, r = d.lib.DeviceGetHandleByPciBusId(name)
	}
	if r != nvml.SUCCESS {
		return nil, opError(op, name, r)
	}
	return newDevice(d.lib, h)
}
