package discover

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision"
)

// KindRule is a rule by which a workload's kind is guessed.
type KindRule struct {
	Name string
	Kind decision.Kind
	What string // it looks at

	image, command *regexp.Regexp
	owners         []string
	ports          []int
	labels         []string
	and            bool // the owner and the rest
}

// kindRules are asked in this order; the first that fits decides.
var kindRules = []KindRule{
	{Name: "notebook-label", Kind: decision.KindNotebook, What: "label notebook-name (Kubeflow)",
		labels: []string{"notebook-name"}},
	{Name: "training-operator", Kind: decision.KindDistributedTraining,
		What: "labels of the training operator or a JobSet", labels: []string{"training.kubeflow.org/job-name",
			"jobset.sigs.k8s.io/jobset-name"}},
	{Name: "inference-service", Kind: decision.KindOnlineInference, What: "label serving.kserve.io/inferenceservice",
		labels: []string{"serving.kserve.io/inferenceservice"}},
	{Name: "notebook-image", Kind: decision.KindNotebook, What: "image or command of Jupyter, RStudio, code-server",
		image:   regexp.MustCompile(`jupyter|notebook|rstudio|code-server|openvscode|marimo`),
		command: regexp.MustCompile(`\bjupyter|code-server|rserver`)},
	{Name: "ci-image", Kind: decision.KindCI, What: "image of a CI runner",
		image: regexp.MustCompile(`actions-runner|gitlab-runner|buildkite|jenkins|tekton`)},
	{Name: "server-in-job", Kind: decision.KindOfflineInference,
		What: "an inference server's image or command, owned by a Job", and: true,
		owners: []string{"Job", "CronJob", "Workflow"}, image: serverImage, command: serverCommand},
	{Name: "server-image", Kind: decision.KindOnlineInference, What: "image or command of an inference server",
		image: serverImage, command: serverCommand},
	{Name: "launcher", Kind: decision.KindTraining, What: "command of a training launcher",
		command: regexp.MustCompile(`\b(torchrun|deepspeed|accelerate launch|mpirun|horovodrun|torch\.distributed` +
			`|colossalai|fine_?tune|finetune|train)\b|train\w*\.py`),
		image: regexp.MustCompile(`megatron|nemo:|axolotl|llama-factory|unsloth|trainer|training`)},
	{Name: "hpc-image", Kind: decision.KindHPC, What: "image of a simulation code",
		image: regexp.MustCompile(`gromacs|lammps|namd|amber\b|openfoam|quantum-espresso|relion|vasp`)},
	{Name: "notebook-port", Kind: decision.KindNotebook, What: "container port 8888", ports: []int{8888}},
	{Name: "job", Kind: decision.KindBatch, What: "owned by a Job", owners: []string{"Job", "CronJob", "Workflow",
		"VolcanoJob"}},
	{Name: "service-port", Kind: decision.KindOnlineInference, What: "a Deployment or StatefulSet with a container port",
		and: true, owners: serviceOwners, ports: []int{0}},
	{Name: "service-owner", Kind: decision.KindOnlineInference,
		What: "owned by a Deployment, StatefulSet or LeaderWorkerSet", owners: serviceOwners},
	{Name: "idle-shape", Kind: decision.KindNotebook, What: "a lone pod that held memory idle 70% of 6 h or more",
		owners: []string{}},
	{Name: "steady-shape", Kind: decision.KindTraining, What: "a lone pod 85% busy over 6 h or more", owners: []string{}},
	{Name: "lone-pod", Kind: decision.KindBatch, What: "none of the others", owners: []string{""}},
}

// shapeOf is the kind that a workload's use of its GPU suggests, where nothing else says any.
func shapeOf(u *Used, known time.Duration) (guess, bool) {
	idle, ok := u.ExecutionIdle.Get()
	switch {
	case known < 6*time.Hour:
	case ok && idle >= 0.7:
		return guess{decision.KindNotebook, "idle-shape"}, true
	case u.BusyMean.Or(0) >= 0.85:
		return guess{decision.KindTraining, "steady-shape"}, true
	}
	return guess{}, false
}

var (
	serverImage = regexp.MustCompile(`vllm|sglang|text-generation-inference|text-embeddings|tritonserver|triton-` +
		`|tensorrt-?llm|trtllm|/nim/|lmdeploy|ollama|llama[.-]?cpp|torchserve|kserve|ray-llm|dynamo|infinity|whisper` +
		`|tgi\b|mlserver|bentoml|localai|xinference`)
	serverCommand = regexp.MustCompile(`vllm(\.entrypoints| serve)|\bvllm\b|sglang|text-generation-launcher` +
		`|tritonserver|trtllm-serve|ollama serve|llama-server|torchserve|lmdeploy serve`)
	serviceOwners = []string{"Deployment", "StatefulSet", "LeaderWorkerSet", "ReplicaSet", "Rollout", "CloneSet",
		"DaemonSet", "RayCluster", "InferenceService"}
)

// KindRules lists the rules in the order in which they are asked.
func KindRules() []KindRule { return slices.Clone(kindRules) }

// guess is a kind and the rule that gave it.
type guess struct {
	kind decision.Kind
	rule string
}

func guessKind(m *metadata, containers []container, o owner) guess {
	for i := range kindRules {
		if r := &kindRules[i]; r.fits(m, containers, o) {
			return guess{r.Kind, r.Name}
		}
	}
	return guess{}
}

func (r *KindRule) fits(m *metadata, containers []container, o owner) bool {
	if len(r.labels) > 0 {
		return slices.ContainsFunc(r.labels, func(l string) bool { return m.Labels[l] != "" })
	}
	owned := slices.ContainsFunc(r.owners, func(kind string) bool { return kind == "" || kind == o.kind })
	if r.and && !owned {
		return false
	}
	if len(r.owners) > 0 && !r.and {
		return owned
	}
	return slices.ContainsFunc(containers, func(c container) bool {
		if r.image != nil && r.image.MatchString(strings.ToLower(c.Image)) {
			return true
		}
		if r.command != nil && r.command.MatchString(strings.Join(slices.Concat(c.Command, c.Args), " ")) {
			return true
		}
		for _, p := range c.Ports {
			if slices.Contains(r.ports, p.Port) || slices.Contains(r.ports, 0) {
				return true
			}
		}
		return false
	})
}

var servers = []struct {
	name string
	is   *regexp.Regexp
}{
	{"vllm", regexp.MustCompile(`\bvllm\b`)}, {"sglang", regexp.MustCompile(`\bsglang\b`)},
	{"tgi", regexp.MustCompile(`text-generation-(inference|launcher)`)},
	{"triton", regexp.MustCompile(`tritonserver`)}, {"tensorrt-llm", regexp.MustCompile(`tensorrt-?llm|trtllm`)},
	{"ollama", regexp.MustCompile(`\bollama\b`)},
}

// serverOf is the model server that an image or command names, or "".
func serverOf(image string, words []string) string {
	text := strings.ToLower(image) + " " + strings.Join(words, " ")
	for _, s := range servers {
		if s.is.MatchString(text) {
			return s.name
		}
	}
	return ""
}
