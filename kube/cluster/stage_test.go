package cluster

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/all"
)

// stage is a cluster in memory to which manifests of a dialect are given, with what an API server and Kubernetes' controllers make of
// them: Jobs, StatefulSets and Deployments have their pods, Jobs of an Admitter are suspended, plans are carried out at once.
type stage struct {
	*clock
	state   *engine.State
	speaks  dialect.Dialect // nil: none
	served  map[string]bool // apiVersion/kind
	version int
	told    map[string][]string // by kind/namespace/name: what has no effect
	refused []string            // what the API server would not take, in order
	owners  []metav1.Object     // Jobs, StatefulSets and ReplicaSets, in order
	evicted map[string]int      // by controller or pod
	made    map[string]int      // how often controllers made a pod of the name
	waits   map[string]engine.Waiting
	certs   []why.Certificate
}

// definitions are the kinds that each dialect serves, which take long to read.
var definitions sync.Map

func newStage(t testing.TB, name string) *stage {
	s := &stage{
		clock: &clock{now: noon}, speaks: all.Find(name), served: make(map[string]bool), told: make(map[string][]string),
		evicted: make(map[string]int), made: make(map[string]int), waits: make(map[string]engine.Waiting),
	}
	levels := DefaultLevels()
	s.Feed = New(Options{
		Convert: convert.Options{SchedulerNames: []string{DefaultName}}, Levels: levels, Sink: &s.changes, Listener: s,
		Now: func() time.Time { return s.now },
	})
	s.state = engine.Load(engine.Snapshot{}, engine.Config{Levels: levels})
	s.namespace("default", nil)
	if s.speaks == nil {
		return s
	}
	s.Speak(s.speaks)
	if known, ok := definitions.Load(name); ok {
		s.served = known.(map[string]bool)
	} else {
		for _, text := range s.speaks.Install().Definitions {
			s.serve(t, text)
		}
		definitions.Store(name, s.served)
	}
	for _, text := range s.speaks.Install().Objects {
		if !strings.Contains(text, "AdmissionPolicy") { // admit does what they say
			s.apply(t, text)
		}
	}
	return s
}

// The listener.
func (*stage) Forget(types.UID)                    {}
func (*stage) Admitted(*corev1.Pod)                {}
func (*stage) Begun(Object)                        {}
func (*stage) UsageChanged()                       {}
func (*stage) AccessChanged()                      {}
func (*stage) ClaimsMissing(*corev1.Pod, []string) {}
func (*stage) Counted(Object, string)              {}

func (s *stage) NotHonoured(o Object, what []string) { s.told[describeObject(o)] = what }

func describeObject(o Object) string {
	kind := "Pod"
	switch u := o.(type) {
	case *unstructured.Unstructured:
		kind = u.GetKind()
	case *schedulingv1beta1.PodGroup:
		kind = "PodGroup"
	case *schedulingv1alpha3.CompositePodGroup:
		kind = "CompositePodGroup"
	}
	return kind + "/" + o.GetName()
}

// serve has the kind of a definition, in all versions that it serves.
func (s *stage) serve(t testing.TB, text string) {
	var def struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Served bool
			}
		}
	}
	if err := utilyaml.Unmarshal([]byte(text), &def); err != nil {
		t.Fatal(err)
	}
	for _, v := range def.Spec.Versions {
		if v.Served {
			s.served[def.Spec.Group+"/"+v.Name+"/"+def.Spec.Names.Kind] = true
		}
	}
}

func (s *stage) namespace(name string, labels map[string]string) {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = make(map[string]string)
	}
	labels[corev1.LabelMetadataName] = name
	s.Set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
}

// nodes makes nodes with so many GPUs, two to a rack and four to a block.
func (s *stage) nodes(n int, gpus int64) {
	for i := range n {
		o := node(fmt.Sprintf("node-%d", i), "r", gpus)
		for at, label := range map[int]string{2: DefaultLevels()[3].Label, 4: DefaultLevels()[2].Label, 8: DefaultLevels()[1].Label} { //archtest:any-order each has its own key
			o.Labels[label] = fmt.Sprintf("%d", i/at)
		}
		s.Set(o)
	}
}

