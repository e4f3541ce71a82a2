package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// MostPods bounds the pods that are made of one object, and MostInAll those of all objects that share a Budget. What is
// asked for beyond that is counted and not planned.
const (
	MostPods  = 5000
	MostInAll = 20_000
)

// Workload is an object that will have pods.
type Workload struct {
	Ref    facts.Ref
	Object facts.Object   // as it was given, typed where its kind is known
	Parts  []Part         // by where their templates are
	Also   []facts.Object // that its controller makes beside pods, and who makes them
	// Unplanned is what its controller gives its pods and these do not have here, as a sentence; "": nothing that is known.
	Unplanned string
	// Guess says, as a sentence, that its pods are a guess: those of the templates found in an object of a kind that is not known. "": they are none.
	Guess string
	// ofEach are templates of claims that each pod has one of, named after both; and shared are claims that its pods have together.
	ofEach []corev1.PersistentVolumeClaim
	shared []*corev1.PersistentVolumeClaim
	// Vain is what the object asks for, by path, that its controller ignores or that is not supported here.
	Vain []string
	// mounts are the claims that all of its pods mount.
	mounts []string
	// sharedAs are the volumes that the shared claims are mounted as, one for each.
	sharedAs []string
	// Idle is why it will have no pods for now: it is suspended, or scaled to zero. "": it will have some.
	Idle string
}

// Part is the pods of one template.
type Part struct {
	Name string // within the workload: "workers"; "" where there is one part
	// Maker is whose pods they are: a Job, ReplicaSet, StatefulSet or DaemonSet. Where a pod is by itself, or an unknown
	// controller makes it, a ReplicaSet stands for who does.
	Maker    facts.Object
	Above    facts.Object // that makes the maker: a Deployment, CronJob or JobSet; nil: nothing
	Template string       // JSON pointer to the pod template in the object; "": the object is the pod
	// Bare says that Template is of the pods' spec without anything around it, and Made that there is none: the pods' fields follow from
	// fields of the object that are called otherwise.
	Bare, Made bool
	Wanted     int // pods at a time
	Pods       []*corev1.Pod
}

// In is the place in the object of a field of the pod template, such as /spec/nodeSelector; ok is false where it has none.
func (p *Part) In(field string) (pointer string, ok bool) {
	spec, within := strings.CutPrefix(field, "/spec")
	switch {
	case p.Made || p.Bare && !within:
		return p.Template, false
	case p.Bare:
		return p.Template + spec, true
	}
	return p.Template + field, true
}

// maker makes what controllers would make.
type maker struct {
	at    time.Time
	nodes []*corev1.Node
	next  func() types.UID
	left  int // pods that may still be made
	letIn func(*metav1.ObjectMeta) bool
	// runtime is Options.Runtime
	runtime func(kind, namespace, name string) *unstructured.Unstructured
	volcano bool
	queues  Queues // of Volcano
}

// Options are what the pods depend on beside the object.
type Options struct {
	At        time.Time
	Namespace string         // of objects that name none
	Nodes     []*corev1.Node // a DaemonSet has a pod on each that it matches
	UID       func() types.UID
	Budget    *int // pods that may still be made of all objects; nil: MostPods for each
	// LetIn says whether a Job, or an object whose pods a queue lets in one by one, is suspended until a queue lets it in: it has the pods
	// that it will have then. Nil: none is.
	LetIn func(*metav1.ObjectMeta) bool
	// Runtime finds the TrainingRuntime or ClusterTrainingRuntime that a TrainJob names, nil for none. Nil: there are none.
	Runtime func(kind, namespace, name string) *unstructured.Unstructured
	// Volcano says that Jobs of Volcano have a PodGroup, and pods that name its scheduler, and that Volcano refuses what it refuses.
	Volcano bool
	Queues  Queues
}

// Of reads an object, as JSON has it. It returns nil for one that has no pods, and the object, typed, where its kind is
// known to facts. An object that its kind cannot be read as is an error.
func Of(object map[string]any, o Options) (*Workload, facts.Object, error) {
	u := &unstructured.Unstructured{Object: object}
	typed, err := Typed(u, o.Namespace)
	if err != nil {
		return nil, nil, err
	}
	m := maker{at: o.At, nodes: o.Nodes, next: o.UID, left: MostPods, letIn: o.LetIn, runtime: o.Runtime, volcano: o.Volcano, queues: o.Queues}
	if o.Budget != nil {
		m.left = min(m.left, *o.Budget)
		defer func(had int) { *o.Budget -= had - m.left }(m.left)
	}
	if typed.GetUID() == "" {
		typed.SetUID(m.next())
	}
	typed.SetCreationTimestamp(metav1.NewTime(o.At))
	w := &Workload{Ref: facts.RefTo(typed), Object: typed}
	err = m.make(w, typed)
	if err != nil {
		return nil, nil, explained(err, object)
	}
	if len(w.Parts) == 0 {
		return nil, typed, nil
	}
	if of, ok := typed.(*unstructured.Unstructured); ok {
		w.unknownInTemplates(of)
	}
	if len(w.Parts) == 1 {
		w.Parts[0].Name = ""
	}
	if !slices.ContainsFunc(w.Parts, func(p Part) bool { return p.Wanted > 0 }) {
		w.Idle = idle(typed)
	}
	return w, typed, nil
}

