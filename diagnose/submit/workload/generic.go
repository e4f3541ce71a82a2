package workload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/facts"
)

// jobSet makes the Jobs of a JobSet, as its controller names them.
func (m *maker) jobSet(w *Workload, u *unstructured.Unstructured) error {
	if err := m.jobSetClaims(w, u); err != nil {
		return err
	}
	list, _, _ := unstructured.NestedSlice(u.Object, "spec", "replicatedJobs")
	for i, item := range list {
		r, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("spec.replicatedJobs[%d] is no object", i)
		}
		var of struct {
			Name     string
			Replicas *int
			Template batchv1.JobTemplateSpec
		}
		if err := decode(r, &of); err != nil {
			return fmt.Errorf("spec.replicatedJobs[%d]: %w", i, err)
		}
		n := 1
		if of.Replicas != nil {
			n = *of.Replicas
		}
		if suspended(u) {
			n = 0
		}
		path := fmt.Sprintf("/spec/replicatedJobs/%d/template/spec/template", i)
		if n <= 0 {
			w.add(Part{Name: of.Name, Maker: u, Template: path})
		}
		for k := range n {
			if m.left == 0 {
				w.add(Part{Name: of.Name, Maker: u, Template: path, Wanted: n - k})
				break
			}
			j := &batchv1.Job{ObjectMeta: *of.Template.ObjectMeta.DeepCopy(), Spec: *of.Template.Spec.DeepCopy()}
			m.below(j, u, fmt.Sprintf("%s-%s-%d", u.GetName(), of.Name, k))
			if j.Spec.Template.Labels == nil {
				j.Spec.Template.Labels = make(map[string]string)
			}
			j.Spec.Template.Labels[facts.CrewLabels["jobset.x-k8s.io"]] = u.GetName()
			j.Spec.Template.Labels["jobset.sigs.k8s.io/replicatedjob-name"] = of.Name
			keepApart(j, u)
			w.mount(&j.Spec.Template.Spec)
			w.add(m.job(fmt.Sprintf("%s-%d", of.Name, k), j, u, path))
		}
	}
	return nil
}

// jobSetClaims makes the claims that a JobSet has for its Jobs together (pkg/controllers/volume_claim_policy.go of jobset v0.12.0).
func (m *maker) jobSetClaims(w *Workload, u *unstructured.Unstructured) error {
	var policies []struct {
		Templates []corev1.PersistentVolumeClaim `json:"templates"`
	}
	from, ok, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "volumeClaimPolicies")
	if !ok {
		return nil
	}
	if err := decode(from, &policies); err != nil {
		return fmt.Errorf("spec.volumeClaimPolicies: %w", err)
	}
	for _, p := range policies {
		for i := range p.Templates {
			c := p.Templates[i].DeepCopy()
			c.Namespace, c.Name, c.UID = u.GetNamespace(), c.Name+"-"+u.GetName(), m.next()
			c.Status.Phase = corev1.ClaimPending
			w.shared, w.sharedAs = append(w.shared, c), append(w.sharedAs, p.Templates[i].Name)
		}
	}
	return nil
}

// mount gives the pods the claims that they have together and that a container of theirs mounts.
func (w *Workload) mount(spec *corev1.PodSpec) {
	for i, name := range w.sharedAs {
		mounts := func(c corev1.Container) bool {
			return slices.ContainsFunc(c.VolumeMounts, func(v corev1.VolumeMount) bool { return v.Name == name })
		}
		if slices.ContainsFunc(spec.Containers, mounts) || slices.ContainsFunc(spec.InitContainers, mounts) {
			spec.Volumes = claimed(spec.Volumes, name, w.shared[i].Name)
		}
	}
}

// CrewLabels are the keys of labels that operators give to pods after the name of their object, sorted.
func CrewLabels() []string { return slices.Sorted(maps.Values(facts.CrewLabels)) }

func suspended(u *unstructured.Unstructured) bool {
	_, yes := facts.Suspended(u)
	return yes
}

// decode reads a value as JSON has it into a Go value.
func decode(from any, into any) error {
	b, err := json.Marshal(from)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return wrong(err)
	}
	return nil
}

