package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// Version is how an object was before.
type Version struct {
	From     string // in words: "revision 3", "what was last applied"
	Revision int64  // for `kubectl rollout undo`; 0: it is none of a rollout
	Ready    int    // pods that were made from it and are ready now
	Changes  []Change
}

// mostVersions bounds the versions of one object that are compared: who goes back goes to one of the last.
const mostVersions = 3

// Versions are the earlier versions of the object that differ from the present: those that have ready pods first, then the
// newest first; what was last applied is last.
func Versions(f *facts.Facts, o facts.Object) []Version {
	var out []Version
	now := tree(facts.TemplateOf(o))
	for _, r := range revisions(f, o) {
		was := tree(r.template)
		if was == nil || len(out) == mostVersions {
			continue
		}
		if changes := differences(clean(was), clean(now), templateAt(o)); len(changes) > 0 {
			out = append(out, Version{From: fmt.Sprintf("revision %d", r.number), Revision: r.number, Ready: r.ready, Changes: changes})
		}
	}
	slices.SortStableFunc(out, func(a, b Version) int { return cmp.Compare(min(b.Ready, 1), min(a.Ready, 1)) })
	if changes := sinceApplied(o); len(changes) > 0 {
		out = append(out, Version{From: "what was last applied", Changes: changes})
	}
	return out
}

// templateAt is the path of the pod template in the object, as keys.
func templateAt(o facts.Object) []string {
	return strings.Split(strings.TrimPrefix(facts.TemplatePath(o), "/"), "/")
}

// revision is one that a controller keeps.
type revision struct {
	number   int64
	template *corev1.PodTemplateSpec
	ready    int
}

// revisions are those that the object's controller keeps beside the present one, the newest first.
func revisions(f *facts.Facts, o facts.Object) []revision {
	var out []revision
	switch o := o.(type) {
	case *appsv1.Deployment:
		for _, child := range f.Children(o) {
			if r, ok := child.(*appsv1.ReplicaSet); ok {
				var number int64
				fmt.Sscan(r.Annotations[revisionKey], &number)
				if number > 0 {
					out = append(out, revision{number, &r.Spec.Template, readyPods(f, r, "")})
				}
			}
		}
	case *appsv1.StatefulSet, *appsv1.DaemonSet:
		for _, r := range f.ControllerRevisions {
			if c := metav1.GetControllerOfNoCopy(r); c == nil || c.UID != o.GetUID() {
				continue
			}
			var data struct {
				Spec struct{ Template *corev1.PodTemplateSpec }
			}
			if json.Unmarshal(r.Data.Raw, &data) != nil || data.Spec.Template == nil {
				continue
			}
			out = append(out, revision{r.Revision, data.Spec.Template, readyPods(f, o, r.Name)})
		}
	}
	slices.SortFunc(out, func(a, b revision) int { return cmp.Compare(b.number, a.number) })
	return out
}

// readyPods counts the object's pods that are ready; of one revision, where it is given.
func readyPods(f *facts.Facts, o facts.Object, of string) (n int) {
	for _, child := range f.Children(o) {
		p, ok := child.(*corev1.Pod)
		if !ok || p.DeletionTimestamp != nil {
			continue
		}
		if hash := p.Labels[appsv1.ControllerRevisionHashLabelKey]; of != "" && hash != of && !strings.HasSuffix(of, "-"+hash) { // a DaemonSet's has the hash alone
			continue
		}
		if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			n++
		}
	}
	return n
}

