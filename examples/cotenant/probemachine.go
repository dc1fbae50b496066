package main

import (
	"flag"
	"fmt"

	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

// machine holds the flags with which -real finds this machine's GPU.
type machine struct {
	device        int
	nvml, control string
}

func (m *machine) flags(fl *flag.FlagSet) {
	fl.StringVar(&m.nvml, "nvml", "", "with -real: path of libnvidia-ml.so.1 (default: as the linker finds it)")
	fl.StringVar(&m.control, "control", "",
		"with -real: path of nvidia-cuda-mps-control (default: on PATH, or the driver's)")
}

// check names what is wrong with the flags, of which more are for -real only.
func (m *machine) check(fl *flag.FlagSet, real bool, more ...string) (errs []error) {
	if !real {
		errs = refuse(fl, "is for -real only (add -real)", append(more, "nvml", "control")...)
	}
	if m.device < 0 {
		errs = append(errs, fmt.Errorf("-device: must be an index, is %d", m.device))
	}
	return errs
}

// open opens NVML.
func (m *machine) open() (*telemetrynvml.Reader, error) {
	return telemetrynvml.Open(telemetrynvml.Options{LibraryPath: m.nvml})
}
