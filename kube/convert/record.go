package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// Admitted is the condition in which the scheduler writes down, as a Record, the terms that a pod entered its queue with.
// Status is where it belongs: who may edit pods, as with the built-in roles edit and admin, may not write their status.
const Admitted corev1.PodConditionType = v1alpha1.PodAdmitted

// recordVersion is that of Record.
//
//	1  2026-11-16  first version
//	1  2026-11-18  group.above, of pods whose PodGroup has a parent: who does not know it takes such a record for none
const recordVersion = 1

// mostKeys is how long all that a pod, its controllers and its PodGroup say under the fixed keys may be together, in bytes,
// and mostRecord how long a record is at most: JSON writes a byte as six in the worst case, and the keys are of a pod, twice, its
// PodGroup and the composite groups above it.
const (
	mostKeys   = 4096
	mostRecord = 6*6*mostKeys + 16384
)

// Record is what was decided about a pod when it entered its queue. It does not name the pod, so that those of one
// template have the same.
type Record struct {
	Version int    `json:"v"`
	Queue   string `json:"queue,omitempty"` // that pays; "": there was none
	Keys    Keys   `json:"keys,omitempty"`  // what the pod and its controllers said under the fixed keys
	// Own is of a pod that came to a gang and took over other terms than it asked for: what it said itself. It counts again
	// when nothing of the gang runs and all whose terms these were are gone.
	Own *Keys `json:"own,omitempty"`
	// Core is of a gang: only members above its minimum may be evicted.
	Core  bool         `json:"core,omitempty"`
	Group *GroupRecord `json:"group,omitempty"` // of a pod in a PodGroup
}

// GroupRecord is what was decided about a PodGroup with the first of its pods.
type GroupRecord struct {
	Keys     Keys   `json:"keys,omitempty"`
	Min      int32  `json:"min,omitempty"` // 0: the basic policy
	Priority int32  `json:"priority,omitempty"`
	Topology string `json:"topology,omitempty"`
	// Above are the CompositePodGroups over it, its parent first; the last is the gang.
	Above []CompositeRecord `json:"above,omitempty"`
}

// CompositeRecord is what was decided about a CompositePodGroup.
type CompositeRecord struct {
	Name     string `json:"name"`
	Keys     Keys   `json:"keys,omitempty"`
	Min      int32  `json:"min,omitempty"` // groups; 0: the basic policy
	Priority int32  `json:"priority,omitempty"`
	Topology string `json:"topology,omitempty"`
	Whole    bool   `json:"whole,omitempty"` // it is disrupted as a whole only
}

// FixedKeys are the keys that are read until a pod has entered its queue, and not after that: all by which its author
// asks for something. Those of Kubernetes and of others that decide about its place in a gang, or whether it is looked
// at, are among them.
func FixedKeys() []string {
	return append(append(inheritable(), v1alpha1.KeyDeadline, kaiFraction, kaiMemory, kaiDevices, kaiContainer), slices.Concat(hamiKeys(), vgpuKeys(), rankKeys())...)
}

// hamiKeys are the keys of HAMi by which a pod asks for something.
func hamiKeys() []string {
	return []string{hami.KeyUseType, hami.KeyNoUseType, hami.KeyUseUUID, hami.KeyNoUseUUID, hami.KeyMode, hami.KeyNUMABind, hami.KeyNodePolicy, hami.KeyGPUPolicy}
}

// vgpuKeys are those of Volcano's edition of HAMi's plugin.
func vgpuKeys() []string {
	e := hami.Volcano()
	return []string{e.Mode, e.UseUUID, e.NoUseUUID}
}

// GuardedKeys are the keys of ours that nobody but Berth may change on a pod that has entered its queue: the fixed ones,
// and those that Berth writes itself. Whoever runs the pod may release it, and say that its work is saved.
func GuardedKeys() []string {
	return slices.DeleteFunc(knownKeys(), func(key string) bool { return key == v1alpha1.KeyHold || key == v1alpha1.KeyCheckpointed })
}

// jobOfSet is the index of a pod's Job among all Jobs of a JobSet (sigs.k8s.io/jobset v0.12.0, api/jobset/v1alpha2/jobset_types.go:39).
const jobOfSet = "jobset.sigs.k8s.io/job-global-index"

