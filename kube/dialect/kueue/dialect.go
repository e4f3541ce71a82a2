package kueue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
)

const (
	domain = "kueue.x-k8s.io"

	// AdmissionGate is the scheduling gate of pods that are to be let in.
	AdmissionGate = "kueue.x-k8s.io/admission"

	priorityKey    = "kueue.x-k8s.io/priority-class"
	maxRunKey      = "kueue.x-k8s.io/max-exec-time-seconds"
	groupNameKey   = "kueue.x-k8s.io/pod-group-name"
	groupCountKey  = "kueue.x-k8s.io/pod-group-total-count"
	minParallelKey = "kueue.x-k8s.io/job-min-parallelism"
	unconstrained  = "kueue.x-k8s.io/podset-unconstrained-topology"
	sliceLevelKey  = "kueue.x-k8s.io/podset-slice-required-topology"
	sliceSizeKey   = "kueue.x-k8s.io/podset-slice-size"
	managedKey     = "kueue.x-k8s.io/managed"
	jobUIDKey      = "kueue.x-k8s.io/job-uid"
	managedBy      = "app.kubernetes.io/managed-by"

	// maxMembers is how many pods a Job or a pod group may have at a time.
	maxMembers = 10_000
)

// written are the keys that Kueue writes itself, and those that say of a pod group what holds for all of Berth's gangs: pods that come
// later join it, and those that are over are not waited for.
var written = []string{
	managedKey, jobUIDKey, "kueue.x-k8s.io/podset", "kueue.x-k8s.io/workload", "kueue.x-k8s.io/cluster-queue-name", "kueue.x-k8s.io/local-queue-name",
	"kueue.x-k8s.io/role-hash", "kueue.x-k8s.io/pod-group-pod-index", "kueue.x-k8s.io/pod-group-serving", "kueue.x-k8s.io/tas",
}

// New is the dialect of Kueue's users.
func New() dialect.Dialect { return kueue{} }

type kueue struct{}

func (kueue) Name() string { return "kueue" }

// SchedulerNames are none: Kueue lets workloads in, and leaves placing them to the scheduler that they name.
func (kueue) SchedulerNames() []string { return nil }

func (kueue) Domains() []string { return []string{domain} }

func (kueue) Kinds() []dialect.Kind {
	kind := func(name, plural string, namespaced, grouping bool) dialect.Kind {
		return dialect.Kind{GroupVersionKind: schema.GroupVersionKind{Group: domain, Version: "v1beta2", Kind: name}, Plural: plural, Namespaced: namespaced, Grouping: grouping}
	}
	work := kind("Workload", "workloads", true, true)
	work.Status = true // others say there which admission checks are ready
	return []dialect.Kind{
		kind("ClusterQueue", "clusterqueues", false, false), kind("LocalQueue", "localqueues", true, false), kind("ResourceFlavor", "resourceflavors", false, false),
		kind("Cohort", "cohorts", false, false), kind("WorkloadPriorityClass", "workloadpriorityclasses", false, false), kind("Topology", "topologies", false, false),
		kind("AdmissionCheck", "admissionchecks", false, false), work,
	}
}

// Trim drops what nobody reads. Of a Workload that is all but its queue: what its pods are like, its Job says.
func (k kueue) Trim(o *unstructured.Unstructured) {
	dialect.KeepKeys(o, append(k.Domains(), "app.kubernetes.io"))
	if o.GetKind() != "Workload" {
		return
	}
	kept := map[string]any{}
	for _, field := range []string{"queueName", "active"} {
		if v := dialect.Value(o.Object, "spec", field); v != nil {
			kept[field] = v
		}
	}
	o.Object["spec"] = kept
}

func (k kueue) Read(o *unstructured.Unstructured, w dialect.World) dialect.Object {
	var out dialect.Object
	own := written
	switch o.GetKind() {
	case "ClusterQueue":
		out = ReadClusterQueue(o, w)
	case "Cohort":
		out = ReadCohort(o, w)
	case "LocalQueue":
		out = ReadLocalQueue(o)
		out.Shut = localShut(&out, w)
	case "ResourceFlavor":
		out = ReadResourceFlavor(o)
	case "WorkloadPriorityClass":
		out, own = ReadPriorityClass(o), []string{"value", "description"}
	case "Topology":
		out = readTopology(o)
	case "AdmissionCheck":
		out = readCheck(o)
	case "Workload":
		out = readWorkload(o)
	}
	out.Unread = append(out.Unread, dialect.Strays(o, k.Domains(), own...)...)
	return out
}

