package l3

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// placedTemplate is a pod template and where it is in which object.
type placedTemplate struct {
	*corev1.PodTemplateSpec
	of   facts.Object
	path string
}

// templates are the pod templates of the owners that the API server does not check when they are made: those of other
// projects' kinds.
func templates(c *check.Case) []placedTemplate {
	var out []placedTemplate
	for _, m := range c.Owners {
		u, ok := m.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		allTemplates(u.Object["spec"], "/spec", func(path string, raw map[string]any) {
			t := &corev1.PodTemplateSpec{}
			if b, err := json.Marshal(raw); err == nil && json.Unmarshal(b, t) == nil {
				out = append(out, placedTemplate{t, m, path})
			}
		})
	}
	return out
}

// allTemplates calls yield for every pod template below, in the order of their paths.
func allTemplates(at any, path string, yield func(string, map[string]any)) {
	switch at := at.(type) {
	case map[string]any:
		keys := make([]string, 0, len(at))
		for k := range at {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if t, ok := at[k].(map[string]any); ok && k == "template" {
				if spec, ok := t["spec"].(map[string]any); ok && spec["containers"] != nil {
					yield(path+"/template", t)
					continue
				}
			}
			allTemplates(at[k], path+edit.Pointer(k), yield)
		}
	case []any:
		for i, v := range at {
			allTemplates(v, fmt.Sprintf("%s/%d", path, i), yield)
		}
	}
}

// wrongAsk is one thing that the API server does not accept of a container's resources.
type wrongAsk struct {
	said  string
	value string
	text  string    // what to do
	ops   []edit.Op // paths below the container's resources
}

// wrongAsks checks a container's resources by the API server's rules for GPUs and their like.
func wrongAsks(c *check.Case, at *corev1.Container) []wrongAsk {
	var out []wrongAsk
	r := &at.Resources
	seen := make(map[corev1.ResourceName]bool)
	for _, name := range slices.Concat(podspec.Names(r.Limits), podspec.Names(r.Requests)) {
		if seen[name] {
			continue
		}
		seen[name] = true
		limit, limited := r.Limits[name]
		request, requested := r.Requests[name]
		asked := limit
		if !limited {
			asked = request
		}
		switch {
		case unqualified(name):
			out = append(out, qualified(c, at, name, asked))
		case !podspec.Extended(name):
		case asked.MilliValue()%1000 != 0:
			whole := *resource.NewQuantity(int64(math.Ceil(asked.AsApproximateFloat64())), resource.DecimalSI)
			out = append(out, wrongAsk{
				said: fmt.Sprintf("asks for %s %s, which comes in whole pieces only", &asked, name), value: asked.String(),
				text: fmt.Sprintf("ask for %s %s in container %s", &whole, name, at.Name), ops: exactly(r, name, whole),
			})
		case !limited:
			out = append(out, wrongAsk{
				said: fmt.Sprintf("requests %s %s and sets no limit, which such resources need", &request, name), value: request.String(),
				text: fmt.Sprintf("give container %s a limit of %s %s", at.Name, &request, name), ops: exactly(r, name, request),
			})
		case requested && request.Cmp(limit) != 0:
			out = append(out, wrongAsk{
				said: fmt.Sprintf("requests %s %s and limits them to %s, which have to be the same", &request, name, &limit), value: request.String(),
				text: fmt.Sprintf("request %s %s in container %s, as its limit is", &limit, name, at.Name), ops: exactly(r, name, limit),
			})
		}
	}
	return out
}

// exactly are the operations that make both limit and request the amount.
func exactly(r *corev1.ResourceRequirements, name corev1.ResourceName, amount resource.Quantity) []edit.Op {
	var out []edit.Op
	if r.Limits == nil {
		out = append(out, edit.Op{Op: "add", Path: "/limits", Value: map[string]string{string(name): amount.String()}})
	} else {
		out = append(out, edit.Op{Op: "add", Path: edit.Pointer("limits", string(name)), Value: amount.String()})
	}
	if _, ok := r.Requests[name]; ok {
		out = append(out, edit.Op{Op: "replace", Path: edit.Pointer("requests", string(name)), Value: amount.String()})
	}
	return out
}

// unqualified says whether the name is of no standard resource and has no vendor.
func unqualified(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return false
	}
	return !strings.Contains(string(name), "/") && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// qualified offers the resource of the nodes that the bare name may mean.
func qualified(c *check.Case, at *corev1.Container, name corev1.ResourceName, asked resource.Quantity) wrongAsk {
	w := wrongAsk{said: fmt.Sprintf("asks for %s %s, and no resource has that name", &asked, name), value: asked.String()}
	if meant := gpuResource(c, string(name)); meant != "" {
		w.said += fmt.Sprintf("; nodes have %s", meant)
		w.text = fmt.Sprintf("ask for %s %s instead of %s in container %s", &asked, meant, name, at.Name)
		for _, list := range []struct {
			name string
			of   corev1.ResourceList
		}{{"limits", at.Resources.Limits}, {"requests", at.Resources.Requests}} {
			if _, ok := list.of[name]; ok {
				w.ops = append(w.ops, edit.Op{Op: "remove", Path: edit.Pointer(list.name, string(name))}, edit.Op{Op: "add", Path: edit.Pointer(list.name, meant), Value: asked.String()})
			}
		}
		if len(at.Resources.Limits) == 0 {
			w.ops = append(w.ops, edit.Op{Op: "add", Path: "/limits", Value: map[string]string{meant: asked.String()}})
		}
	}
	return w
}

// gpuResource is the nodes' resource whose last part is the word, or that most nodes have of those that do.
func gpuResource(c *check.Case, word string) string {
	count := make(map[string]int)
	best := ""
	for _, n := range c.Nodes {
		//archtest:any-order the name with the highest count wins, and of equals the least
		for name := range n.Status.Capacity {
			if _, last, ok := strings.Cut(string(name), "/"); ok && podspec.Extended(name) && last == word {
				count[string(name)]++
				if best == "" || count[string(name)] > count[best] || count[string(name)] == count[best] && string(name) < best {
					best = string(name)
				}
			}
		}
	}
	return best
}

// misasks says whether a template of the owners asks for GPUs in a way that the API server does not accept.
func misasks(c *check.Case) bool {
	for _, t := range templates(c) {
		for i := range t.Spec.Containers {
			if len(wrongAsks(c, &t.Spec.Containers[i])) > 0 {
				return true
			}
		}
	}
	return false
}