// rankKeys are the keys by which controllers number their pods.
func rankKeys() []string {
	return []string{batchv1.JobCompletionIndexAnnotation, "leaderworkerset.sigs.k8s.io/worker-index", "training.kubeflow.org/replica-index", appsv1.PodIndexLabel, jobOfSet}
}

// fixedKeys is FixedKeys, which is gone through for every version of a pod, and fixed the same as it is looked up.
var fixedKeys, fixed = func() ([]string, map[string]bool) {
	keys, set := FixedKeys(), make(map[string]bool)
	for _, key := range keys {
		set[key] = true
	}
	return keys, set
}()

// FixedOf is what the object says under the fixed keys.
func FixedOf(o metav1.Object) Keys {
	meta := &metav1.ObjectMeta{Annotations: o.GetAnnotations(), Labels: o.GetLabels()}
	var out Keys
	for _, key := range fixedKeys {
		if v := asked(meta, key); v != "" {
			if out == nil {
				out = make(Keys)
			}
			out[key] = v
		}
	}
	return out
}

// tooLong says that what the object says under the fixed keys is longer than is written down; "": it is not.
func tooLong(o *metav1.ObjectMeta) string {
	n := 0
	for _, all := range []map[string]string{o.Annotations, o.Labels} {
		for k, v := range all {
			n += len(k) + len(v)
		}
	}
	if n <= mostKeys { // with everything else
		return ""
	}
	n = 0
	for k, v := range FixedOf(o) {
		n += len(k) + len(v)
	}
	if n <= mostKeys {
		return ""
	}
	return fmt.Sprintf("its scheduling keys and their values are %d bytes together: want at most %d", n, mostKeys)
}

// RecordText is the text of the pod's record, "" for none. What its condition says goes before what it was bound with: a
// record that is changed later is written into the condition.
func RecordText(p *corev1.Pod, seal *Seal) string {
	if c := AdmittedOf(p); c != nil {
		if c.Status != corev1.ConditionTrue {
			return ""
		}
		return c.Message
	}
	return seal.Open(p)
}

// RecordOf reads the pod's record. What is not exactly one of this version is none.
func RecordOf(p *corev1.Pod, seal *Seal) (r Record, text string, ok bool) {
	text = RecordText(p, seal)
	if text == "" || len(text) > mostRecord {
		return Record{}, "", false
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&r) != nil || r.check() != nil {
		return Record{}, "", false
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Record{}, "", false
	}
	return r, text, true
}

// AdmittedOf is the pod's condition Admitted, nil for none.
func AdmittedOf(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == Admitted {
			return c
		}
	}
	return nil
}

func (r *Record) check() error {
	if r.Version != recordVersion {
		return fmt.Errorf("version %d", r.Version)
	}
	said := []Keys{r.Keys}
	if r.Own != nil {
		said = append(said, *r.Own)
	}
	if g := r.Group; g != nil {
		if g.Min < 0 || g.Min > MaxGangSize {
			return fmt.Errorf("a minimum of %d", g.Min)
		}
		said = append(said, g.Keys)
		if len(g.Above) >= TreeLevels {
			return fmt.Errorf("%d groups above a group", len(g.Above))
		}
		for _, a := range g.Above {
			if a.Name == "" || a.Min < 0 {
				return fmt.Errorf("a minimum of %d of group %q", a.Min, a.Name)
			}
			said = append(said, a.Keys)
		}
	}
	for _, keys := range said {
		for _, key := range slices.Sorted(maps.Keys(keys)) { // the error names the first
			value := keys[key]
			if !fixed[key] || value == "" || value != strings.TrimSpace(value) {
				return fmt.Errorf("key %q is %q", key, value)
			}
		}
	}
	return nil
}

// Text is the record as it is written down. The same record always has the same text.
func (r Record) Text() string {
	r.Version = recordVersion
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(r) // it is of strings and numbers
	return strings.TrimSuffix(b.String(), "\n")
}

// Agrees says whether the object says under the fixed keys what the keys are.
func (k Keys) Agrees(o metav1.Object) bool {
	meta := &metav1.ObjectMeta{Annotations: o.GetAnnotations(), Labels: o.GetLabels()}
	for _, key := range fixedKeys {
		if asked(meta, key) != k[key] {
			return false
		}
	}
	return true
}

