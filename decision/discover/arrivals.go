package discover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
)

// LoadArrivals reads a file of objects that are not in the cluster yet, such as the Deployment of a pull request, as
// YAML or JSON: the workloads that they make, without a today. What their annotations and another file of hints, which
// may be "", do not say is not known. Errors of their content match ErrInvalid.
func LoadArrivals(name, hints string) ([]decision.Workload, error) {
	opts, err := LoadOptions("", hints)
	if err != nil {
		return nil, fmt.Errorf("hints: %w", err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
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