// apply takes in a file of manifests, as kubectl apply would.
func (s *stage) apply(t testing.TB, text string) {
	t.Helper()
	d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			s.refused = append(s.refused, "not YAML: "+err.Error())
			return
		}
		if len(u.Object) == 0 {
			continue
		}
		if u.IsList() {
			_ = u.EachListItem(func(o runtime.Object) error { s.create(t, o.(*unstructured.Unstructured)); return nil })
			continue
		}
		s.create(t, u)
	}
}

// create does with one object what the API server does.
func (s *stage) create(t testing.TB, u *unstructured.Unstructured) {
	t.Helper()
	s.version++
	if u.GetName() == "" {
		u.SetName(u.GetGenerateName() + fmt.Sprint(s.version))
	}
	u.SetUID(types.UID(fmt.Sprintf("%s-%s", strings.ToLower(u.GetKind()), u.GetName())))
	u.SetResourceVersion(fmt.Sprint(s.version))
	u.SetGeneration(int64(s.version))
	u.SetCreationTimestamp(metav1.Time{Time: s.now})
	at := u.GetAPIVersion() + "/" + u.GetKind()
	if s.served[at] {
		for _, k := range s.speaks.Kinds() {
			if k.Kind == u.GetKind() && k.Namespaced && u.GetNamespace() == "" {
				u.SetNamespace("default")
			}
		}
		s.speaks.Trim(u)
		s.Set(u)
		return
	}
	var o metav1.Object
	switch at {
	case "v1/Namespace":
		s.namespace(u.GetName(), u.GetLabels())
		return
	case "v1/Node":
		o = &corev1.Node{}
	case "v1/Pod":
		o = &corev1.Pod{}
	case "batch/v1/Job":
		o = &batchv1.Job{}
	case "apps/v1/Deployment":
		o = &appsv1.Deployment{}
	case "apps/v1/StatefulSet":
		o = &appsv1.StatefulSet{}
	case "apps/v1/ReplicaSet":
		o = &appsv1.ReplicaSet{}
	case "scheduling.k8s.io/v1/PriorityClass":
		o = &schedulingv1.PriorityClass{}
	case "scheduling.k8s.io/v1beta1/PodGroup":
		o = &schedulingv1beta1.PodGroup{}
	case "scheduling.k8s.io/v1alpha3/CompositePodGroup":
		o = &schedulingv1alpha3.CompositePodGroup{}
	case "v1/Service", "v1/ConfigMap", "v1/ServiceAccount", "v1/Secret", "v1/PersistentVolumeClaim":
		return
	default:
		s.refused = append(s.refused, at+" "+u.GetName())
		return
	}
	if u.GetNamespace() == "" && at != "v1/Node" && !strings.HasSuffix(at, "PriorityClass") {
		u.SetNamespace("default")
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
		s.refused = append(s.refused, at+" "+u.GetName()+": "+err.Error())
		return
	}
	s.take(o)
}

// take takes in an object of Kubernetes' own, and its controller's work.
func (s *stage) take(o metav1.Object) {
	switch o := o.(type) {
	case *corev1.Node:
		s.Set(o)
	case *schedulingv1.PriorityClass:
		s.Set(o)
	case *schedulingv1beta1.PodGroup:
		s.Set(o)
	case *schedulingv1alpha3.CompositePodGroup:
		s.Set(o)
	case *corev1.Pod:
		s.pod(o)
	case *batchv1.Job:
		if s.admits() && s.speaks.(dialect.Admitter).Queued(&o.ObjectMeta) {
			yes := true
			o.Spec.Suspend = &yes
			ownScheduler(&o.Spec.Template.Spec)
		}
		s.Set(o)
		s.owners = append(s.owners, o)
	case *appsv1.StatefulSet:
		s.admitSet(&o.ObjectMeta, &o.Spec.Template)
		s.Set(o)
		s.owners = append(s.owners, o)
	case *appsv1.ReplicaSet:
		s.Set(o)
		s.owners = append(s.owners, o)
	case *appsv1.Deployment:
		s.admitSet(&o.ObjectMeta, &o.Spec.Template)
		s.Set(o)
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name + "-rs", UID: o.UID + "-rs", Generation: 1}}
		set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		set.Spec = appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas, Selector: o.Spec.Selector, Template: o.Spec.Template}
		s.Set(set)
		s.owners = append(s.owners, set)
	}
}

func (s *stage) admits() bool { _, ok := s.speaks.(dialect.Admitter); return ok }