// On returns the pod as if it said under the fixed keys what the keys are, and nothing else. The pod is not written to.
func (k Keys) On(p *corev1.Pod) *corev1.Pod {
	if k.Agrees(p) {
		return p
	}
	out := *p
	k.put(&out.ObjectMeta)
	return &out
}

func (k Keys) put(o *metav1.ObjectMeta) {
	isFixed := func(key, _ string) bool { return fixed[key] }
	annotations, labels := maps.Clone(o.Annotations), maps.Clone(o.Labels)
	maps.DeleteFunc(annotations, isFixed)
	maps.DeleteFunc(labels, isFixed)
	if annotations == nil {
		annotations = make(map[string]string, len(k))
	}
	maps.Copy(annotations, k)
	o.Annotations, o.Labels = annotations, labels
}

// wide are the keys that hold for a gang as a whole, and partWide those that hold for a subgroup of it.
var (
	wide = []string{
		v1alpha1.KeyQueue, v1alpha1.KeyUser, v1alpha1.KeyExpectedRun, v1alpha1.KeyMaxRun, v1alpha1.KeyCheckpoint, v1alpha1.KeyRestartCost, v1alpha1.KeyPreemptionDelay, v1alpha1.KeyDeadline, v1alpha1.KeyWholeNodes,
		v1alpha1.KeyMinSubgroups,
	}
	partWide = []string{
		v1alpha1.KeyMin, v1alpha1.KeySize, v1alpha1.KeyTopologyRequired, v1alpha1.KeyTopologyPreferred, v1alpha1.KeySegment, v1alpha1.KeySpread, v1alpha1.KeyBalanced,
		v1alpha1.KeySubgroupTopology,
	}
)

// Together is what is decided about the pods of a gang, which are sorted by name, when it enters its queue: what each of
// them says, and of that what holds for the gang or a part of it as the lowest-named has it who says it.
func Together(pods []*corev1.Pod) []Keys {
	first, firstOf := make(Keys), make(map[string]Keys)
	out := make([]Keys, len(pods))
	for i, p := range pods {
		out[i] = FixedOf(p)
		part := out[i][v1alpha1.KeySubgroup]
		if firstOf[part] == nil {
			firstOf[part] = make(Keys)
		}
		first.learn(out[i], wide)
		firstOf[part].learn(out[i], partWide)
	}
	for i, own := range out {
		out[i] = own.taking(first, wide).taking(firstOf[own[v1alpha1.KeySubgroup]], partWide)
	}
	return out
}

// learn takes the values under the keys that are not there yet.
func (k Keys) learn(from Keys, keys []string) {
	for _, key := range keys {
		if v := from[key]; v != "" && k[key] == "" {
			k[key] = v
		}
	}
}

