package facts

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// An object of another project may make pods of several kinds: a master and workers, a head and groups of workers, tasks. It has a pod
// template for each, in a shape of its own.

// roleTemplate is one of an object's pod templates.
type roleTemplate struct {
	path  string // in the object
	words []string
	*corev1.PodTemplateSpec
}

// templatesIn are the pod templates in an object of an unknown shape, in the order of their paths.
func templatesIn(o *unstructured.Unstructured) (out []roleTemplate) {
	var walk func(at any, path string, words []string)
	walk = func(at any, path string, words []string) {
		switch at := at.(type) {
		case map[string]any:
			for _, key := range []string{"name", "groupName", "replicaName"} {
				if s, ok := at[key].(string); ok {
					words = append(slices.Clip(words), s)
				}
			}
			keys, found := slices.Sorted(maps.Keys(at)), false
			for _, key := range keys { // template, or leaderTemplate and workerTemplate
				if t, ok := asTemplate(key, at[key]); ok {
					found, out = true, append(out, roleTemplate{path + pointed(key), append(slices.Clip(words), roleWord(key)), t})
				}
			}
			if found {
				return
			}
			for _, key := range keys {
				walk(at[key], path+pointed(key), append(slices.Clip(words), roleWord(key)))
			}
		case []any:
			for i, v := range at {
				walk(v, fmt.Sprintf("%s/%d", path, i), words)
			}
		}
	}
	walk(o.Object["spec"], "/spec", nil)
	return out
}

// pointed is a key as a part of a JSON pointer.
func pointed(key string) string {
	return "/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// asTemplate is the value under the key as a pod template; ok is false where it is none.
func asTemplate(key string, v any) (t *corev1.PodTemplateSpec, ok bool) {
	m, _ := v.(map[string]any)
	spec, _ := m["spec"].(map[string]any)
	if spec["containers"] == nil || key != "template" && !strings.HasSuffix(key, "Template") {
		return nil, false
	}
	b, err := json.Marshal(m)
	t = &corev1.PodTemplateSpec{}
	return t, err == nil && json.Unmarshal(b, t) == nil
}

// roleWord is a key without what says that a template is below it: headGroupSpec is "head", Worker is "worker".
func roleWord(key string) string {
	for _, end := range []string{"GroupSpecs", "GroupSpec", "Template", "Specs", "Spec"} {
		if s, ok := strings.CutSuffix(key, end); ok && s != "" {
			key = s
			break
		}
	}
	return strings.ToLower(key)
}

// leaderIndex is the label in which a LeaderWorkerSet counts the pods of a group: its leader is 0.
const leaderIndex = "leaderworkerset.sigs.k8s.io/worker-index"

// likeness says how much the pod is like the template: by the words for its role in labels and annotations, and by what it is made of.
func (t *roleTemplate) likeness(p *corev1.Pod) int {
	n := 0
	for _, said := range []map[string]string{p.Labels, p.Annotations} {
		for _, v := range said { //archtest:any-order it counts
			if slices.ContainsFunc(t.words, func(w string) bool { return strings.EqualFold(w, v) }) {
				n += 8
			}
		}
	}
	if index, ok := p.Labels[leaderIndex]; ok && slices.Contains(t.words, map[bool]string{true: "leader", false: "worker"}[index == "0"]) {
		n += 8
	}
	same := func(a, b any, weight int) {
		if reflect.DeepEqual(a, b) {
			n += weight
		}
	}
	for i := range t.Spec.Containers {
		k := &t.Spec.Containers[i]
		at := slices.IndexFunc(p.Spec.Containers, func(o corev1.Container) bool { return o.Name == k.Name })
		if at < 0 {
			n -= 4
			continue
		}
		o := &p.Spec.Containers[at]
		same(k.Image, o.Image, 1)
		same(k.Command, o.Command, 1)
		same(k.Args, o.Args, 1)
		same(len(k.Resources.Limits), len(o.Resources.Limits), 1)
		for name, q := range k.Resources.Limits { //archtest:any-order it counts
			if v, ok := o.Resources.Limits[name]; ok && v.Cmp(q) == 0 {
				n++
			}
		}
	}
	for _, o := range t.Spec.Tolerations { // the API server adds some
		if !slices.ContainsFunc(p.Spec.Tolerations, func(q corev1.Toleration) bool { return q.Key == o.Key && q.Value == o.Value && q.Effect == o.Effect }) {
			n--
		}
	}
	same(t.Spec.Affinity, p.Spec.Affinity, 1)
	same(t.Spec.PriorityClassName, p.Spec.PriorityClassName, 1)
	same(len(t.Spec.NodeSelector), len(p.Spec.NodeSelector), 1)
	for key, v := range t.Spec.NodeSelector { //archtest:any-order it counts
		if p.Spec.NodeSelector[key] == v {
			n++
		}
	}
	return n
}

// TemplateFor is TemplateOf for a pod of the object: of several templates, the one that the pod was made of. Nil p: the first.
func TemplateFor(o Object, p *corev1.Pod) *corev1.PodTemplateSpec {
	if _, t := templateFor(o, p); t != nil {
		return t
	}
	return TemplateOf(o)
}

// TemplatePathFor is TemplatePath for a pod of the object.
func TemplatePathFor(o Object, p *corev1.Pod) string {
	if path, t := templateFor(o, p); t != nil {
		return path
	}
	return TemplatePath(o)
}

func templateFor(o Object, p *corev1.Pod) (string, *corev1.PodTemplateSpec) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok || p == nil {
		return "", nil
	}
	all := templatesIn(u)
	best, most := -1, 0
	for i := range all {
		if n := all[i].likeness(p); best < 0 || n > most {
			best, most = i, n
		}
	}
	if best < 0 {
		return "", nil
	}
	return all[best].path, all[best].PodTemplateSpec
}

// Alike says whether both pods are of one template of the object; of objects with one, all are.
func Alike(o Object, a, b *corev1.Pod) bool {
	if a == nil || b == nil {
		return true
	}
	return TemplatePathFor(o, a) == TemplatePathFor(o, b)
}
