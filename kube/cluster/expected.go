package cluster

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
)

// expected is the pods that suspended Jobs will have: those of a dialect that lets Jobs in (dialect.Admitter). To the engine they are
// pods like others, of one gang. When a plan starts them, the scheduler lets the Job in, and the expected pods stay on their
// nodes, one for each pod that the Job has not made yet, so that no other is given the place or the quota in between.
//
//	suspended --start--> let in --the Job makes its pods--> nothing is expected
//	    ^                  |
//	    '--suspended again-'--patience is over--> nothing is expected
//
// expectPods works out what has changed, once, before a plan.
type expected struct {
	jobs map[types.UID]*batchv1.Job // all that there are
	pods map[types.UID][]string     // keys, in order of rank
	let  map[types.UID]time.Time    // let in: until when their pods are waited for
	ran  map[types.UID]bool         // let in at some time
	look map[types.UID]bool
}

func newExpected() *expected {
	return &expected{
		jobs: make(map[types.UID]*batchv1.Job), pods: make(map[types.UID][]string), let: make(map[types.UID]time.Time), ran: make(map[types.UID]bool), look: make(map[types.UID]bool),
	}
}

const (
	// MaxExpected is how many pods a Job may have at a time that is let in.
	MaxExpected = 10_000
	// expectFor is how long the pods of a Job that was let in are waited for.
	expectFor = 30 * time.Second
	// scheduleLabel is of namespaces whose pods are Berth's: kube/policy/manifests/schedule.yaml.
	scheduleLabel = v1alpha1.KeyPrefix + "schedule"
	// expectedMark is in the names of expected pods, and in no name of an object in the API.
	expectedMark = ":"
)

// Expected says whether the pod is one that a Job has not made yet: there is no such object in the API.
func Expected(p *corev1.Pod) bool { return ExpectedKey(p.Name) }

// ExpectedKey is Expected of a pod's name, or key.
func ExpectedKey(key string) bool { return strings.Contains(key, expectedMark) }

func suspended(j *batchv1.Job) bool { return j.Spec.Suspend != nil && *j.Spec.Suspend }

// noteJob takes note of a Job, which a dialect may let in.
func (f *Feed) noteJob(object metav1.Object) {
	j, ok := object.(*batchv1.Job)
	if !ok {
		return
	}
	e := f.expected
	was := e.jobs[j.UID]
	e.jobs[j.UID] = j
	if f.foreign.admitter(&j.ObjectMeta) == nil && len(e.pods[j.UID]) == 0 {
		return
	}
	if was != nil && !suspended(was) && suspended(j) {
		delete(e.let, j.UID)
	}
	if was == nil || was.Generation != j.Generation || was.Status.Active != j.Status.Active || endOf(was) != endOf(j) || j.Generation == 0 {
		e.look[j.UID] = true
		f.tenancy.UsageChanged()
		f.out.wake()
	}
}

func (f *Feed) dropJob(uid types.UID) {
	delete(f.expected.jobs, uid)
	delete(f.expected.ran, uid)
	if len(f.expected.pods[uid]) > 0 {
		f.expected.look[uid] = true
		f.out.wake()
	}
}

// endOf is Complete or Failed for a Job that makes no more pods, Deleted for one that is on its way out.
func endOf(j *batchv1.Job) string {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return string(c.Type)
		}
	}
	if j.DeletionTimestamp != nil {
		return "Deleted"
	}
	return ""
}

// lookAt has the pod's Job looked at: it has one more, or one less.
func (e *expected) lookAt(m *member) {
	if m.foreign != nil && !Expected(m.raw) {
		if uid := controllerOf(m.raw); e.jobs[uid] != nil {
			e.look[uid] = true
		}
	}
}

// lookAtAll is expensive: it is for when a dialect comes into use, or its own controller does.
func (f *Feed) lookAtAll() { f.lookAtJobs(func(*batchv1.Job) bool { return true }) }

// lookAtAllIn is for when the namespace says of pods that name no scheduler whose they are, or does not any more.
func (f *Feed) lookAtAllIn(namespace string) {
	if f.foreign.used() {
		f.lookAtJobs(func(j *batchv1.Job) bool { return j.Namespace == namespace })
	}
}

func (f *Feed) lookAtJobs(which func(*batchv1.Job) bool) {
	for uid, j := range f.expected.jobs { //archtest:any-order it fills a set
		if which(j) {
			f.expected.look[uid] = true
		}
	}
	f.out.wake()
}

// admitter is the dialect that lets in the Job with the metadata, nil for none.
func (s *foreign) admitter(job *metav1.ObjectMeta) dialect.Admitter {
	for _, d := range s.dialects {
		if a, ok := d.(dialect.Admitter); ok && a.Queued(job) {
			return a
		}
	}
	return nil
}

