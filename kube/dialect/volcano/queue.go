package volcano

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
)

// queueSpec has the fields of a Queue that are understood.
type queueSpec struct {
	Weight          int32           `json:"weight"`
	Priority        int32           `json:"priority"`
	Parent          string          `json:"parent"`
	Capability      dialect.Amounts `json:"capability"`
	Deserved        dialect.Amounts `json:"deserved"`
	Guarantee       grant           `json:"guarantee"`
	Reclaimable     *bool           `json:"reclaimable"`
	DequeueStrategy string          `json:"dequeueStrategy"`
	Affinity        *affinity       `json:"affinity"`
}

type grant struct {
	Resource dialect.Amounts `json:"resource"`
}

const (
	// rootQueue is above all others in Volcano, named or not.
	rootQueue = "root"
	maxWeight = 65536
)

// readQueue makes a BerthQueue of a Queue: what it deserves is its quota, its capability is its limit, and what it is guaranteed is
// the part of the quota that is not lent.
func readQueue(o *unstructured.Unstructured, w dialect.World) dialect.Object {
	var spec queueSpec
	out := dialect.Object{Unread: dialect.Take(dialect.Value(o.Object, "spec"), "spec", &spec)}
	q := &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: berthName(o.GetName())}}
	q.Spec.Weight, q.Spec.Priority = min(max(spec.Weight, 1), maxWeight), spec.Priority
	q.Spec.Parent = parentOf(o.GetName(), spec.Parent, w)
	// Volcano asks the queue of the victim alone (pkg/scheduler/actions/reclaim/reclaim.go of v1.16.0-alpha.1, reclaimForTask).
	out.Keeps = spec.Reclaimable != nil && !*spec.Reclaimable
	if spec.DequeueStrategy == "fifo" {
		q.Spec.QueueingStrategy = v1alpha1.StrictFIFO
	}
	for _, a := range []struct {
		field string
		of    dialect.Amounts
	}{{"spec.capability", spec.Capability}, {"spec.deserved", spec.Deserved}, {"spec.guarantee.resource", spec.Guarantee.Resource}} {
		out.Unread = append(out.Unread, dropClasses(a.field, a.of)...)
	}
	names, problem := dialect.Named(spec.Capability, spec.Deserved, spec.Guarantee.Resource)
	out.Problem = problem
	for _, name := range names {
		entry, unread := spec.resource(name)
		out.Unread = append(out.Unread, unread...)
		q.Spec.Resources = append(q.Spec.Resources, entry)
	}
	if o.GetName() == rootQueue && w != nil && problem == "" {
		q.Spec.Resources = rootResources(q.Spec.Resources, w)
	}
	out.Queue, out.Value, out.Steers = q, spec, spec.Affinity != nil
	if path := o.GetAnnotations()[hierarchyKey]; path != "" {
		descend(path, o.GetAnnotations()[hierarchyWeights], &spec, &out, w)
	}
	return out
}

// deviceClass is in the names by which Volcano's plugin capacity counts devices of claims: deviceclass/gpu.nvidia.com, and
// cores.deviceclass/NAME and memory.deviceclass/NAME for parts of them.
const deviceClass = "deviceclass/"

// dropClasses takes the amounts of device classes away, and says which there were: nothing that pods request has such a name, so a limit
// under it would hold for nobody.
func dropClasses(field string, amounts dialect.Amounts) (unread []string) {
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		if strings.HasPrefix(name, deviceClass) || strings.Contains(name, "."+deviceClass) {
			unread = append(unread, fmt.Sprintf("%s.%s (devices of claims are not counted by class)", field, name))
			delete(amounts, name)
		}
	}
	return unread
}

// The annotations by which Volcano's plugin drf has queues in a tree.
const (
	hierarchyKey     = "volcano.sh/hierarchy"         // root/eng/prod
	hierarchyWeights = "volcano.sh/hierarchy-weights" // 1/2/8
	// hierarchyPrefix keeps queues that exist by being on a path apart from Queues.
	hierarchyPrefix = "hierarchy-"
)