// generic looks for pod templates in an object of a kind that is not known: an object under a key that ends in "template"
// whose spec has containers, or one under any key that has containers itself. How many pods it stands for follows from the fields around it (see count).
func (m *maker) generic(w *Workload, u *unstructured.Unstructured) error {
	s := search{}
	s.in(u.Object["spec"], "/spec", 1)
	if len(s.found) > 0 && !plain(u) {
		w.Guess = guessed(u, s.found)
		for _, path := range placing(u.Object["spec"], "spec", s.found, nil) {
			w.Vain = append(w.Vain, path+" (what becomes of it is up to the controller of kind "+u.GetKind()+", which is not known here)")
		}
	}
	for _, f := range s.found {
		var t corev1.PodTemplateSpec
		if err := decode(f.template, &t); err != nil {
			return fmt.Errorf("%s: %w", dotted(f.path), err)
		}
		if t.Labels == nil {
			t.Labels = make(map[string]string)
		}
		t.Labels[cmp.Or(facts.CrewLabels[u.GroupVersionKind().Group], facts.CrewLabels["kubeflow.org"])] = u.GetName()
		name := f.name
		if len(s.found) == 1 {
			name = ""
		}
		if key := kubeflowRoles[u.GetKind()]; key != "" && u.GroupVersionKind().Group == "kubeflow.org" {
			t.Labels[key] = strings.ToLower(f.name)
		}
		p := m.standIn(u, name, f.path, &t, f.count)
		p.Name, p.Bare = f.name, f.bare
		w.add(p)
	}
	return nil
}

// placers are words in the names of fields that ask for places, a queue or a turn, and which no controller has for anything else.
var placers = []string{"queue", "priorityclass", "scheduler", "scheduling", "gang", "networktopology", "topologyconstraint", "podgroup", "minavailable", "minmember", "preempt", "nodeselector", "affinity", "toleration"}

// placing lists the fields of an object, outside of the pod templates that were found in it, that ask for places, a queue or a turn: which
// of them reach its pods only its controller knows. Those that are empty are left out, and so is what is below one of the list.
func placing(at any, path string, found []foundTemplate, out []string) []string {
	switch at := at.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(at)) {
			below := path + "." + key
			switch {
			case len(out) == mostPlacing || slices.ContainsFunc(found, func(f foundTemplate) bool { return dotted(f.path) == below }):
			case slices.ContainsFunc(placers, func(word string) bool { return strings.Contains(strings.ToLower(key), word) }) && !blank(at[key]):
				out = append(out, below)
			default:
				out = placing(at[key], below, found, out)
			}
		}
	case []any:
		for i, v := range at {
			out = placing(v, fmt.Sprintf("%s.%d", path, i), found, out)
		}
	}
	return out
}

// mostPlacing bounds what placing lists of one object.
const mostPlacing = 8