// make makes the pods of an object.
func (m *maker) make(w *Workload, typed facts.Object) (err error) {
	switch t := typed.(type) {
	case *corev1.Pod:
		t.Status = corev1.PodStatus{Phase: corev1.PodPending}
		p := m.replicaSet("", t, t.Name, "", &corev1.PodTemplateSpec{ObjectMeta: t.ObjectMeta, Spec: t.Spec}, 1)
		p.Maker.SetOwnerReferences(nil)
		p.Above, p.Pods = nil, []*corev1.Pod{t}
		w.add(p)
	case *batchv1.Job:
		w.add(m.job("", t, nil, "/spec/template"))
	case *batchv1.CronJob:
		j := &batchv1.Job{ObjectMeta: *t.Spec.JobTemplate.ObjectMeta.DeepCopy(), Spec: *t.Spec.JobTemplate.Spec.DeepCopy()}
		m.below(j, t, t.Name+"-next")
		p := m.job("", j, t, "/spec/jobTemplate/spec/template")
		if ptr.Deref(t.Spec.Suspend, false) {
			p.Wanted, p.Pods = 0, nil
		}
		w.add(p)
	case *appsv1.Deployment:
		w.add(m.replicaSet("", t, t.Name, "/spec/template", &t.Spec.Template, int(ptr.Deref(t.Spec.Replicas, 1))))
	case *appsv1.ReplicaSet:
		w.add(m.part("", t, nil, "/spec/template", &t.Spec.Template, int(ptr.Deref(t.Spec.Replicas, 1))))
	case *appsv1.StatefulSet:
		w.ofEach = t.Spec.VolumeClaimTemplates
		w.add(m.statefulSet(t))
	case *appsv1.DaemonSet:
		w.add(m.daemonSet(t))
	case *unstructured.Unstructured:
		m.resume(t)
		if m.volcano {
			err = refusedByVolcano(t, m.queues)
		}
		if err != nil {
		} else if t.GetKind() == "JobSet" && t.GroupVersionKind().Group == "jobset.x-k8s.io" {
			err = m.jobSet(w, t)
		} else if t.GetKind() == "Job" && t.GroupVersionKind().Group == "batch.volcano.sh" && m.volcano {
			err = m.volcanoJob(w, t, t, "/spec")
		} else if t.GetKind() == "CronJob" && t.GroupVersionKind().Group == "batch.volcano.sh" && m.volcano {
			err = m.volcanoCronJob(w, t)
		} else if t.GetKind() == appWrapperKind && t.GroupVersionKind().Group == appWrapperGroup {
			err = m.appWrapper(w, t)
		} else if expand := expanders[schema.GroupKind{Group: t.GroupVersionKind().Group, Kind: t.GetKind()}]; expand != nil {
			err = expand(m, w, t)
		} else {
			err = m.generic(w, t)
		}
	}
	return err
}

func (w *Workload) add(p Part) { w.Parts = append(w.Parts, p) }

// idle words why an object has no pods.
func idle(o facts.Object) string {
	if field, yes := facts.Suspended(o); yes {
		return field + " is true: it has no pods until that changes"
	}
	if c, ok := o.(*batchv1.CronJob); ok && ptr.Deref(c.Spec.Suspend, false) {
		return "spec.suspend is true: it makes no jobs until that changes"
	}
	return "it asks for no pods"
}