// descend has the queue where its annotations say: below root, or below a queue that they imply. Deeper trees are told.
func descend(path, weights string, spec *queueSpec, out *dialect.Object, w dialect.World) {
	names, texts := strings.Split(path, "/"), strings.Split(weights, "/")
	var each []int32
	for _, text := range texts {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxWeight {
			break
		}
		each = append(each, int32(n))
	}
	q := out.Queue
	switch {
	case spec.Parent != "":
		out.Unread = append(out.Unread, "annotation "+hierarchyKey+" (spec.parent counts)")
	case names[0] != rootQueue || len(names) < 2 || len(names) > 3 || len(each) != len(names) || slices.Contains(names, ""):
		out.Unread = append(out.Unread, fmt.Sprintf("annotation %s (want root and one or two names, and as many whole weights from 1 to %d)", hierarchyKey, maxWeight))
	case len(names) == 3:
		above := &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: hierarchyPrefix + names[1]}}
		above.Spec.Weight, above.Spec.Parent = each[1], q.Spec.Parent
		out.Implies, q.Spec.Parent, q.Spec.Weight = above, above.Name, each[2]
		if problems := validation.IsDNS1123Label(above.Name); len(problems) > 0 {
			out.Problem = "annotation " + hierarchyKey + ": " + problems[0]
		}
	default:
		q.Spec.Weight = each[1]
	}
}

// rootResources are root's with as much quota as the queues right below it have together, unless it may not have so much. In Volcano
// root deserves the whole cluster, whatever it says: work that may not be evicted has to fit into what every queue above it deserves.
func rootResources(own []v1alpha1.QueueResource, w dialect.World) []v1alpha1.QueueResource {
	sums := make(map[string]resource.Quantity)
	for _, o := range w.Objects(Queues, "") {
		spec, ok := o.Value.(queueSpec)
		if !ok || o.Queue == nil || o.Name == rootQueue || spec.Parent != "" && spec.Parent != rootQueue {
			continue
		}
		for _, r := range o.Queue.Spec.Resources {
			if r.Quota != nil {
				sum := sums[r.Name]
				sum.Add(*r.Quota)
				sums[r.Name] = sum
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		i := slices.IndexFunc(own, func(r v1alpha1.QueueResource) bool { return r.Name == name })
		if i < 0 {
			if len(own) == dialect.MaxResources {
				continue
			}
			i = len(own)
			own = append(own, v1alpha1.QueueResource{Name: name})
		}
		r, quota := &own[i], sums[name]
		if r.Limit != nil && quota.Cmp(*r.Limit) > 0 {
			quota = *r.Limit
		}
		if r.Quota == nil || r.Quota.Cmp(quota) < 0 {
			r.Quota = &quota
		}
	}
	slices.SortFunc(own, func(a, b v1alpha1.QueueResource) int { return strings.Compare(a.Name, b.Name) })
	return own
}

// parentOf is the queue above. Those that name none are below root, where somebody made one.
func parentOf(name, parent string, w dialect.World) string {
	if name == rootQueue {
		return ""
	}
	if parent != "" && parent != rootQueue {
		return berthName(parent)
	}
	if w != nil && w.Object(Queues, "", rootQueue) != nil {
		return rootQueue
	}
	return ""
}

// resource is what the queue has of one resource.
func (s *queueSpec) resource(name string) (entry v1alpha1.QueueResource, unread []string) {
	entry.Name = name
	limit, quota, guaranteed := s.Capability.Of(name, "spec.capability", &unread), s.Deserved.Of(name, "spec.deserved", &unread), s.Guarantee.Resource.Of(name, "spec.guarantee.resource", &unread)
	if guaranteed != nil && (quota == nil || quota.Cmp(*guaranteed) < 0) {
		quota = guaranteed
	}
	if limit != nil && quota != nil && quota.Cmp(*limit) > 0 {
		unread = append(unread, fmt.Sprintf("spec.deserved.%s (above the capability, which counts)", name))
		quota = limit
	}
	entry.Quota, entry.Limit = quota, limit
	if guaranteed != nil {
		lend := quota.DeepCopy()
		lend.Sub(*guaranteed)
		if lend.Sign() < 0 {
			lend = resource.Quantity{}
		}
		entry.Lend = &lend
	}
	return entry, unread
}