// sinceApplied are the fields that have another value than `kubectl apply` last gave them. Fields that it did not give are not
// compared: the API server and controllers fill them in.
func sinceApplied(o facts.Object) []Change {
	text := o.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
	if text == "" {
		return nil
	}
	var was map[string]any
	if json.Unmarshal([]byte(text), &was) != nil {
		return nil
	}
	now, ok := tree(o).(map[string]any)
	if !ok {
		return nil
	}
	was, now = clean(was).(map[string]any), clean(now).(map[string]any)
	var out []Change
	for _, key := range sortedKeys(was) {
		switch key {
		case "apiVersion", "kind", "status":
			continue
		case "metadata": // a person writes labels and annotations
			meta, _ := was[key].(map[string]any)
			is, _ := now[key].(map[string]any)
			for _, part := range []string{"labels", "annotations"} {
				out = append(out, missing(meta[part], is[part], []string{key, part})...)
			}
			continue
		}
		out = append(out, missing(was[key], now[key], []string{key})...)
	}
	if _, ok := o.(*corev1.Pod); ok { // the API server adds to its lists
		out = slices.DeleteFunc(out, func(c Change) bool { return c.Was == nil })
	}
	return out
}

// clean takes out of an object or a template what says nothing of how it was meant.
func clean(v any) any {
	top, ok := v.(map[string]any)
	if !ok {
		return v
	}
	if spec, _ := top["spec"].(map[string]any); spec["serviceAccountName"] != nil {
		delete(spec, "serviceAccount") // another name of the same field: the API server goes by serviceAccountName, and writes both
	}
	meta, _ := top["metadata"].(map[string]any)
	delete(meta, "creationTimestamp")
	delete(meta, "name")
	delete(meta, "namespace")
	for _, part := range []string{"labels", "annotations"} {
		m, _ := meta[part].(map[string]any)
		for _, key := range []string{appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey, "kubectl.kubernetes.io/restartedAt", corev1.LastAppliedConfigAnnotation} {
			delete(m, key)
		}
		if len(m) == 0 {
			delete(meta, part)
		}
	}
	return v
}

// tree is the value as JSON knows it; nil of nothing.
func tree(v any) (out any) {
	b, err := json.Marshal(v)
	if err != nil || json.Unmarshal(b, &out) != nil {
		return nil
	}
	return out
}

// mostPeers bounds the pods that are compared.
const mostPeers = 200

// Peers are the other values that running pods of the namespace have in a field of which this pod has a value, the most used
// first, each with one of the pods. The field is one of a pod, as people write it: spec.serviceAccountName.
func Peers(f *facts.Facts, p *corev1.Pod, field string) (out []Peer) {
	keys := split(field)
	own, ok := at(tree(p), keys).(string)
	if !ok || own == "" {
		return nil
	}
	count := make(map[string]int)
	seen := 0
	for _, o := range f.Pods {
		if seen == mostPeers {
			break
		}
		if o.Namespace != p.Namespace || o.UID == p.UID || facts.StateOf(o) != facts.Running {
			continue
		}
		seen++
		if v, ok := at(tree(o), keys).(string); ok && v != "" && v != own {
			if count[v]++; count[v] == 1 {
				out = append(out, Peer{Keys: keys, Value: v, Own: own, Pod: o})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Peer) int {
		return cmp.Or(cmp.Compare(count[b.Value], count[a.Value]), cmp.Compare(a.Value, b.Value))
	})
	return out
}

// Peer is another value of a field, and a pod that has it.
type Peer struct {
	Keys       []string
	Value, Own string
	Pod        *corev1.Pod
}

// split takes a field apart: spec.volumes[0].name, spec.nodeSelector["a/b"].
func split(field string) []string {
	var out []string
	for field != "" {
		i := strings.IndexAny(field, ".[")
		switch {
		case i < 0:
			return append(out, field)
		case i > 0:
			out = append(out, field[:i])
		}
		if field[i] == '.' {
			field = field[i+1:]
			continue
		}
		end := strings.IndexByte(field[i:], ']')
		if end < 0 {
			return nil
		}
		out = append(out, strings.Trim(field[i+1:i+end], `"`))
		field = strings.TrimPrefix(field[i+end+1:], ".")
	}
	return out
}

// at is the value under the keys; nil: there is none.
func at(v any, keys []string) any {
	for _, key := range keys {
		switch m := v.(type) {
		case map[string]any:
			v = m[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(m) {
				return nil
			}
			v = m[i]
		default:
			return nil
		}
	}
	return v
}
