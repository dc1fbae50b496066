package dra

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	strict "sigs.k8s.io/yaml"
)

// ErrInvalid is matched by errors about documents that cannot be read.
var ErrInvalid = errors.New("dra: invalid")

// DecodeNodes reads Nodes, and Lists of them, from YAML or JSON documents. Fields
// that the API does not have are errors; all problems are named at once.
func DecodeNodes(data []byte) ([]*v1.Node, error) {
	return decode[v1.Node](data, "Node")
}

// DecodePods reads Pods likewise.
func DecodePods(data []byte) ([]*v1.Pod, error) {
	return decode[v1.Pod](data, "Pod")
}

// DecodeSlices reads ResourceSlices likewise.
func DecodeSlices(data []byte) ([]*resourcev1.ResourceSlice, error) {
	return decode[resourcev1.ResourceSlice](data, "ResourceSlice")
}

func decode[T any](data []byte, kind string) ([]*T, error) {
	var out []*T
	var errs []error
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for i := 0; ; i++ {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%ss, document %d: %w", kind, i, err))
			break
		}
		errs = append(errs, decodeOne(doc, kind, fmt.Sprintf("%ss, document %d", kind, i), &out)...)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%w:\n%w", ErrInvalid, errors.Join(errs...))
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: there is no %s (give what kubectl get -o yaml prints)", ErrInvalid, kind)
	}
	return out, nil
}

func decodeOne[T any](doc []byte, kind, where string, out *[]*T) []error {
	var head struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	text, err := strict.YAMLToJSON(doc)
	if err != nil {
		return []error{fmt.Errorf("%s: %w (check the indentation and quoting there)", where, err)}
	}
	if json.Unmarshal(text, &head) != nil {
		return []error{fmt.Errorf("%s: it is no object of Kubernetes (give what kubectl get -o yaml prints)", where)}
	}
	switch head.Kind {
	case "List", kind + "List":
		var errs []error
		for i, item := range head.Items {
			errs = append(errs, decodeOne(item, kind, fmt.Sprintf("%s, item %d", where, i), out)...)
		}
		return errs
	case kind:
		raw, err := strict.YAMLToJSONStrict(doc)
		if err != nil {
			return []error{fmt.Errorf("%s: %w", where, err)}
		}
		obj := new(T)
		errs, err := kjson.UnmarshalStrict(raw, obj)
		if err != nil {
			errs = []error{err}
		}
		for i := range errs {
			errs[i] = fmt.Errorf("%s: %w", where, errs[i])
		}
		*out = append(*out, obj)
		return errs
	case "":
		if len(bytes.TrimSpace(doc)) == 0 || bytes.Equal(bytes.TrimSpace(doc), []byte("null")) {
			return nil
		}
		return []error{fmt.Errorf("%s: it has no kind (give what kubectl get -o yaml prints)", where)}
	}
	return []error{fmt.Errorf("%s: it is a %.40s, not a %s (leave it out)", where, head.Kind, kind)}
}