// admitSet, admitPod and ownScheduler do what the policies do that dialects install.
func (s *stage) admitSet(o *metav1.ObjectMeta, template *corev1.PodTemplateSpec) {
	if q := o.Labels["kueue.x-k8s.io/queue-name"]; s.admits() && q != "" && template.Labels != nil {
		template.Labels["kueue.x-k8s.io/queue-name"] = q
	}
}

func (s *stage) admitPod(p *corev1.Pod) {
	if s.speaks != nil && s.speaks.Name() == "coscheduling" && (p.Spec.SchedulerName == "" || p.Spec.SchedulerName == corev1.DefaultSchedulerName) &&
		(p.Labels["scheduling.x-k8s.io/pod-group"] != "" || p.Labels["pod-group.scheduling.sigs.k8s.io/name"] != "" || len(s.foreign.Objects("ElasticQuota.scheduling.x-k8s.io", p.Namespace)) > 0) {
		p.Spec.SchedulerName = s.speaks.SchedulerNames()[0]
	}
	if c := metav1.GetControllerOf(p); !s.admits() || p.Labels["kueue.x-k8s.io/queue-name"] == "" || c != nil && c.Kind == "Job" {
		return
	}
	p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "kueue.x-k8s.io/admission"})
	p.Labels["kueue.x-k8s.io/managed"] = "true"
	ownScheduler(&p.Spec)
}

func ownScheduler(spec *corev1.PodSpec) {
	if spec.SchedulerName == "" || spec.SchedulerName == corev1.DefaultSchedulerName {
		spec.SchedulerName = DefaultName
	}
}

// pod takes in a pod that was made.
func (s *stage) pod(p *corev1.Pod) {
	s.admitPod(p)
	s.version++
	p.ResourceVersion = fmt.Sprint(s.version)
	if p.UID == "" {
		p.UID = types.UID("pod-" + p.Namespace + "-" + p.Name)
	}
	if p.Spec.SchedulerName == "" {
		p.Spec.SchedulerName = corev1.DefaultSchedulerName
	}
	if n, ok := s.foreign.classes[p.Spec.PriorityClassName]; ok && p.Spec.Priority == nil {
		p.Spec.Priority = &n
	}
	requestLimits(&p.Spec)
	p.Status.Phase = corev1.PodPending
	s.Set(p)
}

// control makes the pods that controllers have not made yet; more says whether there was any.
func (s *stage) control() (more bool) {
	for _, by := range s.owners {
		o, _ := convert.OwnerOf(by)
		template, kind := templateOf(by)
		if j, ok := by.(*batchv1.Job); ok && suspended(j) {
			continue
		}
		n := o.Pods
		for i := range n {
			name := fmt.Sprintf("%s-%d", o.Name, i)
			known := s.members.pods[o.Namespace+"/"+name]
			if known != nil {
				if o.InTurn && !known.bound() {
					break
				}
				continue
			}
			p := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
			p.Namespace, p.Name = o.Namespace, name
			s.version++
			p.UID = types.UID(fmt.Sprintf("pod-%s", name))
			if n := s.made[p.Namespace+"/"+name]; n > 0 {
				p.UID += types.UID(fmt.Sprintf("-again-%d", n))
			}
			s.made[p.Namespace+"/"+name]++
			p.CreationTimestamp.Time = s.now
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(by, kind)}
			if j, ok := by.(*batchv1.Job); ok && indexed(j) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, batchv1.JobCompletionIndexAnnotation, fmt.Sprint(i))
			}
			s.pod(p)
			more = true
			if o.InTurn {
				break
			}
		}
	}
	return more
}

func templateOf(o metav1.Object) (*corev1.PodTemplateSpec, schema.GroupVersionKind) {
	switch o := o.(type) {
	case *batchv1.Job:
		return &o.Spec.Template, schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	case *appsv1.StatefulSet:
		return &o.Spec.Template, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}
	case *appsv1.ReplicaSet:
		return &o.Spec.Template, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}
	}
	return nil, schema.GroupVersionKind{}
}

