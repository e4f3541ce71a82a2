package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/kube/convert"
)

// OwnersOf are the owners of the pod from top down; the pod itself where it has none.
func (f *Facts) OwnersOf(p *corev1.Pod, top Object) []Object {
	out := []Object{}
	var at Object = p
	for range 8 {
		if at = f.Controller(at); at == nil {
			break
		}
		out = append(out, at)
		if at.GetUID() == top.GetUID() {
			break
		}
	}
	if len(out) == 0 {
		return []Object{p}
	}
	slices.Reverse(out)
	return out
}

// OwnerPath are the objects from top down to the owner.
func (f *Facts) OwnerPath(top, owner Object) []Object {
	out := []Object{owner}
	for at := owner; at.GetUID() != top.GetUID() && len(out) < 8; {
		if at = f.Controller(at); at == nil {
			break
		}
		out = append(out, at)
	}
	slices.Reverse(out)
	return out
}

// TemplatePath is where in an object its pod template is.
func TemplatePath(o Object) string {
	switch o := o.(type) {
	case *appsv1.Deployment, *appsv1.ReplicaSet, *appsv1.StatefulSet, *appsv1.DaemonSet, *batchv1.Job:
		return "/spec/template"
	case *batchv1.CronJob:
		return "/spec/jobTemplate/spec/template"
	case *unstructured.Unstructured:
		path, _ := foreignTemplate(o)
		return path
	}
	return ""
}

// TopOwner is the topmost owner of an object that may be asked about, or the object itself.
func (f *Facts) TopOwner(o Object) Object {
	for range 8 {
		up := f.Controller(o)
		if up == nil || KindOfObject(up) == nil || !slices.Contains(AskedKinds, KindOfObject(up).Kind) {
			break
		}
		o = up
	}
	return o
}

// Ref names an object.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String is the object as kubectl would take it: job/first.
func (r Ref) String() string { return strings.ToLower(r.Kind) + "/" + r.Name }