// Rival is the Lease of Kueue's controller, as it is installed.
func (kueue) Rival() types.NamespacedName {
	return types.NamespacedName{Namespace: "kueue-system", Name: "c1f6bfd2.kueue.x-k8s.io"}
}

// Queued says whether the Job names a LocalQueue. One that a controller made is let in with that.
func (kueue) Queued(job *metav1.ObjectMeta) bool { return job.Labels[QueueLabel] != "" }

// Pod reads a pod that names a LocalQueue, or whose controller does.
func (k kueue) Pod(p *dialect.Pod, w dialect.World) *dialect.Terms {
	from := []*metav1.ObjectMeta{&p.ObjectMeta}
	for i := range p.Owners {
		from = append(from, &p.Owners[i].Meta)
	}
	r := &reading{Pod: p, Reader: dialect.NewReader(from...), world: w, out: &dialect.Terms{Keys: make(map[string]string)}}
	r.local = r.Label(QueueLabel)
	if r.local == "" {
		return r.withoutQueue(k.Domains())
	}
	r.out.Entrance = r.local
	r.Ignore(written...)
	r.gate()
	r.group()
	r.priority()
	r.terms()
	r.queue()
	if r.out.Awaits != "" { // a workload that is not let in is no gang yet: each of its pods says why
		delete(r.out.Keys, v1alpha1.KeyGang)
	}
	r.out.Unread = r.Unread(k.Domains())
	return r.out
}

// reading reads one pod.
type reading struct {
	*dialect.Pod
	*dialect.Reader
	world dialect.World
	local string // LocalQueue
	out   *dialect.Terms
}

func (r *reading) await(format string, args ...any) {
	if r.out.Awaits == "" {
		r.out.Awaits = fmt.Sprintf(format, args...)
	}
}

// gate finds the gate that is taken away: only where nobody else has one on the pod.
func (r *reading) gate() {
	if g := r.Spec.SchedulingGates; len(g) == 1 && g[0].Name == AdmissionGate {
		r.out.Gate = AdmissionGate
	}
}

// group finds what is let in together, and the Workload that stands for it: all pods of a Job, those of a group by name, else each
// pod.
func (r *reading) group() {
	name := r.Label(groupNameKey)
	count := r.Annotation(groupCountKey)
	switch n := len(r.Owners); {
	case n > 0 && r.Owners[n-1].APIVersion != "":
		r.Ignore(groupNameKey, groupCountKey, minParallelKey)
		r.made(r.Owners[n-1])
	case len(r.Owners) > 0 && r.Owners[0].Kind == "Job":
		r.Ignore(groupNameKey, groupCountKey)
		r.job(&r.Owners[0])
	case name != "":
		r.Ignore(minParallelKey)
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 || n > maxMembers {
			r.await("annotation %s of the pods of group %s is not a number from 1 to %d", groupCountKey, name, maxMembers)
			n = 1
		}
		r.out.Keys[v1alpha1.KeyGang], r.out.Keys[v1alpha1.KeyMin] = name, strconv.Itoa(n)
		r.ref(name, dialect.Owner{Kind: "Pod", Name: r.Name, UID: r.UID}, n)
	case len(r.Owners) > 0 && r.Owners[0].Kind == "StatefulSet" && !r.Owners[0].InTurn && r.Owners[0].Pods > 0:
		set := r.Owners[0]
		name := workloadName("statefulset", set.Name, set.UID)
		n := min(set.Pods, maxMembers)
		r.out.Keys[v1alpha1.KeyGang], r.out.Keys[v1alpha1.KeyMin] = name, strconv.Itoa(n)
		r.ref(name, set, n)
	default:
		r.ref(workloadName("pod", r.Name, r.UID), dialect.Owner{Kind: "Pod", Name: r.Name, UID: r.UID}, 1)
	}
}

// made is of the pods of another project's workload: what of them starts together that project's own object says, and one Workload
// stands for it.
func (r *reading) made(by dialect.Owner) {
	name := by.Name
	if by.Part != "" {
		name += "-" + by.Part
	}
	r.ref(workloadName(strings.ToLower(by.Kind), name, by.UID), by, 1)
}

func (r *reading) job(job *dialect.Owner) {
	name := workloadName("job", job.Name, job.UID)
	if job.Pods > maxMembers {
		r.await("Job %s runs %d pods at a time: the limit is %d", job.Name, job.Pods, maxMembers)
	}
	least := max(1, min(job.Pods, maxMembers))
	if text := r.Annotation(minParallelKey); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > least && job.Pods > 0 {
			r.Refuse(minParallelKey, text, "a number from 1 to the Job's parallelism")
		} else {
			least = n
		}
	}
	r.out.Keys[v1alpha1.KeyGang], r.out.Keys[v1alpha1.KeyMin] = name, strconv.Itoa(least)
	r.ref(name, *job, max(job.Pods, 1))
}

