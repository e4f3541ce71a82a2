package coscheduling

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
)

// quotaSpec has the fields of an ElasticQuota that are understood.
type quotaSpec struct {
	Min dialect.Amounts `json:"min"`
	Max dialect.Amounts `json:"max"`
}

const (
	// queuePrefix keeps the queues that are ElasticQuotas apart from those that people name.
	queuePrefix = "eq-"
	// maxName is that of a queue.
	maxName = 63
)

// readQuota makes a queue, for its namespace alone, of an ElasticQuota. Of several in a namespace the first by name counts.
func readQuota(o *unstructured.Unstructured, w dialect.World) dialect.Object {
	var spec quotaSpec
	out := dialect.Object{Unread: dialect.Take(dialect.Value(o.Object, "spec"), "spec", &spec), Value: spec}
	q := &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: queuePrefix + o.GetNamespace()}}
	q.Spec.NamespaceSelector = onlyNamespace(o.GetNamespace())
	names, problem := dialect.Named(spec.Min, spec.Max)
	switch {
	case len(q.Name) > maxName:
		out.Problem = fmt.Sprintf("its namespace's name is longer than %d characters, the limit", maxName-len(queuePrefix))
		return out
	case problem != "":
		out.Problem = problem
		return out
	case before(o, w):
		out.Problem = "another ElasticQuota of the namespace comes before it: one counts"
		return out
	}
	for _, name := range names {
		entry, unread := spec.resource(name)
		out.Unread = append(out.Unread, unread...)
		q.Spec.Resources = append(q.Spec.Resources, entry)
	}
	out.Queue = q
	return out
}

// before says whether the namespace has an ElasticQuota whose name sorts before the object's.
func before(o *unstructured.Unstructured, w dialect.World) bool {
	return w != nil && slices.ContainsFunc(w.Objects(ElasticQuotas, o.GetNamespace()), func(other *dialect.Object) bool { return other.Name != "" && other.Name < o.GetName() })
}

// quotaOf is the namespace's ElasticQuota that counts; nil: none.
func quotaOf(namespace string, w dialect.World) *dialect.Object {
	for _, o := range w.Objects(ElasticQuotas, namespace) {
		if o.Queue != nil {
			return o
		}
	}
	return nil
}

// resource is what the quota says of one resource.
func (s *quotaSpec) resource(name string) (entry v1alpha1.QueueResource, unread []string) {
	entry.Name = name
	entry.Quota, entry.Limit = s.Min.Of(name, "spec.min", &unread), s.Max.Of(name, "spec.max", &unread)
	if entry.Quota != nil && entry.Limit != nil && entry.Quota.Cmp(*entry.Limit) > 0 {
		unread = append(unread, fmt.Sprintf("spec.min.%s (above the maximum, which counts)", name))
		entry.Quota = entry.Limit
	}
	return entry, unread
}