// Typed is the object as Go has it where facts know its kind, else as it is. Where it names no namespace and should have
// one, it gets this.
func Typed(u *unstructured.Unstructured, namespace string) (facts.Object, error) {
	gvk := u.GroupVersionKind()
	k := facts.KindOf(gvk.Group, gvk.Kind)
	if k == nil || k.Foreign {
		out := u.DeepCopy()
		if out.GetNamespace() == "" && (k == nil || k.Namespaced) {
			out.SetNamespace(namespace)
		}
		if err := checkMeta(out.Object); err != nil {
			return nil, err
		}
		named(out)
		return out, nil
	}
	b, err := json.Marshal(asV1(u).Object)
	if err != nil {
		return nil, err
	}
	out := k.New()
	if err := json.Unmarshal(b, out); err != nil {
		return nil, fmt.Errorf("%s %s: %w", gvk.Kind, u.GetName(), explained(wrong(err), u.Object))
	}
	if k.Namespaced && out.GetNamespace() == "" {
		out.SetNamespace(namespace)
	}
	named(out)
	return out, nil
}

// checkMeta refuses metadata that unstructured objects cannot be asked about.
func checkMeta(object map[string]any) error {
	meta, ok := object["metadata"].(map[string]any)
	if !ok && object["metadata"] != nil {
		return fmt.Errorf("metadata is no object")
	}
	for _, key := range []string{"name", "namespace", "generateName"} {
		if _, ok := meta[key].(string); !ok && meta[key] != nil {
			return fmt.Errorf("metadata.%s is no text: put it in quotes", key)
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		of, ok := meta[field].(map[string]any)
		if !ok && meta[field] != nil {
			return fmt.Errorf("metadata.%s is no object", field)
		}
		for _, key := range slices.Sorted(maps.Keys(of)) {
			if _, ok := of[key].(string); !ok && of[key] != nil {
				return fmt.Errorf("metadata.%s.%s is no text: put it in quotes", field, key)
			}
		}
	}
	return nil
}

// named gives a name to an object that is to be given one.
func named(o facts.Object) {
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(o.GetGenerateName() + "xxxxx")
	}
}

// below makes the object one that the other made.
func (m *maker) below(o, above facts.Object, name string) {
	o.SetNamespace(above.GetNamespace())
	o.SetName(name)
	o.SetUID(m.next())
	o.SetCreationTimestamp(metav1.NewTime(m.at))
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(above, kindOf(above))})
}

func kindOf(o facts.Object) schema.GroupVersionKind {
	if k := facts.KindOfObject(o); k != nil {
		return k.GroupVersionKind
	}
	return o.GetObjectKind().GroupVersionKind()
}

// part makes the pods of a template.
func (m *maker) part(name string, by, above facts.Object, template string, t *corev1.PodTemplateSpec, n int) Part {
	n = max(0, n)
	p := Part{Name: name, Maker: by, Above: above, Template: template, Wanted: n}
	for i := range min(n, m.left) {
		pod := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
		m.below(pod, by, fmt.Sprintf("%s-%d", by.GetName(), i))
		pod.Status.Phase = corev1.PodPending
		p.Pods = append(p.Pods, pod)
	}
	m.left -= len(p.Pods)
	return p
}

// resumed are the kinds that kube/dialect/kueue/install/policy.yaml has resumed, since their pods are let in themselves.
var resumed = map[string][]string{
	"jobset.x-k8s.io": {"JobSet"},
	"kubeflow.org":    {"MPIJob", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob"},
	"ray.io":          {"RayCluster", "RayJob"},
}

// resume takes back that an object is suspended, where it is so until a queue lets its pods in.
func (m *maker) resume(u *unstructured.Unstructured) {
	field, yes := facts.Suspended(u)
	meta := &metav1.ObjectMeta{Name: u.GetName(), Namespace: u.GetNamespace(), Labels: u.GetLabels(), Annotations: u.GetAnnotations()}
	if yes && m.letIn != nil && slices.Contains(resumed[u.GroupVersionKind().Group], u.GetKind()) && m.letIn(meta) {
		unstructured.RemoveNestedField(u.Object, strings.Split(field, ".")...)
	}
}

func (m *maker) job(name string, j *batchv1.Job, above facts.Object, template string) Part {
	n := int(ptr.Deref(j.Spec.Parallelism, 1))
	if c := j.Spec.Completions; c != nil {
		n = min(n, int(*c))
	}
	switch {
	case !ptr.Deref(j.Spec.Suspend, false):
	case m.letIn != nil && m.letIn(&j.ObjectMeta):
		j.Spec.Suspend = nil
	default:
		n = 0
	}
	p := m.part(name, j, above, template, &j.Spec.Template, n)
	for i, pod := range p.Pods {
		label(pod, batchv1.JobNameLabel, j.Name)
		if ptr.Deref(j.Spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion {
			label(pod, batchv1.JobCompletionIndexAnnotation, fmt.Sprint(i))
			annotate(pod, batchv1.JobCompletionIndexAnnotation, fmt.Sprint(i))
		}
	}
	return p
}

func label(p *corev1.Pod, key, value string) {
	if p.Labels == nil {
		p.Labels = make(map[string]string)
	}
	p.Labels[key] = value
}

func annotate(p *corev1.Pod, key, value string) {
	if p.Annotations == nil {
		p.Annotations = make(map[string]string)
	}
	p.Annotations[key] = value
}

// replicaSet is what a Deployment makes; and it stands for whatever an unknown controller keeps its pods by.
func (m *maker) replicaSet(name string, above facts.Object, called, template string, t *corev1.PodTemplateSpec, n int) Part {
	rs := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(min(n, 1<<30))), Template: *t.DeepCopy()}}
	m.below(rs, above, called)
	if len(t.Labels) > 0 {
		rs.Spec.Selector = &metav1.LabelSelector{MatchLabels: t.Labels}
	}
	return m.part(name, rs, above, template, t, n)
}

