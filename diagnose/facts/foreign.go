package facts

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// foreignLacks is 1 for an object of another project's kind that has a pod template and has made nothing yet, neither
// pods nor what makes them, or that says that the API server takes no more of its pods: how many it will make is its operator's to say, and
// one stands for them.
func (f *Facts) foreignLacks(o *unstructured.Unstructured) int {
	made := slices.ContainsFunc(f.Children(o), func(child Object) bool { // what is about pods that others make is not made in their place
		k := KindOfObject(child).Kind
		return k != "Workload" && k != "PodGroup"
	})
	if _, yes := Suspended(o); yes || made && len(Refusing(o)) == 0 || o.GetDeletionTimestamp() != nil || Over(o) {
		return 0
	}
	if path, _ := foreignTemplate(o); path == "" {
		return 0
	}
	switch o.GetKind() {
	case "Workload", "PodGroup", "LeaderWorkerSet":
		return 0
	}
	return 1
}

// Refusing are the conditions with which the object says that the API server takes none of its pods.
func Refusing(o *unstructured.Unstructured) []Condition {
	return slices.DeleteFunc(ConditionsOf(o), func(c Condition) bool {
		return !c.Bad() || !refusedPods.MatchString(c.Message)
	})
}

// refusedPods is how the API server refuses pods, as those who make them pass it on.
var refusedPods = regexp.MustCompile(`(?i)\bpods? "[^"]*" is forbidden|denied the request|failed calling webhook|violates PodSecurity`)

// Over says whether the object's status says that it has ended, or is held back.
func Over(o *unstructured.Unstructured) bool {
	for _, path := range [][]string{{"status", "jobStatus"}, {"status", "jobDeploymentStatus"}, {"status", "state", "phase"}} { // Ray, Ray, Volcano
		phase, _, _ := unstructured.NestedString(o.Object, path...)
		switch strings.ToLower(phase) {
		case "succeeded", "failed", "stopped", "complete", "completed", "terminated", "aborted", "suspended":
			return true
		}
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, s := range conditions {
		m, ok := s.(map[string]any)
		if !ok || m["status"] != "True" {
			continue
		}
		switch m["type"] {
		case "Succeeded", "Failed", "Completed", "Complete", "Suspended", "StartupPolicyCompleted":
			return true
		}
	}
	return false
}

// ForeignNamed is the object of the foreign kind ("BerthQueue.berth.dev"); nil where there is none.
func (f *Facts) ForeignNamed(kind, namespace, name string) *unstructured.Unstructured {
	for _, u := range f.Foreign[kind] {
		if u.GetName() == name && u.GetNamespace() == namespace {
			return u
		}
	}
	return nil
}

// ForeignNames are the names of the objects of the kind, sorted, each once.
func (f *Facts) ForeignNames(kind, namespace string) []string {
	var out []string
	for _, u := range f.Foreign[kind] {
		if u.GetNamespace() == namespace {
			out = append(out, u.GetName())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