func (f *Feed) expectPods() {
	for _, uid := range slices.Sorted(maps.Keys(f.expected.look)) {
		f.expectPodsOf(uid)
	}
	clear(f.expected.look)
}

func (f *Feed) expectPodsOf(uid types.UID) {
	e := f.expected
	j := e.jobs[uid]
	var want []*corev1.Pod
	switch made := f.madeBy(uid); {
	case j == nil || endOf(j) != "" || f.foreign.admitter(&j.ObjectMeta) == nil:
		delete(e.let, uid)
	case suspended(j):
		if len(made) == 0 && j.Status.Active == 0 {
			want = f.podsToCome(j)
		}
	case f.timers.now().Before(e.let[uid]):
		f.keepPlaces(uid, made)
		return
	default:
		delete(e.let, uid)
	}
	keys := make([]string, len(want))
	for i, p := range want {
		keys[i] = keyOf(p)
	}
	for _, key := range e.pods[uid] {
		if !slices.Contains(keys, key) {
			f.unexpect(key)
		}
	}
	delete(e.pods, uid)
	if len(keys) > 0 {
		e.pods[uid] = keys
	}
	for _, p := range want {
		f.takePod(p)
	}
}

// madeBy are the pods of ours that the Job has made and that are not over, by name.
func (f *Feed) madeBy(uid types.UID) []*member {
	var out []*member
	for _, key := range sortedNames(f.owners.pods[uid]) {
		if m := f.owners.pods[uid][key]; !Expected(m.raw) {
			out = append(out, m)
		}
	}
	return out
}

// keepPlaces keeps as many expected pods of a Job that was let in as it has not made yet: the one of the same rank gives way, or the last.
func (f *Feed) keepPlaces(uid types.UID, made []*member) {
	left := f.expected.pods[uid]
	keep := max(0, f.owners.wants(uid)-len(made))
	for _, m := range made {
		rank, named := m.raw.Annotations[batchv1.JobCompletionIndexAnnotation]
		if at := slices.Index(left, expectedKey(f.expected.jobs[uid], rank)); named && at >= 0 && len(left) > keep {
			f.unexpect(left[at])
			left = slices.Delete(left, at, at+1)
		}
	}
	for len(left) > keep {
		f.unexpect(left[len(left)-1])
		left = left[:len(left)-1]
	}
	f.expected.pods[uid] = left
}

// wants is how many pods the controller wants to run at a time.
func (o *owners) wants(uid types.UID) int {
	if by := o.all[uid]; by != nil {
		return by.Pods
	}
	return 0
}

func (f *Feed) unexpect(key string) {
	known := f.members.pods[key]
	if known == nil {
		return
	}
	f.leave(known)
	f.devices.dropClaims(known.raw)
	f.dropPod(known)
}

func indexed(j *batchv1.Job) bool {
	return j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion
}

func expectedKey(j *batchv1.Job, rank string) string {
	return j.Namespace + "/" + j.Name + expectedMark + rank
}

// podsToCome are the pods that the Job will have, where they are ours. Volumes that are made with a pod are not there yet, and left out.
func (f *Feed) podsToCome(j *batchv1.Job) []*corev1.Pod {
	template := &j.Spec.Template
	name := template.Spec.SchedulerName
	if name == "" {
		name = corev1.DefaultSchedulerName
	}
	if labels, _ := f.tenancy.Labels(j.Namespace); labels[scheduleLabel] == "true" && name == corev1.DefaultSchedulerName {
		name = DefaultName
	}
	owner, known := convert.OwnerOf(j)
	if !f.opts.Ours(name) || !known || f.foreign.rival(f.foreign.admitter(&j.ObjectMeta)) != "" {
		return nil
	}
	spec := template.Spec.DeepCopy()
	requestLimits(spec)
	out := make([]*corev1.Pod, min(owner.Pods, MaxExpected))
	for i := range out {
		p := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *spec, Status: corev1.PodStatus{Phase: corev1.PodPending}}
		rank := strconv.Itoa(i)
		p.Namespace, p.Name, p.UID = j.Namespace, j.Name+expectedMark+rank, j.UID+types.UID(expectedMark+rank)
		p.ResourceVersion, p.CreationTimestamp = j.ResourceVersion, j.CreationTimestamp
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}
		p.Spec.SchedulerName = name
		f.claimsToCome(j, p)
		p.Spec.Volumes = slices.DeleteFunc(slices.Clone(p.Spec.Volumes), func(v corev1.Volume) bool { return v.Ephemeral != nil })
		if n, ok := f.foreign.classes[p.Spec.PriorityClassName]; ok && p.Spec.Priority == nil {
			p.Spec.Priority = &n
		}
		if indexed(j) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, batchv1.JobCompletionIndexAnnotation, rank)
		}
		out[i] = p
	}
	return out
}

