// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package cudaprobe

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "driver.h"
*/
import "C"

import (
	"fmt"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/sharing"
)

// oldDriver begins the errors of a driver older than the kernels' PTX.
const oldDriver = "cudaprobe: the driver is too old"

// library is the driver library's name, which the dynamic linker finds.
const library = "libcuda.so.1"

// Codes of CUDA's that lead to errors of ours.
const (
	codeOutOfMemory = 2
	codeUnavailable = 46
	codeNoDevice    = 100
	codePTXVersion  = 222
)

// check makes an error of CUDA's code.
func check(op string, r C.CUresult) error {
	if r == 0 {
		return nil
	}
	name, text := C.GoString(C.c_errorName(r)), C.GoString(C.c_errorText(r))
	err := fmt.Errorf("cudaprobe: %s: %s (%s)", op, name, text)
	switch r {
	case codeNoDevice:
		return fmt.Errorf("%s: %w; is every GPU hidden by CUDA_VISIBLE_DEVICES, or in MIG mode without instances?",
			noDriver, err)
	case codeUnavailable:
		return fmt.Errorf("%s: %w; another process holds the GPU and its compute mode admits no second one, or it takes "+
			"no more", noDriver, err)
	case codePTXVersion:
		return fmt.Errorf("%s: %w; the kernels need driver 450 or newer", oldDriver, err)
	case codeOutOfMemory:
		return fmt.Errorf("%w: no memory of the GPU is left; stop what holds it", err)
	}
	return err
}

// loadDriver loads the driver library and returns the driver's version, which is
// part of the library's name, "" when it is not.
func loadDriver() (version string, err error) {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	var path *C.char
	if why := C.opened(name, &path); why != nil && path != nil {
		return "", fmt.Errorf("%s: %s; driver 450 (CUDA 11.0) or newer is needed", oldDriver, C.GoString(why))
	} else if why != nil {
		return "", fmt.Errorf("%s: %s; install NVIDIA's driver, or in a container its libraries "+
			"(NVIDIA_DRIVER_CAPABILITIES=compute,utility)", noDriver, C.GoString(why))
	}
	if file, err := filepath.EvalSymlinks(C.GoString(path)); err == nil {
		version = versionOf(filepath.Base(file))
	}
	var v C.int
	if err := check("cuInit", C.c_init()); err != nil {
		return "", err
	}
	if err := check("cuDriverGetVersion", C.c_version(&v)); err != nil {
		return "", err
	}
	if v < 11000 {
		return "", fmt.Errorf("%s: it is made for CUDA %d.%d; driver 450 (CUDA 11.0) or newer is needed", oldDriver,
			v/1000, v%1000/10)
	}
	return version, nil
}

// versionOf is the driver's version in its library's name, "" when it is none: under WSL the library is libcuda.so.1.1.
func versionOf(file string) string {
	v, ok := strings.CutPrefix(file, "libcuda.so.")
	if major, _, dots := strings.Cut(v, "."); !ok || !dots || len(major) < 3 {
		return ""
	}
	return v
}

// Attributes of a device.
const (
	attributeSMs         = 16
	attributeComputeMode = 20
	attributeMajor       = 75

	modeExclusive  = 3
	modeProhibited = 2
)

// describe returns a device's properties.
func describe(index int, version string) (info probe.Info, device C.CUdevice, err error) {
	var name [128]C.char
	var id C.CUuuid
	var sms, mode, major C.int
	var total C.size_t
	for _, read := range []struct {
		op   string
		call func() C.CUresult
	}{
		{"cuDeviceGet", func() C.CUresult { return C.c_device(&device, C.int(index)) }},
		{"cuDeviceGetName", func() C.CUresult { return C.c_name(&name[0], C.int(len(name)), device) }},
		{"cuDeviceGetUuid", func() C.CUresult { return C.c_uuid(&id, device) }},
		{"cuDeviceGetAttribute", func() C.CUresult { return C.c_attribute(&sms, attributeSMs, device) }},
		{"cuDeviceGetAttribute", func() C.CUresult { return C.c_attribute(&mode, attributeComputeMode, device) }},
		{"cuDeviceGetAttribute", func() C.CUresult { return C.c_attribute(&major, attributeMajor, device) }},
		{"cuDeviceTotalMem", func() C.CUresult { return C.c_total(&total, device) }},
	} {
		if err = check(read.op, read.call()); err != nil {
			return info, device, err
		}
	}
	b := C.GoBytes(unsafe.Pointer(&id), 16)
	info = probe.Info{GPU: C.GoString(&name[0]), Driver: version, SMs: int(sms), Memory: sharing.Bytes(total),
		UUID:      fmt.Sprintf("GPU-%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]),
		Exclusive: mode == modeExclusive}
	switch {
	case mode == modeProhibited:
		err = fmt.Errorf("%s: the GPU's compute mode prohibits contexts (nvidia-smi -c shows it), and this program does "+
			"not change it", noDriver)
	case major < 7:
		err = fmt.Errorf("%s: %s is older than Volta, for which the probe has no kernels", noDriver, info.GPU)
	case strings.Contains(info.GPU, " MIG "):
		err = fmt.Errorf("%w: CUDA shows %s, a slice of it, and what is measured there is not true of the whole GPU; "+
			"this program does not change MIG", probe.ErrMIG, info.GPU)
	}
	return info, device, err
}