// RefTo names the object.
func RefTo(o Object) Ref {
	kind := ""
	if k := KindOfObject(o); k != nil {
		kind = k.Kind
	} else {
		kind = o.GetObjectKind().GroupVersionKind().Kind
	}
	return Ref{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// In is the object in evidence: with its namespace, where it has one.
func (r Ref) In() string {
	if r.Namespace == "" {
		return strings.ToLower(r.Kind) + "/" + r.Name
	}
	return strings.ToLower(r.Kind) + "/" + r.Namespace + "/" + r.Name
}

// Shown is the object that evidence names, as In has it; nil where there is none, and of pods and events, which are many and
// made by others.
func (f *Facts) Shown(in string) Object {
	kind, rest, _ := strings.Cut(in, "/")
	namespace, name, namespaced := strings.Cut(rest, "/")
	if !namespaced {
		namespace, name = "", namespace
	}
	for _, k := range f.Objects.Kinds() {
		if strings.ToLower(k.Kind) != kind || k.Kind == "Pod" || k.Kind == "Event" {
			continue
		}
		for _, o := range k.List(&f.Objects) {
			if o.GetName() == name && o.GetNamespace() == namespace {
				return o
			}
		}
	}
	return nil
}

// AskedKinds are the kinds that may be asked about, in the order in which a bare name is looked for.
var AskedKinds = []string{
	"Job", "Deployment", "StatefulSet", "Pod", "ReplicaSet", "DaemonSet", "CronJob", "PodGroup", "CompositePodGroup",
	"JobSet", "PyTorchJob", "MPIJob", "TrainJob", "RayJob", "RayCluster", "LeaderWorkerSet", "Workload",
}

// ParseKind finds the kind that a person means: "po", "deploy", "jobs.batch", "PyTorchJob".
func ParseKind(word string) (kind string, err error) {
	w := strings.ToLower(word)
	if k, ok := short[w]; ok {
		return k, nil
	}
	w, _, _ = strings.Cut(w, ".")
	for _, kind := range AskedKinds {
		for _, k := range Kinds {
			if k.Kind == kind && (w == strings.ToLower(kind) || w == k.Resource) {
				return kind, nil
			}
		}
	}
	return "", fmt.Errorf("%q is no kind of work: ask about a pod, job, deployment, statefulset, podgroup, jobset, pytorchjob, rayjob or the like", word)
}

var short = map[string]string{"po": "Pod", "deploy": "Deployment", "sts": "StatefulSet", "rs": "ReplicaSet", "ds": "DaemonSet", "cj": "CronJob", "lws": "LeaderWorkerSet", "wl": "Workload", "vcjob": "Job"}

// NotFound says that no object has the name.
type NotFound struct {
	Ref
	Unseen bool // its kind, or its namespace, could not be read: it may exist
}

func (e NotFound) Error() string {
	what := fmt.Sprintf("%s in namespace %s", e.Ref, e.Namespace)
	if e.Kind == "" {
		what = fmt.Sprintf("nothing called %q in namespace %s", e.Name, e.Namespace)
		if e.Unseen {
			return what + " can be seen: not every kind may be read"
		}
		return what + ": `kubectl get pods,jobs,deployments -n " + e.Namespace + "` lists what there is"
	}
	if e.Unseen {
		return what + " cannot be seen: ask for the right to list them"
	}
	return what + " does not exist: check the name, or give -n NAMESPACE"
}

// Find returns the object that a person asks about. Without a kind, the first kind that has one of the name counts.
func (f *Facts) Find(r Ref) (Object, error) {
	unseen := false
	for _, kind := range AskedKinds {
		if r.Kind != "" && r.Kind != kind {
			continue
		}
		for _, k := range Kinds {
			if k.Kind != kind {
				continue
			}
			if !f.Sees(k.Name(), r.Namespace) {
				unseen = true
			}
			for _, o := range k.List(&f.Objects) {
				if o.GetNamespace() == r.Namespace && o.GetName() == r.Name {
					return f.behind(o), nil
				}
			}
		}
	}
	return nil, NotFound{Ref: r, Unseen: unseen}
}

// behind is what a Kueue Workload was made for; other objects stand for themselves.
func (f *Facts) behind(o Object) Object {
	if u, ok := o.(*unstructured.Unstructured); ok && u.GetKind() == "Workload" {
		if up := f.Controller(o); up != nil {
			return up
		}
	}
	return o
}

// PodsOf returns the pods of what is asked about, by name; none where there is no such thing.
func (f *Facts) PodsOf(r Ref) []*corev1.Pod {
	o, err := f.Find(r)
	if err != nil {
		return nil
	}
	return f.PodsMadeBy(o)
}

// PodsMadeBy returns the pods that the object made, through others too, by name; or that it groups.
func (f *Facts) PodsMadeBy(o Object) []*corev1.Pod {
	var out []*corev1.Pod
	if p, ok := o.(*corev1.Pod); ok {
		return []*corev1.Pod{p}
	}
	if g, ok := o.(*schedulingv1beta1.PodGroup); ok {
		for _, p := range f.Pods {
			if s := p.Spec.SchedulingGroup; p.Namespace == g.Namespace && s != nil && s.PodGroupName != nil && *s.PodGroupName == g.Name {
				out = append(out, p)
			}
		}
	}
	if u, ok := o.(*unstructured.Unstructured); ok {
		out = append(out, f.namedBy(u)...)
		for _, p := range f.labelled(u) {
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	if c, ok := o.(*schedulingv1alpha3.CompositePodGroup); ok {
		for _, p := range f.Pods {
			if slices.Contains(f.Above(p), c) {
				out = append(out, p)
			}
		}
	}
	for _, child := range f.current(o) {
		out = append(out, f.PodsMadeBy(child)...)
		for _, below := range f.ledBy(child) {
			out = append(out, f.PodsMadeBy(below)...)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// ledBy are the objects that are owned by a pod and make others: the StatefulSet of a LeaderWorkerSet's workers is its leader's.
func (f *Facts) ledBy(o Object) (out []Object) {
	if _, ok := o.(*corev1.Pod); !ok {
		return nil
	}
	for _, child := range f.Children(o) {
		if TemplateOf(child) != nil {
			out = append(out, child)
		}
	}
	return out
}

// current are the object's children: of a Deployment, its newest ReplicaSet alone; of a CronJob, its newest Job. The PodGroup of a
// Job is not among them: the pods that it groups are the Job's own.
func (f *Facts) current(o Object) []Object {
	children := slices.DeleteFunc(slices.Clone(f.Children(o)), func(child Object) bool {
		_, group := child.(*schedulingv1beta1.PodGroup)
		_, composite := child.(*schedulingv1alpha3.CompositePodGroup)
		return group || composite
	})
	switch o.(type) {
	case *appsv1.Deployment, *batchv1.CronJob:
		if len(children) == 0 {
			return nil
		}
		return []Object{slices.MaxFunc(children, func(a, b Object) int {
			return cmp.Or(cmp.Compare(revision(a), revision(b)), a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), strings.Compare(a.GetName(), b.GetName()))
		})}
	}
	return children
}

func revision(o Object) int {
	n := 0
	fmt.Sscan(o.GetAnnotations()["deployment.kubernetes.io/revision"], &n)
	return n
}

// PodOwners returns the objects from the given one down to those that make pods themselves, the given one first.
func (f *Facts) PodOwners(o Object) []Object {
	out := []Object{o}
	for _, child := range f.current(o) {
		switch KindOfObject(child).Kind {
		case "Pod":
			for _, below := range f.ledBy(child) {
				out = append(out, f.PodOwners(below)...)
			}
		case "Workload", "PodGroup", "CompositePodGroup": // these are about pods that others make
		default:
			out = append(out, f.PodOwners(child)...)
		}
	}
	return out
}

// TemplateOf is what the object's pods look like; nil where it has none.
func TemplateOf(o Object) *corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.ReplicaSet:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *appsv1.DaemonSet:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template
	case *unstructured.Unstructured:
		_, t := foreignTemplate(o)
		return t
	}
	return nil
}

// foreignTemplate is the first pod template in an object of an unknown shape, and the JSON path to it.
func foreignTemplate(o *unstructured.Unstructured) (path string, t *corev1.PodTemplateSpec) {
	if all := templatesIn(o); len(all) > 0 {
		return all[0].path, all[0].PodTemplateSpec
	}
	return "", nil
}

// MissingPods is how many pods the object should have made by now and has not: of itself, not of what is below it.
func (f *Facts) MissingPods(o Object) int {
	have := 0
	for _, child := range f.Children(o) {
		if p, ok := child.(*corev1.Pod); ok && !Ended(p) && (p.DeletionTimestamp == nil || WaitsForDeletion(o)) {
			have++
		}
	}
	want := 0
	switch o := o.(type) {
	case *appsv1.ReplicaSet:
		want = int(ptr.Deref(o.Spec.Replicas, 1))
	case *appsv1.StatefulSet:
		want = int(ptr.Deref(o.Spec.Replicas, 1))
		if o.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
			want = min(want, have+1) // one after the other
			if have > int(o.Status.ReadyReplicas) {
				want = have
			}
		}
	case *appsv1.DaemonSet:
		want = int(o.Status.DesiredNumberScheduled)
	case *batchv1.Job:
		want = wantedOf(o)
	case *unstructured.Unstructured:
		want = have + f.foreignLacks(o)
	}
	return max(0, want-have)
}

// WaitsForDeletion says whether the object makes no pod in place of one that is deleted before that has gone.
func WaitsForDeletion(o Object) bool {
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		return true
	case *appsv1.Deployment:
		return o.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
	case *batchv1.Job:
		return ptr.Deref(o.Spec.PodReplacementPolicy, batchv1.TerminatingOrFailed) == batchv1.Failed
	}
	return false
}

// wantedOf is how many pods of the Job should exist at this moment.
func wantedOf(j *batchv1.Job) int {
	if ptr.Deref(j.Spec.Suspend, false) || j.DeletionTimestamp != nil || JobEnded(j) != "" {
		return 0
	}
	want := int(ptr.Deref(j.Spec.Parallelism, 1))
	if c := j.Spec.Completions; c != nil {
		want = min(want, int(*c)-int(j.Status.Succeeded)-len(FailedIndexes(j)))
	} else if j.Status.Succeeded > 0 {
		return int(j.Status.Active) // of a work queue no pod is made once one has succeeded
	}
	return max(0, want)
}

// FailedIndexes are the indexes of an Indexed Job that are not tried again (backoffLimitPerIndex). The status has them as "1,3-5".
func FailedIndexes(j *batchv1.Job) (out []int) {
	for _, part := range strings.Split(ptr.Deref(j.Status.FailedIndexes, ""), ",") {
		first, last, ok := strings.Cut(part, "-")
		if !ok {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || to-from >= int(ptr.Deref(j.Spec.Completions, 0)) {
			continue
		}
		for i := from; i <= to; i++ {
			out = append(out, i)
		}
	}
	return out
}

// JobEnded is the condition with which the Job is over, "" while it is not.
func JobEnded(j *batchv1.Job) batchv1.JobConditionType {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// PodFrom is a pod as the object would make it, as Bounded has those that exist.
func (f *Facts) PodFrom(o Object, number int) *corev1.Pod {
	t := TemplateOf(o)
	if t == nil {
		return nil
	}
	if s, ok := o.(*appsv1.StatefulSet); ok { // its pods have these names in fact
		number += int(s.Status.Replicas)
	}
	p := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
	p.Namespace, p.Name = o.GetNamespace(), fmt.Sprintf("%s-%d", o.GetName(), number)
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o, KindOfObject(o).GroupVersionKind)}
	if p.Spec.SchedulerName == "" {
		p.Spec.SchedulerName = corev1.DefaultSchedulerName
	}
	if s, ok := o.(*appsv1.StatefulSet); ok {
		f.claimEach(p, s.Spec.VolumeClaimTemplates)
	}
	if g := f.groupFrom(o); g != nil && p.Spec.SchedulingGroup == nil {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &g.Name}
	}
	p.Status.Phase = corev1.PodPending
	return convert.Bounded(p)
}

// claimEach gives a pod to come the volumes of claims that each pod has one of, as far as the claims exist: its controller makes the others
// with it.
func (f *Facts) claimEach(p *corev1.Pod, templates []corev1.PersistentVolumeClaim) {
	for i := range templates {
		name := templates[i].Name + "-" + p.Name
		if !slices.ContainsFunc(f.PersistentVolumeClaims, func(c *corev1.PersistentVolumeClaim) bool {
			return c.Namespace == p.Namespace && c.Name == name
		}) {
			continue
		}
		p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == templates[i].Name })
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: templates[i].Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
}

// mostAgents bounds the agents whose logs are read beside those of what is asked about.
const mostAgents = 4

// CrashingAgents are pods of DaemonSets that end with an error again and again, by name: what a node lacks may be their doing, and
// their logs say why.
func (f *Facts) CrashingAgents() []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range f.Pods {
		daemon := slices.ContainsFunc(p.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "DaemonSet" })
		if daemon && p.DeletionTimestamp == nil && slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool {
			return s.RestartCount > 0 && !s.Ready && LastEnd(&s) != nil
		}) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out[:min(len(out), mostAgents)]
}

// LastEnd is how the container ended last with an error; nil where it did not.
func LastEnd(s *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	for _, t := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if t != nil && t.ExitCode != 0 {
			return t
		}
	}
	return nil
}