func (m *maker) statefulSet(s *appsv1.StatefulSet) Part {
	p := m.part("", s, nil, "/spec/template", &s.Spec.Template, int(ptr.Deref(s.Spec.Replicas, 1)))
	for i, pod := range p.Pods {
		pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, s.Spec.ServiceName
		label(pod, appsv1.StatefulSetPodNameLabel, pod.Name)
		label(pod, appsv1.PodIndexLabel, fmt.Sprint(i))
		claimEach(pod, s.Spec.VolumeClaimTemplates)
	}
	return p
}

// claimEach gives the pod the volumes of claims that each pod has one of.
func claimEach(pod *corev1.Pod, templates []corev1.PersistentVolumeClaim) {
	for i := range templates {
		pod.Spec.Volumes = claimed(pod.Spec.Volumes, templates[i].Name, templates[i].Name+"-"+pod.Name)
	}
}

// claimed are the volumes with the claim under the name, in the place of one that has it.
func claimed(volumes []corev1.Volume, name, claim string) []corev1.Volume {
	volumes = slices.DeleteFunc(volumes, func(v corev1.Volume) bool { return v.Name == name })
	return append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
}

// Claims are the volume claims that are made with the pods: of templates for each pod, of all of them together, and of ephemeral volumes.
func (w *Workload) Claims() []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	add := func(pod *corev1.Pod, name string, c *corev1.PersistentVolumeClaim, by *metav1.OwnerReference) {
		c.Namespace, c.Name, c.UID = pod.Namespace, name, types.UID(string(pod.UID)+"-"+name)
		c.Status.Phase = corev1.ClaimPending
		if by != nil {
			c.OwnerReferences = []metav1.OwnerReference{*by}
		}
		out = append(out, c)
	}
	for _, c := range w.shared {
		out = append(out, c.DeepCopy())
	}
	for _, p := range w.Parts {
		for _, pod := range p.Pods {
			for i := range w.ofEach {
				c := w.ofEach[i].DeepCopy()
				add(pod, c.Name+"-"+pod.Name, c, nil)
			}
			for i := range pod.Spec.Volumes {
				if e := pod.Spec.Volumes[i].Ephemeral; e != nil && e.VolumeClaimTemplate != nil {
					c := &corev1.PersistentVolumeClaim{ObjectMeta: *e.VolumeClaimTemplate.ObjectMeta.DeepCopy(), Spec: *e.VolumeClaimTemplate.Spec.DeepCopy()}
					add(pod, pod.Name+"-"+pod.Spec.Volumes[i].Name, c, metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod")))
				}
			}
		}
	}
	return out
}

// daemonSet makes a pod for every node that its pods match, pinned there as its controller does it.
func (m *maker) daemonSet(d *appsv1.DaemonSet) Part {
	t := d.Spec.Template.DeepCopy()
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		t.Spec.Tolerations = append(t.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	}
	for _, key := range []string{corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable} {
		t.Spec.Tolerations = append(t.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	var on []string
	like := &corev1.Pod{Spec: t.Spec}
	for _, n := range m.nodes {
		if podspec.Selects(like, n) && len(podspec.Untolerated(like, n)) == 0 {
			on = append(on, n.Name)
		}
	}
	slices.Sort(on)
	d.Status.DesiredNumberScheduled = int32(len(on))
	p := m.part("", d, nil, "/spec/template", t, len(on))
	for i, pod := range p.Pods {
		pin(pod, on[i])
	}
	return p
}

// pin has the pod run on the node alone, beside what it asks for itself.
func pin(p *corev1.Pod, node string) {
	only := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{only}}},
	}}}
}