// run plans and carries out, until nothing changes any more.
func (s *stage) run(t testing.TB) {
	t.Helper()
	for range 50 {
		made := s.control()
		s.Settle()
		rejected := slices.DeleteFunc(s.state.Apply(numbered(s.state, s.changes.take())...), func(r engine.Rejected) bool {
			return r.Kind == engine.KindGang && r.Reason == s.gangs.described[r.Key].Invalid // its author is told so
		})
		if len(rejected) > 0 {
			t.Fatalf("the engine rejects %v", rejected)
		}
		p := s.state.Plan(s.now)
		s.state.Apply(p.Changes...)
		starts := s.Checked(&p)
		clear(s.waits)
		for _, w := range p.Waiting {
			s.waits[w.Gang] = w
		}
		s.certs = p.Certificates
		for i := range starts {
			s.start(&starts[i])
		}
		for _, e := range p.Evictions {
			s.evict(e.Pod)
		}
		if !made && len(p.Starts) == 0 && len(p.Evictions) == 0 {
			return
		}
		s.now = s.now.Add(engine.Config{}.AssumeFor + 1)
	}
	t.Fatal("it does not come to rest")
}

func (s *stage) start(st *engine.Start) {
	if ExpectedKey(st.Placements[0].Pod) {
		e := s.Entry(st)
		if e == nil {
			return
		}
		s.Entered(st)
		for i, o := range s.owners {
			if j, ok := o.(*batchv1.Job); ok && j.UID == e.UID {
				next, no := j.DeepCopy(), false
				s.version++
				next.Spec.Suspend, next.Generation, next.ResourceVersion = &no, int64(s.version), fmt.Sprint(s.version)
				if e.Flavor != nil && len(e.Flavor.Labels) > 0 {
					next.Spec.Template.Spec.NodeSelector = maps.Clone(next.Spec.Template.Spec.NodeSelector)
					if next.Spec.Template.Spec.NodeSelector == nil {
						next.Spec.Template.Spec.NodeSelector = make(map[string]string)
					}
					maps.Copy(next.Spec.Template.Spec.NodeSelector, e.Flavor.Labels)
				}
				if e.Flavor != nil {
					next.Spec.Template.Spec.Tolerations = convert.WithTolerations(e.Tolerations, e.Flavor.Tolerations)
				}
				s.owners[i] = next
				s.Set(next)
			}
		}
		return
	}
	for _, p := range st.Placements {
		m := s.members.pods[p.Pod]
		if m == nil {
			continue
		}
		raw := m.raw.DeepCopy()
		s.version++
		raw.Spec.NodeName, raw.Spec.SchedulingGates, raw.ResourceVersion, raw.Status.Phase = p.Node, nil, fmt.Sprint(s.version), corev1.PodRunning
		s.Set(raw)
	}
}

// evict ends the pod; a Job that was let in is suspended, and loses all.
func (s *stage) evict(key string) {
	m := s.members.pods[key]
	if m == nil {
		return
	}
	if _, uid, ok := s.JobOf(key); ok {
		for i, o := range s.owners {
			if j, ok := o.(*batchv1.Job); ok && j.UID == uid {
				next, yes := j.DeepCopy(), true
				s.version++
				next.Spec.Suspend, next.Generation, next.ResourceVersion = &yes, int64(s.version), fmt.Sprint(s.version)
				s.owners[i] = next
				s.evicted["Job/"+j.Name]++
				for _, made := range s.madeBy(uid) {
					s.gone(made)
				}
				s.Set(next)
			}
		}
		return
	}
	s.evicted["Pod/"+m.raw.Name]++
	s.gone(m)
}

func (s *stage) gone(m *member) {
	raw := m.raw.DeepCopy()
	s.version++
	raw.ResourceVersion = fmt.Sprint(s.version)
	s.Remove(raw)
}

// report is what has become of everything: who runs and who waits, why, what has no effect, and the statuses.
func (s *stage) report() string {
	var b strings.Builder
	for _, line := range s.refused {
		fmt.Fprintf(&b, "refused  %s\n", line)
	}
	s.reportPods(&b)
	for _, name := range sortedNames(s.evicted) {
		fmt.Fprintf(&b, "evicted  %s %d times\n", name, s.evicted[name])
	}
	s.reportUnread(&b)
	s.reportStatus(&b)
	return b.String()
}

// reportUnread has a line for each pod, or controller of pods, and each object that says something without effect.
func (s *stage) reportUnread(b *strings.Builder) {
	said := make(map[string]string)
	for _, key := range sortedNames(s.members.pods) {
		m := s.members.pods[key]
		if what := strings.Join(s.unheeded(m), "; "); what != "" {
			said[nameOf(m)] = what
		}
	}
	for name, what := range s.told { //archtest:any-order they are sorted below
		if len(what) > 0 && !strings.HasPrefix(name, "Pod/") {
			said[name] = strings.Join(what, "; ")
		}
	}
	for _, name := range sortedNames(said) {
		fmt.Fprintf(b, "unread   %s: %s\n", name, said[name])
	}
}