// requestLimits has containers request their limits where they say nothing, as the API server does with pods, and not with templates.
func requestLimits(s *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			r := &list[i].Resources
			for name, q := range r.Limits { //archtest:any-order each has its own key
				if _, has := r.Requests[name]; has {
					continue
				}
				if r.Requests == nil {
					r.Requests = make(corev1.ResourceList)
				}
				r.Requests[name] = q
			}
		}
	}
}

// Entry is what lets a Job in.
type Entry struct {
	Namespace, Name, ResourceVersion string
	UID                              types.UID
	Flavor                           *dialect.Flavor // of the nodes where its pods start; nil: none, or several
	Tolerations                      []corev1.Toleration
}

// Entry is what lets in the Job whose expected pods start; nil: they cannot any more. From now on its pods are waited for: its watch
// may tell that it was let in before the request that does it returns.
func (f *Feed) Entry(s *engine.Start) *Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(s.Placements) == 0 {
		return nil
	}
	m := f.members.pods[s.Placements[0].Pod]
	if m == nil {
		return nil
	}
	j := f.expected.jobs[controllerOf(m.raw)]
	if j == nil || !suspended(j) || endOf(j) != "" {
		return nil
	}
	nodes := make([]string, len(s.Placements))
	for i, p := range s.Placements {
		if !f.stands(p) {
			return nil
		}
		nodes[i] = p.Node
	}
	f.expected.let[j.UID] = f.timers.now().Add(expectFor)
	f.timers.after(expectFor, func() { f.expected.look[j.UID] = true })
	return &Entry{
		Namespace: j.Namespace, Name: j.Name, UID: j.UID, ResourceVersion: j.ResourceVersion,
		Flavor: f.flavorOf(m, nodes), Tolerations: j.Spec.Template.Spec.Tolerations,
	}
}

// flavorOf is the flavor of the pod that all the nodes are of, nil for none: of those whose labels they have the one with the most, the
// first of several, as the engine counts them.
func (f *Feed) flavorOf(m *member, nodes []string) *dialect.Flavor {
	if m.foreign == nil || len(nodes) == 0 {
		return nil
	}
	var best *dialect.Flavor
	for i := range m.foreign.Flavors {
		flavor := &m.foreign.Flavors[i]
		if (best == nil || len(flavor.Labels) > len(best.Labels)) && !slices.ContainsFunc(nodes, func(name string) bool { return !f.nodes.has(name, flavor.Labels) }) {
			best = flavor
		}
	}
	return best
}

func (s *nodes) has(name string, labels map[string]string) bool {
	n := s.objects[name]
	if n == nil {
		return false
	}
	for key, value := range labels { //archtest:any-order it asks whether one is missing
		if has, ok := n.Labels[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// Entered says that the Job was let in: its pods are on the nodes from now on, though it has not made them yet.
func (f *Feed) Entered(s *engine.Start) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range s.Placements {
		m := f.members.pods[p.Pod]
		if m == nil || string(m.raw.UID) != p.UID {
			continue
		}
		f.expected.ran[controllerOf(m.raw)] = true
		raw := m.raw.DeepCopy()
		raw.Spec.NodeName = p.Node
		f.takePod(raw)
	}
	f.out.wake()
	f.tenancy.UsageChanged()
}

// NotEntered says that the Job could not be let in.
func (f *Feed) NotEntered(job types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.expected.let, job)
}

// JobOf is the Job that is suspended when the pod is evicted; false: the pod is deleted.
func (f *Feed) JobOf(key string) (types.NamespacedName, types.UID, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members.pods[key]
	if m == nil || m.foreign == nil {
		return types.NamespacedName{}, "", false
	}
	j := f.expected.jobs[controllerOf(m.raw)]
	if j == nil || f.foreign.admitter(&j.ObjectMeta) == nil {
		return types.NamespacedName{}, "", false
	}
	return types.NamespacedName{Namespace: j.Namespace, Name: j.Name}, j.UID, true
}

// Gated returns the scheduling gate that the pod has and Berth takes away, and the flavor of the node; "": it has none.
func (f *Feed) Gated(key, node string) (gate string, flavor *dialect.Flavor, has []corev1.Toleration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members.pods[key]
	if m == nil || m.foreign == nil || m.foreign.Gate == "" || len(m.raw.Spec.SchedulingGates) == 0 {
		return "", nil, nil
	}
	return m.foreign.Gate, f.flavorOf(m, []string{node}), m.raw.Spec.Tolerations
}