func (r *reading) ref(name string, by dialect.Owner, count int) {
	ref := &dialect.GroupRef{Kind: Workloads, Namespace: r.Namespace, Name: name}
	spec, local, class := r.Spec, r.local, r.Label(priorityKey)
	ref.Make = func() *unstructured.Unstructured { return makeWorkload(ref, by, count, local, class, &spec) }
	r.out.Group = ref
}

// priority is that of the WorkloadPriorityClass, where the workload names one.
func (r *reading) priority() {
	name := r.Label(priorityKey)
	if name == "" {
		return
	}
	o := r.world.Object(PriorityClasses, "", name)
	if o == nil {
		r.await("WorkloadPriorityClass %s doesn't exist", name)
		return
	}
	if n, ok := o.Value.(int32); ok {
		r.out.Priority = &n
	}
}

// terms are how long it runs at most, and its topology.
func (r *reading) terms() {
	if text := r.Label(maxRunKey); text != "" {
		if n, err := strconv.Atoi(text); err != nil || n < 1 || n > 1<<31-1 {
			r.Refuse(maxRunKey, text, "seconds above 0")
		} else {
			r.out.Keys[v1alpha1.KeyMaxRun] = (time.Duration(n) * time.Second).String()
		}
	}
	if v := r.Annotation(RequiredTopology); v != "" {
		r.out.Keys[v1alpha1.KeyTopologyRequired] = v
	}
	if v := r.Annotation(PreferredTopology); v != "" {
		r.out.Keys[v1alpha1.KeyTopologyPreferred] = v
	}
	r.Ignore(unconstrained) // anywhere is what is not said
	size, level := r.Annotation(sliceSizeKey), r.Annotation(sliceLevelKey)
	switch n, err := strconv.Atoi(size); {
	case size == "" && level == "":
	case err != nil || n < 1 || level == "":
		r.Refuse(sliceSizeKey, size, "a number above 0, and "+sliceLevelKey)
	default:
		r.out.Keys[v1alpha1.KeySegment] = size + "@" + level
	}
}

// queue follows the LocalQueue to the ClusterQueue that pays.
func (r *reading) queue() {
	o := r.world.Object(LocalQueues, r.Namespace, r.local)
	if o == nil {
		r.await("LocalQueue %s doesn't exist", r.local)
		return
	}
	local, _ := o.Value.(*LocalQueue)
	if local == nil || o.Problem != "" {
		r.await("LocalQueue %s: %s", r.local, o.Problem)
		return
	}
	o = r.world.Object(ClusterQueues, "", local.ClusterQueue)
	if o == nil {
		r.await("ClusterQueue %s doesn't exist", local.ClusterQueue)
		return
	}
	q, _ := o.Value.(*clusterQueue)
	if q == nil || o.Problem != "" {
		r.await("ClusterQueue %s: %s", local.ClusterQueue, o.Problem)
		return
	}
	r.out.Keys[v1alpha1.KeyQueue] = berthName(local.ClusterQueue)
	r.out.Patient = q.Preemption.patient(q.cohort)
	if p := local.StopPolicy; p == hold || p == holdAndDrain { // that of the ClusterQueue is its queue's
		r.await("LocalQueue %s is stopped: its stopPolicy is %s", r.local, p)
		if p == holdAndDrain {
			r.out.Ends = evictedByLocalQueue
		}
	}
	work := &workload{}
	if w := r.world.Object(Workloads, r.Namespace, r.out.Group.Name); w != nil {
		if v, ok := w.Value.(*workload); ok {
			work = v
		}
		if work.inactive {
			r.await("Workload %s is deactivated: its spec.active is false", w.Name)
			r.out.Ends = evictedByDeactivation
		}
	}
	r.flavors(local.ClusterQueue, q)
	r.checks(q, work)
}

// withoutQueue is what is said of a pod that names no queue, and so is not let in: keys that it has for Kueue nonetheless are told.
func (r *reading) withoutQueue(domains []string) *dialect.Terms {
	r.Ignore(written...)
	if r.out.Unread = r.Unread(domains); len(r.out.Unread) == 0 {
		return nil
	}
	return r.out
}

// requested are the names of what the pod's containers ask for, sorted.
func requested(s *corev1.PodSpec) []string {
	var out []string
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			for _, amounts := range []corev1.ResourceList{list[i].Resources.Requests, list[i].Resources.Limits} {
				for name, q := range amounts { //archtest:any-order the names are sorted below
					if !q.IsZero() {
						out = append(out, string(name))
					}
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
