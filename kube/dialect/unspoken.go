package dialect

import (
	"slices"
	"strings"
)

// unspoken are the domains of keys by which objects ask schedulers for something, or what stands in front of one, that Berth has no
// dialect of. They are those of apache/yunikorn-k8shim, koordinator-sh/koordinator, SlinkyProject/slurm-bridge,
// kubewharf/godel-scheduler and NexusGPU/tensor-fusion.
var unspoken = []string{"yunikorn.apache.org", "koordinator.sh", "slinky.slurm.net", "godel.bytedance.com", "tensor-fusion.ai"}

// spoken are the domains of keys of the schedulers that Berth reads, or has a dialect of. Kueue's is not among them: it lets pods in beside
// any scheduler, and its dialect heeds its keys by itself.
var spoken = []string{"hami.io", "kai.scheduler", "run.ai", "runai", "scheduling.k8s.io", "scheduling.sigs.k8s.io", "scheduling.x-k8s.io", "volcano.sh"}

// scheduling are words of keys that nobody writes who does not mean a scheduler: a project that is not known here is told of by them.
var scheduling = []string{"scheduler", "scheduling", "gang", "podgroup", "pod-group", "preemptible", "preemptable", "preemption", "preemptibility"}

// answered are keys with such a word that ask for nothing which does not follow from the objects anyway. KubeRay's have the pods of a
// cluster start together (kuberay v1.6.0, ray-operator/controllers/ray/utils/constant.go), and named a scheduler, in earlier versions, whose own
// keys stand beside them.
var answered = []string{"ray.io/gang-scheduling-enabled", "ray.io/scheduler-name"}

// Unspoken says whether the key asks a scheduler for something of which there is no dialect. Kubernetes' own keys, those of its projects
// and Berth's are others' to judge.
func Unspoken(key string) bool {
	domain, name, ok := strings.Cut(key, "/")
	if !ok || slices.Contains(answered, key) {
		return false
	}
	if Within(key, unspoken) {
		return true
	}
	if Within(key, spoken) || Within(key, []string{"k8s.io", "x-k8s.io", "kubernetes.io", "sigs.k8s.io", "berth.dev"}) {
		return false
	}
	return slices.ContainsFunc(scheduling, func(word string) bool { return hasWord(domain, word) || hasWord(name, word) })
}

// ForScheduler says whether the key asks another scheduler than Berth for something, whether there is a dialect of it or not.
func ForScheduler(key string) bool { return Within(key, spoken) || Unspoken(key) }

// hasWord says whether the word stands in the text by itself: gang is not in gangway.
func hasWord(text, word string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(word)
		if (from == 0 || !letter(text[from-1])) && (to == len(text) || !letter(text[to])) {
			return true
		}
		at = from + 1
	}
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