// taking returns k with the values of others under the keys, and none where they have none.
func (k Keys) taking(others Keys, keys []string) Keys {
	out := maps.Clone(k)
	for _, key := range keys {
		delete(out, key)
		if v := others[key]; v != "" {
			if out == nil {
				out = make(Keys)
			}
			out[key] = v
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Joining is what is decided about a pod that comes to a gang: what it says itself, and of that what holds for the gang or
// the part as the members have it. gang are the keys of a member, part those of one in the same subgroup, nil for none.
// Whether it may be evicted is the gang's too: a pod must not make members that run firmer than they were.
func (k Keys) Joining(gang, part Keys) Keys {
	out := k.taking(gang, append(slices.Clone(wide), v1alpha1.KeyPreemptible))
	if part != nil {
		out = out.taking(part, partWide)
	}
	return out
}

// GroupRecordOf is what is decided about the group.
func GroupRecordOf(g *schedulingv1beta1.PodGroup) *GroupRecord {
	read := PodGroup(g)
	out := &GroupRecord{Keys: FixedOf(g), Priority: read.Priority, Topology: read.Layout.Required}
	if gang := g.Spec.SchedulingPolicy.Gang; gang != nil {
		out.Min = gang.MinCount
	}
	return out
}

// On returns the group as it was decided about, also where it is gone: nil. Its minimum, which Kubernetes lets be changed,
// may become smaller: a larger one would keep members that run from being evicted one by one.
func (r *GroupRecord) On(g *schedulingv1beta1.PodGroup, namespace, name string) *schedulingv1beta1.PodGroup {
	var out schedulingv1beta1.PodGroup
	least := r.Min
	if g != nil {
		out = *g
		if gang := g.Spec.SchedulingPolicy.Gang; gang == nil {
			least = 0
		} else {
			least = min(least, gang.MinCount)
		}
	} else {
		out.Namespace, out.Name = namespace, name
		out.Spec.Priority = &r.Priority
		if r.Topology != "" {
			out.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
				Topology: []schedulingv1beta1.TopologyConstraint{{Key: r.Topology}},
			}
		}
	}
	r.Keys.put(&out.ObjectMeta)
	out.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{}
	if least > 0 {
		out.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: least}
	}
	return &out
}

// CompositeRecordOf is what is decided about the group.
func CompositeRecordOf(c *schedulingv1alpha3.CompositePodGroup) CompositeRecord {
	read := compositeGroup(c)
	out := CompositeRecord{Name: c.Name, Keys: FixedOf(c), Topology: read.Layout.Required, Whole: read.Whole}
	if c.Spec.Priority != nil {
		out.Priority = *c.Spec.Priority
	}
	if gang := c.Spec.SchedulingPolicy.Gang; gang != nil {
		out.Min = gang.MinGroupCount
	}
	return out
}

// on returns the group as it was decided about, also where it is gone: nil. Its minimum may become smaller, as that of a PodGroup.
func (r *CompositeRecord) on(c *schedulingv1alpha3.CompositePodGroup, namespace, parent string) *schedulingv1alpha3.CompositePodGroup {
	var out schedulingv1alpha3.CompositePodGroup
	least := r.Min
	if c != nil {
		out = *c
		if gang := c.Spec.SchedulingPolicy.Gang; gang == nil {
			least = 0
		} else {
			least = min(least, gang.MinGroupCount)
		}
	}
	out.Namespace, out.Name, out.DeletionTimestamp = namespace, r.Name, nil
	out.Spec.Priority, out.Spec.ParentCompositePodGroupName = &r.Priority, nil
	if parent != "" {
		out.Spec.ParentCompositePodGroupName = &parent
	}
	out.Spec.DisruptionMode, out.Spec.SchedulingConstraints, out.Spec.SchedulingPolicy = nil, nil, schedulingv1alpha3.CompositePodGroupSchedulingPolicy{}
	if r.Whole {
		out.Spec.DisruptionMode = &schedulingv1alpha3.CompositeDisruptionMode{All: &schedulingv1alpha3.AllCompositeDisruptionMode{}}
	}
	if r.Topology != "" {
		out.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{Topology: []schedulingv1alpha3.TopologyConstraint{{Key: r.Topology}}}
	}
	if least > 0 {
		out.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: least}
	}
	r.Keys.put(&out.ObjectMeta)
	return &out
}

// Recorded has the tree contain the PodGroup of the name and the groups above it as they were decided about, whatever became of them.
func (t *Tree) Recorded(namespace, name string, r *GroupRecord) {
	for i := range r.Above {
		a, parent := &r.Above[i], ""
		if i+1 < len(r.Above) {
			parent = r.Above[i+1].Name
		}
		if parent == "" {
			t.Root = a.on(t.Root, namespace, "")
			continue
		}
		at := slices.IndexFunc(t.Composites, func(c *schedulingv1alpha3.CompositePodGroup) bool { return c.Name == a.Name })
		if at < 0 {
			t.Composites = append(t.Composites, a.on(nil, namespace, parent))
		} else {
			t.Composites[at] = a.on(t.Composites[at], namespace, parent)
		}
	}
	at := slices.IndexFunc(t.Groups, func(g *schedulingv1beta1.PodGroup) bool { return g.Name == name })
	if at < 0 {
		t.Groups = append(t.Groups, nil)
		at = len(t.Groups) - 1
	}
	g := r.On(t.Groups[at], namespace, name)
	g.Spec.ParentCompositePodGroupName = &r.Above[0].Name
	t.Groups[at] = g
}
