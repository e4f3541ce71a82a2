// Package rule finds mistakes in manifests that are not reported: the API server takes them, and the work then waits,
// fails, or takes more than it should. A file has one rule, with its code, its title, why it matters, and a test beside
// it. Rules look at a workload and the facts of a cluster; what the engine decides is diagnose/submit's, which calls them.
package rule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/submit/workload"
	"github.com/berth-dev/berth/engine/why"
)

// Rule is one mistake.
type Rule struct {
	Code  string // "B101": a contract, as linters have them; numbers are added, never given to another rule
	Name  string // "gpu-in-requests-only"
	Title string // a few words
	Why   string // what happens, in a sentence or two
	// Covers are causes that say the same, and better: the rule is silent where one of them keeps the workload from starting.
	Covers []why.Cause
	find   func(*Case) []Finding
	// of is for rules about objects that are no workloads. The facts have the manifests in them.
	of func(w *World, object map[string]any) []Finding
	// said is for rules about what the API server says.
	said func(*Said) []Finding
}

// Case is a workload on its way.
type Case struct {
	*facts.Facts
	Workload *workload.Workload
	Object   map[string]any // as it was written
	Starts   bool           // the plan starts it
	Cause    why.Cause      // why it does not
	Refused  bool           // the API server does not take it
	Bare     bool           // there is no cluster that could have queues and classes
	// Reclaimed names what may take back what the work is given, in words; "": nothing is known to.
	Reclaimed string
	Matching  Nodes // shared by the cases of one check; nil: by none
}

// World is what an object that is no workload is looked at with.
type World struct {
	*facts.Facts        // with the manifests
	Namespace    string // of objects that name none
	Bare         bool   // there is no cluster: what is not there may still exist
	// Fits is how many of so many pods of a workload fit at once on the cluster without other work; false: it was not planned.
	Fits func(target facts.Object, pods int64) (int, bool)
}

// Finding is one mistake in one object.
type Finding struct {
	Code    string    `json:"code"`
	Name    string    `json:"name"`
	Title   string    `json:"title"`
	Message string    `json:"message"` // with names and numbers; no capital, no full stop
	Path    string    `json:"path"`    // JSON pointer to the field in the object
	File    string    `json:"file"`
	Line    int       `json:"line"`
	Advice  string    `json:"advice,omitempty"`
	Patch   []edit.Op `json:"patch,omitempty"` // of the object in the file, where one change is certainly right
}

// Rules are all rules, by code.
func Rules() []*Rule {
	return []*Rule{
		&wholeAndSlice, &requestsOnly, &gangWithoutQueue, &noRetries, &noCheckpoint, &newerCUDA, &cannotMeet, &unknownModel,
		&strandsGPUs, &untoleratedTaint, &bareQuotaKey, &volumeElsewhere, &countedReclaims, &unknownClass, &unkept, &warned,
		&noTarget, &beyondRoom, &unheeded, &unplanned, &littleMemory, &sharedVolume,
	}
}

// Find looks at a workload with all rules. Findings are by code, then by where they are.
func Find(c *Case) []Finding {
	var out []Finding
	if c.Workload.Object == nil {
		return nil
	}
	for _, r := range Rules() {
		if r.find != nil && !slices.Contains(r.Covers, c.Cause) {
			out = append(out, r.sign(r.find(c))...)
		}
	}
	return sorted(out)
}

// Objects looks at an object of any kind, as JSON has it.
func Objects(w *World, object map[string]any) []Finding {
	var out []Finding
	for _, r := range Rules() {
		if r.of != nil {
			out = append(out, r.sign(r.of(w, object))...)
		}
	}
	return sorted(out)
}

func (r *Rule) sign(found []Finding) []Finding {
	for i := range found {
		found[i].Code, found[i].Name, found[i].Title = r.Code, r.Name, r.Title
	}
	return found
}

func sorted(found []Finding) []Finding {
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Code, b.Code), strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	return found
}

// each calls for the first pod of every template: the others are like it.
func (c *Case) each(do func(p *workload.Part, pod *corev1.Pod)) {
	seen := make(map[string]bool)
	for i := range c.Workload.Parts {
		p := &c.Workload.Parts[i]
		if len(p.Pods) > 0 && !seen[p.Template] {
			seen[p.Template] = true
			do(p, p.Pods[0])
		}
	}
}

// containers calls for each container of each template, with the JSON pointer to it.
func (c *Case) containers(do func(p *workload.Part, pod *corev1.Pod, k *corev1.Container, path string)) {
	c.each(func(p *workload.Part, pod *corev1.Pod) {
		for i := range pod.Spec.InitContainers {
			do(p, pod, &pod.Spec.InitContainers[i], fmt.Sprintf("%s/spec/initContainers/%d", p.Template, i))
		}
		for i := range pod.Spec.Containers {
			do(p, pod, &pod.Spec.Containers[i], fmt.Sprintf("%s/spec/containers/%d", p.Template, i))
		}
	})
}

// isGPU says whether the resource is whole GPUs of some maker.
func isGPU(name corev1.ResourceName) bool {
	return strings.HasSuffix(string(name), "/gpu") || strings.HasSuffix(string(name), ".com/gpu.shared")
}

// isMIG says whether the resource is slices of GPUs.
func isMIG(name corev1.ResourceName) bool { return strings.Contains(string(name), "/mig-") }

// gpus are the whole GPUs that the pod asks for.
func gpus(p *corev1.Pod) int64 {
	n := int64(0)
	for name, q := range podspec.Requests(p) {
		if isGPU(name) {
			n += q.Value()
		}
	}
	return n
}
