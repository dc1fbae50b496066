package advise

import (
	"errors"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/yamlnode"
)

// reads lists what a look reads of a cluster, by API group.
var reads = []struct {
	group     string
	resources []string
}{
	{"", []string{"nodes", "pods", "configmaps", "resourcequotas"}},
	{"apps", []string{"deployments", "statefulsets", "replicasets", "daemonsets"}},
	{"batch", []string{"jobs"}},
	{"autoscaling", []string{"horizontalpodautoscalers"}},
	{"policy", []string{"poddisruptionbudgets"}},
	{"leaderworkerset.x-k8s.io", []string{"leaderworkersets"}},
	{"resource.k8s.io", []string{"resourceslices", "resourceclaims", "resourceclaimtemplates"}},
}

// CronJob writes the objects with which a cluster looks at itself: a CronJob that runs `cotenant advise` of an image, a
// ServiceAccount that may get and list what is read and change nothing, and a volume for the looks. every must divide
// an hour or a day; patience is that of Options.
func CronJob(namespace, image string, every, patience time.Duration) ([]byte, error) {
	if image == "" {
		return nil, errors.New("advise: a CronJob needs an image with the program as its entry point")
	}
	schedule := ""
	switch minutes, hours := int(every/time.Minute), int(every/time.Hour); {
	case every >= time.Minute && every <= time.Hour/2 && time.Hour%every == 0 && every%time.Minute == 0:
		schedule = fmt.Sprintf("*/%d * * * *", minutes)
	case every == 24*time.Hour:
		schedule = "0 0 * * *"
	case every >= time.Hour && every%time.Hour == 0 && 24%hours == 0:
		schedule = fmt.Sprintf("0 */%d * * *", hours)
	default:
		return nil, fmt.Errorf("advise: %v divides neither an hour nor a day into whole minutes or hours: use 15m, 1h or 24h",
			every)
	}
	const name, folder = "cotenant-advise", "/looks"
	meta := func(namespace any) *yaml.Node { return yamlnode.Map("name", name, "namespace", namespace) }
	var rules []*yaml.Node
	for _, r := range reads {
		rules = append(rules, yamlnode.Map("apiGroups", yamlnode.List(yamlnode.Quoted(r.group)), "resources", r.resources,
			"verbs", []string{"get", "list"}))
	}
	const rbac = "rbac.authorization.k8s.io"
	pod := yamlnode.Map("serviceAccountName", name, "restartPolicy", "Never",
		"containers", yamlnode.List(yamlnode.Map("name", name, "image", image,
			"args", []string{"advise", "-kube", "-patience", patience.String(), "-out", folder},
			"volumeMounts", yamlnode.List(yamlnode.Map("name", "looks", "mountPath", folder)))),
		"volumes", yamlnode.List(yamlnode.Map("name", "looks", "persistentVolumeClaim", yamlnode.Map("claimName", name))))
	return yamlnode.Encode([]string{"kubectl apply -f: looks at the cluster and changes nothing in it."},
		yamlnode.Map("apiVersion", "v1", "kind", "ServiceAccount", "metadata", meta(namespace)),
		yamlnode.Map("apiVersion", rbac+"/v1", "kind", "ClusterRole", "metadata", meta(nil),
			"rules", yamlnode.List(rules...)),
		yamlnode.Map("apiVersion", rbac+"/v1", "kind", "ClusterRoleBinding", "metadata", meta(nil),
			"roleRef", yamlnode.Map("apiGroup", rbac, "kind", "ClusterRole", "name", name),
			"subjects", yamlnode.List(yamlnode.Map("kind", "ServiceAccount", "name", name, "namespace", namespace))),
		yamlnode.Map("apiVersion", "v1", "kind", "PersistentVolumeClaim", "metadata", meta(namespace),
			"spec", yamlnode.Map("accessModes", []string{"ReadWriteOnce"},
				"resources", yamlnode.Map("requests", yamlnode.Map("storage", "1Gi")))),
		yamlnode.Map("apiVersion", "batch/v1", "kind", "CronJob", "metadata", meta(namespace),
			"spec", yamlnode.Map("schedule", schedule, "concurrencyPolicy", "Forbid",
				"jobTemplate", yamlnode.Map("spec", yamlnode.Map("template", yamlnode.Map("spec", pod))))))
}
