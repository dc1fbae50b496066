package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// ErrMIG reports a GPU in MIG mode: measurements on an instance are not true of the
// whole GPU, and nothing here changes MIG.
var ErrMIG = errors.New("probe: the GPU is in MIG mode")

// ErrNoGPU reports an index at which the machine has no GPU.
var ErrNoGPU = errors.New("probe: no such GPU")

// Look holds what NVML shows of one GPU before anything is measured on it.
type Look struct {
	Device telemetry.Device
	Only   bool          // it is the machine's only GPU
	Driver string        // "" is unknown
	Memory sharing.Bytes // 0 is unknown
	// Holders name the processes on the GPU: their work is part of what is measured.
	Holders []string
}

// LookAt reads the GPU of an index. The error wraps ErrNoGPU or ErrMIG where such is the reason.
func LookAt(ctx context.Context, source telemetry.Reader, device int) (*Look, error) {
	devices, err := source.Devices(ctx)
	if err != nil {
		return nil, err
	}
	if device >= len(devices) {
		return nil, fmt.Errorf("%w: index %d, the machine has %d", ErrNoGPU, device, len(devices))
	}
	l := &Look{Device: devices[device], Only: len(devices) == 1}
	if l.Device.MIG == sharing.AnswerYes {
		return nil, fmt.Errorf("%w: GPU %d, %s; disable MIG on it, or measure another", ErrMIG, device, l.Device.Name)
	}
	if d, ok := strings.CutPrefix(source.Info().Detail, "driver "); ok {
		l.Driver = d
	}
	var r telemetry.Reading
	if err := source.Read(ctx, device, telemetry.GroupBasic, &r); err != nil {
		return nil, err
	}
	if v, ok := r.Get(telemetry.MetricMemTotalBytes); ok {
		l.Memory = sharing.Bytes(v)
	}
	l.Holders = Holders(ctx, source, device)
	return l, nil
}

// Holders names the processes that hold a GPU now, or the reason why they are unknown.
func Holders(ctx context.Context, source telemetry.Reader, device int) (names []string) {
	var r telemetry.Reading
	if err := source.Read(ctx, device, telemetry.GroupProcesses, &r); err != nil {
		return []string{fmt.Sprintf("an unknown process, perhaps (they could not be listed: %v),", err)}
	}
	for _, p := range r.Processes {
		if p.Name == "" {
			p.Name = "?"
		}
		names = append(names, fmt.Sprintf("process %d (%s)", p.PID, p.Name))
	}
	return names
}

// Newcomers are notes of the processes that are among the holders now and were not
// before. An idle MPS server does nothing by itself, and is left out.
func Newcomers(before, now []string) (notes []string) {
	for _, p := range now {
		if !slices.Contains(before, p) && !strings.Contains(p, "nvidia-cuda-mps-server") {
			notes = append(notes, p+" came to the GPU meanwhile: its work is part of what was measured")
		}
	}
	return notes
}
