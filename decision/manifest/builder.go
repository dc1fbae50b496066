// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/sharing"
)

var errInvalid = errors.New("manifest: invalid")

// invalid is the error of a decision that cannot be configured. It names every problem with its path and, where there
// is one, the remedy.
func invalid(err error) error { return problem.Under(errInvalid, err) }

// Folder holds the documents of Build in memory. Folder.Write writes them to disk.
type Folder struct {
	Files  []File  // by path; plan.md is the one to read first
	Groups []Group // of the nodes that the files set up
	// Warnings list legal settings with an unexpected effect.
	Warnings []sharing.Warning
}

// Group is the set of nodes of a pool with the same configuration.
type Group struct {
	Key      string // the value of their label cotenant.dev/sharing-group, and the name of their files
	Pool     string
	Delivery sharing.Delivery // by which pods get their GPUs; DeliveryBare if nothing delivers them
	Nodes    []*layout.Node
}

// File is a document in memory.
type File struct {
	Path string // relative, with forward slashes
	Data []byte
	Note string // its purpose, in a few words
}

// operatorNamespace is the GPU Operator's, as its installation guide has it.
const operatorNamespace = "gpu-operator"

type builder struct {
	Folder
	fleet    *decision.Fleet
	result   *decision.Result
	groups   []*group
	members  []*member // in the order of the decisions
	memberOf map[run]*member
	notes    []string // for plan.md
	plan     *migrate.Plan
	taken    map[string]bool // configurations that nodes choose today, which keep their names
	err      error           // the first that writing a document met
}

func (b *builder) fail(err error) {
	b.err = cmp.Or(b.err, err)
}

func (b *builder) add(path, note string, data []byte) {
	b.Files = append(b.Files, File{Path: path, Data: data, Note: note})
}

//go:embed documents.yaml.tmpl
var documentsText string

// documents are the templates of the files that Kubernetes, Helm and other programs read.
var documents = template.Must(template.New("").Funcs(template.FuncMap{"v": jsonOf}).Parse(documentsText))

// jsonOf writes a value of a document; one that is zero is null, so that its key is left out.
func jsonOf(v any) (string, error) {
	if of := reflect.ValueOf(v); !of.IsValid() || of.IsZero() {
		return "null", nil
	}
	data, err := json.Marshal(v)
	return string(data), err
}

// document adds the file that a template makes of v, under a header of comments.
func (b *builder) document(path, note, name string, v any, header ...string) {
	b.add(path, note, b.render(name, v, header...))
}

func (b *builder) render(name string, v any, header ...string) []byte {
	var out strings.Builder
	b.fail(documents.ExecuteTemplate(&out, name, v))
	text := strings.TrimLeft(out.String(), "\n")
	for strings.HasPrefix(text, "#") {
		line, rest, _ := strings.Cut(text[1:], "\n")
		header, text = append(header, strings.TrimPrefix(line, " ")), rest
	}
	docs, err := yamlnode.Parse([]byte(text))
	b.fail(err)
	data, err := yamlnode.Encode(header, docs...)
	b.fail(err)
	return data
}

//go:embed warnings.yaml
var warningsYAML []byte

// warnings are those of warnings.yaml.
var warnings = sync.OnceValue(func() (all map[string]struct {
	Text, Remedy string
	Source       sharing.SourceID
}) {
	_ = yaml.Unmarshal(warningsYAML, &all) // a test reads the file that is built in
	return all
})

// warn adds a warning of warnings.yaml about a path; args are those of its verbs.
func (b *builder) warn(id, path string, args ...any) *sharing.Warning {
	w := warnings()[id]
	code, _, _ := strings.Cut(id, "/")
	b.Warnings = append(b.Warnings, sharing.Warning{Code: sharing.WarningCode(code), Path: path, Source: w.Source,
		Remedy: w.Remedy, Message: fmt.Sprintf(w.Text, args...)})
	return &b.Warnings[len(b.Warnings)-1]
}

// any reports whether a GPU of a group shares by a mechanism for which is answers true.
func (b *builder) any(is func(sharing.Mechanism) bool) bool {
	return slices.ContainsFunc(b.groups, func(g *group) bool { return g.any(is) })
}

// uses reports whether nodes are set up by a delivery.
func (b *builder) uses(d sharing.Delivery) bool {
	return slices.ContainsFunc(b.groups, func(g *group) bool { return g.delivery == d })
}

// byPlugin reports whether the device plugin delivers a group.
func (b *builder) byPlugin() bool {
	return slices.ContainsFunc(b.groups, (*group).byPlugin)
}

// hasEntries reports whether nodes have MIG instances that are made beforehand.
func (b *builder) hasEntries() bool {
	return slices.ContainsFunc(b.groups, func(g *group) bool { return g.entries != nil })
}

// pluginLabel chooses a node's configuration of the device plugin.
const pluginLabel = "nvidia.com/device-plugin.config"

// migLabel chooses a node's configuration of the MIG manager.
const migLabel = "nvidia.com/mig.config"

// in is the flag of a namespace, none for kubectl's own.
func in(namespace string) string { return strings.TrimSuffix(" -n "+namespace, " -n ") }

// partitioned reports whether a node has GPUs in MIG mode.
func partitioned(n layout.Node) bool {
	return slices.ContainsFunc(n.Devices, func(d layout.Device) bool { return d.Mode == sharing.MechanismMIG })
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// groupLabel is the node label that ties pods to their group's nodes.
const groupLabel = "cotenant.dev/sharing-group"

// spaced divides a workload's name into its namespace, where it has one, and the rest.
func spaced(name string) (namespace, rest string) {
	i := strings.Index(name, "/")
	return name[:max(i, 0)], name[i+1:]
}

// Names of the ConfigMaps that the GPU Operator is pointed to, and of a whole GPU as a resource.
const (
	pluginConfigMap = "device-plugin-config"
	migConfigMap    = "mig-parted-config"
	gpuResource     = "nvidia.com/gpu"
)