// nameOf is the pod's controller, or the pod.
func nameOf(m *member) string {
	if c := metav1.GetControllerOf(m.raw); c != nil {
		return c.Kind + "/" + c.Name
	}
	return "Pod/" + m.raw.Name
}

// reportPods has a line for the pods of each controller that fare the same.
func (s *stage) reportPods(b *strings.Builder) {
	counts := make(map[string]int)
	for _, key := range sortedNames(s.members.pods) {
		m := s.members.pods[key]
		name := nameOf(m)
		line := "waits    " + name + ": " + s.because(m)
		switch {
		case m.bound():
			line = "runs     " + name
		case !m.ours:
			line = "not ours " + name + ": schedulerName " + m.raw.Spec.SchedulerName
		}
		counts[line]++
	}
	for _, line := range sortedNames(counts) {
		fmt.Fprintf(b, "%s%s\n", line, times(counts[line]))
	}
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" x%d", n)
}

// because is why the pod waits.
func (s *stage) because(m *member) string {
	w, ok := s.waits[m.workload]
	if !ok {
		if m.foreign != nil && m.foreign.Awaits != "" {
			return m.foreign.Awaits
		}
		return "not planned"
	}
	parts := make([]string, 0, len(w.Gates))
	for _, g := range w.Gates[:1] {
		parts = append(parts, g.Sentence(s.certs))
	}
	return string(w.Cause) + ": " + strings.Join(parts, "; ")
}

// reportStatus has a line for each object of the dialect that has a status.
func (s *stage) reportStatus(b *strings.Builder) {
	r, ok := s.speaks.(dialect.Reporter)
	if !ok {
		return
	}
	var lines []string
	same := make(map[string]int)
	for _, g := range s.ForeignGroups() {
		o := g.Object
		if g.Alone {
			continue
		}
		if o == nil {
			if g.Ref.Make == nil {
				continue
			}
			o = g.Ref.Make()
		}
		if w, ok := s.waits[g.Workload]; ok {
			g.State.Cause, g.State.Message = string(w.Cause), "..."
		}
		name := o.GetKind() + "/" + o.GetName()
		if c := o.GetOwnerReferences(); len(c) == 1 && c[0].Kind == "Pod" && len(g.Ref.Name) > 0 && g.Ref.Make != nil {
			name = o.GetKind() + " of a pod"
		}
		same["status   "+name+": "+brief(r.GroupStatus(o, g.State, s.now))]++
	}
	for line, n := range same { //archtest:any-order they are sorted below
		lines = append(lines, line+times(n))
	}
	for _, q := range s.ForeignQueues() {
		if q.Problem != "" {
			lines = append(lines, "problem  "+q.Object.GetKind()+"/"+q.Object.GetName()+": "+q.Problem)
		}
		q.State.Problem = q.Problem
		if status := brief(r.QueueStatus(q.Object, q.State, s.now)); status != "" && (q.State.Running+q.State.Waiting > 0 || len(q.State.Allocated) > 0) {
			lines = append(lines, "status   "+q.Object.GetKind()+"/"+q.Object.GetName()+": "+status)
		}
	}
	slices.Sort(lines)
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
}

// brief is the parts of a status that people look at.
func brief(status map[string]any) string {
	var parts []string
	for _, key := range []string{"phase", "state", "running", "pending", "pendingWorkloads", "admittedWorkloads"} {
		if v, ok := status[key]; ok {
			parts = append(parts, fmt.Sprintf("%s %v", key, v))
		}
	}
	for _, key := range []string{"allocated", "used"} {
		if m, ok := status[key].(map[string]any); ok && m["nvidia.com/gpu"] != nil {
			parts = append(parts, fmt.Sprintf("%s %v GPUs", key, m["nvidia.com/gpu"]))
		}
	}
	for _, key := range []string{"conditions", "schedulingConditions"} {
		list, _ := status[key].([]any)
		for _, c := range list {
			parts = append(parts, dialect.Text(c, "type")+"="+cmp.Or(dialect.Text(c, "status"), "True")+" "+dialect.Text(c, "reason"))
		}
	}
	return strings.Join(parts, ", ")
}
