package volcano

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
)

// groupSpec has the fields of a PodGroup that are understood. Of minResources nothing follows: a gang starts when its pods find
// places, and what they ask for is known.
type groupSpec struct {
	MinMember         int32            `json:"minMember"`
	MinTaskMember     map[string]int32 `json:"minTaskMember"`
	MinResources      dialect.Amounts  `json:"minResources"`
	Queue             string           `json:"queue"`
	PriorityClassName string           `json:"priorityClassName"`
	NetworkTopology   *networkTopology `json:"networkTopology"`
	SubGroupPolicy    []subGroupPolicy `json:"subGroupPolicy"`
}

const (
	// maxTasks bounds the tasks that are kept of one PodGroup.
	maxTasks  = 256
	maxMember = 1_000_000
)

func readGroup(o *unstructured.Unstructured) dialect.Object {
	spec := &groupSpec{}
	out := dialect.Object{Unread: dialect.Take(dialect.Value(o.Object, "spec"), "spec", spec), Value: spec}
	least := 0
	for _, n := range spec.MinTaskMember { //archtest:any-order they are added up
		if n < 0 {
			out.Problem = "spec.minTaskMember: want numbers of pods"
		}
		least += int(n)
	}
	switch {
	case len(spec.MinTaskMember) > maxTasks:
		out.Problem = fmt.Sprintf("spec.minTaskMember: more than %d tasks, the limit", maxTasks)
		spec.MinTaskMember = nil
	case spec.MinMember < 0 || spec.MinMember > maxMember || least > maxMember:
		out.Problem = fmt.Sprintf("spec.minMember: want a number up to %d", maxMember)
	case len(spec.MinTaskMember) > 0 && int(spec.MinMember) > least:
		out.Unread = append(out.Unread, fmt.Sprintf("spec.minMember (above the %d of spec.minTaskMember, which count)", least))
	}
	if n := len(spec.SubGroupPolicy); n > 1 && !spec.byTask() {
		out.Unread = append(out.Unread, "spec.subGroupPolicy (of several that do not select one task of spec.minTaskMember each, none counts)")
		spec.SubGroupPolicy = nil
	}
	for _, p := range spec.SubGroupPolicy {
		least := int(spec.MinMember)
		if task := p.task(); spec.MinTaskMember[task] > 0 {
			least = int(spec.MinTaskMember[task])
		}
		out.Unread = append(out.Unread, p.unread(least)...)
	}
	return out
}

// byTask says whether each policy is of one task that is a part of the gang, and no two of the same.
func (g *groupSpec) byTask() bool {
	seen := make(map[string]bool)
	for _, p := range g.SubGroupPolicy {
		task := p.task()
		if g.MinTaskMember[task] < 1 || seen[task] {
			return false
		}
		seen[task] = true
	}
	return true
}

// task is the one whose pods the policy divides, "" for others.
func (p *subGroupPolicy) task() string {
	if s := p.LabelSelector; s != nil && len(s.MatchExpressions) == 0 && len(s.MatchLabels) == 1 {
		return s.MatchLabels[taskKey]
	}
	return ""
}

// keys are those of a pod of the task in the group called gang. A task for which the group asks no minimum is not in the gang.
func (g *groupSpec) keys(gang, task string) map[string]string {
	if len(g.tasks()) == 0 {
		return map[string]string{v1alpha1.KeyGang: gang, v1alpha1.KeyMin: strconv.Itoa(max(1, int(g.MinMember)))}
	}
	n := g.MinTaskMember[task]
	if n < 1 {
		return nil
	}
	return map[string]string{
		v1alpha1.KeyGang: gang, v1alpha1.KeySubgroup: task, v1alpha1.KeyMin: strconv.Itoa(int(n)), v1alpha1.KeyMinSubgroups: strconv.Itoa(len(g.tasks())),
	}
}

// tasks are those with a minimum.
func (g *groupSpec) tasks() (out []string) {
	for task, n := range g.MinTaskMember { //archtest:any-order they are counted
		if n > 0 {
			out = append(out, task)
		}
	}
	return out
}
