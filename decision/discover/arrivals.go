package discover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
)

// Arrivals reads objects that are not in the cluster yet, such as the Deployment of a pull request, as YAML or JSON:
// the workloads that they make, without a today. What their annotations and opts do not say is not known. name stands for
// the file in errors, which match ErrInvalid.
func Arrivals(name string, data []byte, opts Options) ([]decision.Workload, error) {
	c := New(opts)
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc map[string]any
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		var text []byte
		if err == nil {
			text, err = json.Marshal(doc)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, name, err)
		}
		if len(doc) == 0 {
			continue
		}
		if err := c.Read(name, bytes.NewReader(text)); err != nil {
			return nil, err
		}
	}
	d := c.Discover()
	for i := range d.Fleet.Workloads {
		d.Fleet.Workloads[i].Today, d.Fleet.Workloads[i].Request = nil, nil
	}
	if len(d.Fleet.Workloads) == 0 {
		return nil, fmt.Errorf("%w: %s: nothing in it asks for a GPU", ErrInvalid, name)
	}
	return d.Fleet.Workloads, nil
}
