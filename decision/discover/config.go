package discover

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/sharing"
)

// takeConfigMap looks for the device plugin's configurations: what a document
// says of sharing that the nodes' labels cannot say.
func (c *Collector) takeConfigMap(file string, o *configMapObject) {
	for key, text := range o.Data {
		if len(text) > 1<<20 || !strings.Contains(text, "sharing") || !strings.Contains(text, "resources") {
			continue
		}
		var doc struct {
			Version string `yaml:"version"`
			Flags   struct {
				MIGStrategy string `yaml:"migStrategy"`
			} `yaml:"flags"`
			Sharing struct {
				TimeSlicing *sharingBlock `yaml:"timeSlicing"`
				MPS         *sharingBlock `yaml:"mps"`
			} `yaml:"sharing"`
		}
		if yaml.Unmarshal([]byte(text), &doc) != nil || doc.Version != "v1" {
			continue
		}
		object, source := "ConfigMap "+o.Metadata.Namespace+"/"+o.Metadata.Name, file+": data."+key
		s := doc.Sharing
		if s.TimeSlicing != nil && s.MPS != nil {
			c.find("time-slicing-and-mps", sharing.SeverityHigh, object, source, "sharing has timeSlicing and mps: the device plugin takes mps alone")
		}
		if s.MPS != nil && (doc.Flags.MIGStrategy == "mixed" || s.MPS.has("nvidia.com/mig-")) {
			c.find("mps-and-mig", sharing.SeverityHigh, object, source, "MPS and MIG together: the device plugin refuses MPS on MIG devices")
		}
		for _, block := range []*sharingBlock{s.TimeSlicing, s.MPS} {
			if block == nil {
				continue
			}
			for _, r := range block.Resources {
				if r.Replicas < 2 {
					c.find("replicas-without-sharing", sharing.SeverityMedium, object, source, "%s has %d replica(s): nothing is shared", r.Name, r.Replicas)
				}
			}
		}
	}
}

type sharingBlock struct {
	Resources []struct {
		Name     string `yaml:"name"`
		Replicas int    `yaml:"replicas"`
	} `yaml:"resources"`
}

func (b *sharingBlock) has(prefix string) bool {
	for _, r := range b.Resources {
		if strings.HasPrefix(r.Name, prefix) {
			return true
		}
	}
	return false
}