func blank(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// templated are kinds whose pods are those of their templates, times the number beside each, as far as matters here: for them the search is no
// guess. Beside them are Kubeflow's jobs (kubeflowRoles).
var templated = map[string][]string{
	"argoproj.io":      {"Rollout"},                 // argo-rollouts v1.8, pkg/apis/rollouts/v1alpha1/types.go
	"apps.kruise.io":   {"CloneSet", "StatefulSet"}, // openkruise v1.8, apis/apps
	"batch.volcano.sh": {"Job", "CronJob"},          // without its dialect, which is told
	"kubeflow.org":     {"Notebook"},                // notebook-controller: a StatefulSet of one pod
}

// plain says whether the pods of the object are those of its templates.
func plain(u *unstructured.Unstructured) bool {
	group, kind := u.GroupVersionKind().Group, u.GetKind()
	return slices.Contains(templated[group], kind) || group == "kubeflow.org" && kubeflowRoles[kind] != ""
}

// guessed is what was found in an object of a kind that is not known, as a sentence.
func guessed(u *unstructured.Unstructured, found []foundTemplate) string {
	var parts []string
	for i, f := range found {
		if i == 3 {
			parts = append(parts, fmt.Sprintf("%d more", len(found)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%d of %s", f.count, dotted(f.path)))
	}
	return fmt.Sprintf("%s has the pods of the pod templates in it, %s; what the controller of kind %s of %s makes is not known here", facts.RefTo(u), strings.Join(parts, ", "), u.GetKind(), u.GroupVersionKind().Group)
}

// kubeflowRoles are the labels by which the scheduler knows the role of pods of Kubeflow's jobs, by kind (kube/dialect/controllers).
var kubeflowRoles = map[string]string{
	"MPIJob": "training.kubeflow.org/job-role", "PyTorchJob": "training.kubeflow.org/replica-type", "TFJob": "training.kubeflow.org/replica-type",
	"XGBoostJob": "training.kubeflow.org/replica-type", "PaddleJob": "training.kubeflow.org/replica-type", "JAXJob": "training.kubeflow.org/replica-type",
}

// standIn is pods of a part of an object, under a maker that stands for the object: its keys count for them. A suspended object has none.
func (m *maker) standIn(u *unstructured.Unstructured, name, path string, t *corev1.PodTemplateSpec, n int) Part {
	if suspended(u) {
		n = 0
	}
	called := u.GetName()
	if name != "" {
		called += "-" + strings.ToLower(name)
	}
	p := m.replicaSet(name, u, called, path, t, n)
	p.Maker.SetLabels(u.GetLabels())
	p.Maker.SetAnnotations(u.GetAnnotations())
	return p
}

// dotted words a JSON pointer as people name fields.
func dotted(path string) string {
	return strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", ".")
}

// search collects pod templates.
type search struct{ found []foundTemplate }

type foundTemplate struct {
	name, path string
	template   map[string]any
	bare       bool // its path is of the spec
	count      int
}

// mostTemplates bounds what is taken of one object.
const mostTemplates = 100

func (s *search) in(at any, path string, count int) {
	if len(s.found) >= mostTemplates {
		return
	}
	switch at := at.(type) {
	case map[string]any:
		n := times(count, around(at))
		for _, key := range slices.Sorted(maps.Keys(at)) {
			below := path + "/" + escape(key)
			if t, bare, ok := podTemplate(key, at[key]); ok {
				s.found = append(s.found, foundTemplate{name: s.nameOf(at, key, path), path: below, template: t, bare: bare, count: times(count, own(at, key))})
				continue
			}
			s.in(at[key], below, n)
		}
	case []any:
		for i, v := range at {
			s.in(v, fmt.Sprintf("%s/%d", path, i), count)
		}
	}
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// podTemplate says whether the value of the key is a template of pods.
func podTemplate(key string, v any) (t map[string]any, bare, ok bool) {
	t, ok = v.(map[string]any)
	if list, _ := t["containers"].([]any); len(list) > 0 {
		first, _ := list[0].(map[string]any)
		return map[string]any{"spec": t}, true, first != nil
	}
	if !ok || !strings.HasSuffix(strings.ToLower(key), "template") {
		return nil, false, false
	}
	spec, ok := t["spec"].(map[string]any)
	if !ok {
		return nil, false, false
	}
	list, ok := spec["containers"].([]any)
	return t, false, ok && len(list) > 0
}

// around is how many times what is inside of an object is wanted.
func around(at map[string]any) int {
	for _, key := range []string{"replicas", "minReplicas"} {
		if n, ok := number(at[key]); ok {
			return n
		}
	}
	return 1
}

// own is how many pods an object wants of the template that it has under the key: of the group sizes that projects have, whichever is there.
// A workerTemplate with workerReplicas beside it is of each replica of what is around them.
func own(at map[string]any, key string) int {
	if role, ok := strings.CutSuffix(key, "Template"); ok && role != "" {
		if n, ok := number(at[role+"Replicas"]); ok {
			return times(n, around(at))
		}
	}
	if n, ok := number(at["parallelism"]); ok {
		if c, ok := number(at["completions"]); ok {
			return min(n, c)
		}
		return n
	}
	return around(at)
}

func number(v any) (int, bool) {
	switch v := v.(type) {
	case int64:
		return int(max(0, min(v, 1<<30))), true
	case float64:
		return int(max(0, min(v, 1<<30))), true
	}
	return 0, false
}

// times multiplies without going over what a count can be.
func times(a, b int) int {
	if a > 0 && b > (1<<30)/a {
		return 1 << 30
	}
	return a * b
}

// nameOf is what people call the part: a name beside the template, or the key around it.
func (s *search) nameOf(at map[string]any, key, path string) string {
	for _, k := range []string{"name", "groupName"} {
		if name, ok := at[k].(string); ok && name != "" {
			return name
		}
	}
	name := strings.TrimSuffix(strings.TrimSuffix(key, "emplate"), "T")
	if name == "t" || name == "" { // plain "template": the key around it says more
		name = path[strings.LastIndexByte(path, '/')+1:]
	}
	return cmp.Or(name, fmt.Sprint(len(s.found)))
}
