package manifest

import (
	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// Config is a document by which NVIDIA's Kubernetes device plugin (version v1) or DRA driver
// (resource.nvidia.com/v1beta1) shares GPUs by time-slicing and MPS: a *PluginConfig or a *DRAConfig.
type Config interface {
	Validate() error
	Warnings() []sharing.Warning
	Marshal() ([]byte, error)
}

// ParseConfig reads a device plugin's document as a *PluginConfig, and a GpuConfig or MigDeviceConfig of the DRA
// driver, told by its apiVersion, as a *DRAConfig; YAML or JSON, strictly: unknown keys, which the plugin would drop
// without a word, and what the reader would refuse are errors; what it accepts and does otherwise than it looks is a
// warning with its source. Errors match ErrInvalid and come without a Config.
func ParseConfig(data []byte) (Config, []sharing.Warning, error) {
	docs, err := strictyaml.Parse(data, strictyaml.Options{})
	if err != nil {
		return nil, nil, invalid(err)
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
		return nil, nil, invalid(err)
	}
	return c, ws, nil
}

func validate(check func(*problem.List)) error {
	var l problem.List
	check(&l)
	return l.Under(ErrInvalid)
}
