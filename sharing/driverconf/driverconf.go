// Package driverconf reads and writes the documents by which NVIDIA's Kubernetes device plugin (version v1) and DRA
// driver (resource.nvidia.com/v1beta1) share GPUs by time-slicing and MPS. The package is experimental.
//
// [Parse] reads either, YAML or JSON, strictly: unknown keys, which the plugin would drop without a word, and what
// the reader would refuse are errors; what it accepts and does otherwise than it looks is a warning with its source.
package driverconf

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// ErrInvalid is matched by every error about a document: one that cannot be read, or that its reader would refuse.
// Such an error names every problem with its path and, where there is one, the remedy.
var ErrInvalid = errors.New("driverconf: invalid")

// Optional holds a value that may be missing, as the zero one's is: if v, ok := o.Get(); ok { use(v) } or use(o.Or(0)).
// IsZero says that it is, and Equal compares two; String writes "-" for a missing one, JSON null, or omitzero nothing.
type Optional[T any] = optional.Value[T]

// Some returns an Optional that holds v.
func Some[T any](v T) Optional[T] { return optional.Of(v) }

// Config is a *Plugin or a *DRA.
type Config interface {
	Validate() error
	Warnings() []sharing.Warning
	Marshal() ([]byte, error)
}

// Parse reads a device plugin's document as a *Plugin, and a GpuConfig or MigDeviceConfig of the DRA driver, told
// by its apiVersion, as a *DRA. Errors match ErrInvalid and come without a Config.
func Parse(data []byte) (Config, []sharing.Warning, error) {
	docs, err := strictyaml.Parse(data, strictyaml.Options{})
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(docs) > 0 && docs[0].Kind == yaml.MappingNode {
		for i := 0; i < len(docs[0].Content); i += 2 {
			if docs[0].Content[i].Value == "apiVersion" {
				return parsed(parseDRA(data))
			}
		}
	}
	return parsed(parsePlugin(data))
}

func parsed[C Config](c C, ws []sharing.Warning, err error) (Config, []sharing.Warning, error) {
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return c, ws, nil
}

func validate(check func(*problem.List)) error {
	var l problem.List
	check(&l)
	if err := l.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}
