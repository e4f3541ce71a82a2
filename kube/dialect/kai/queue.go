package kai

import (
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
)

// queueSpec has the fields of a Queue that are understood.
type queueSpec struct {
	DisplayName       string         `json:"displayName"`
	ParentQueue       string         `json:"parentQueue"`
	Priority          *int32         `json:"priority"`
	PreemptMinRuntime string         `json:"preemptMinRuntime"`
	ReclaimMinRuntime string         `json:"reclaimMinRuntime"`
	Resources         queueResources `json:"resources"`
}

type queueResources struct {
	GPU    *queueResource `json:"gpu"`    // devices, with parts of them
	CPU    *queueResource `json:"cpu"`    // millicores
	Memory *queueResource `json:"memory"` // MB, 10^6 bytes
}

// queueResource has amounts of which -1 is unlimited, and 0 as good as absent.
type queueResource struct {
	Quota           float64  `json:"quota"`
	Limit           float64  `json:"limit"`
	OverQuotaWeight *float64 `json:"overQuotaWeight"`
}

// weight is that of the resource, 0 for none.
func (r *queueResource) weight() float64 {
	if r == nil || r.OverQuotaWeight == nil {
		return 0
	}
	return *r.OverQuotaWeight
}

const (
	// defaultPriority is that of a queue that names none.
	defaultPriority = 100
	// unlimited is a quota that nobody can use up, in devices, millicores or MB.
	unlimited = 1 << 30
	maxWeight = 65536
)

// readQueue makes a BerthQueue of a Queue. A resource that the queue lists with no limit, or 0, may not be used beyond its quota;
// one that it does not list is neither promised nor limited.
func readQueue(o *unstructured.Unstructured) dialect.Object {
	var spec queueSpec
	out := dialect.Object{Unread: dialect.Take(dialect.Value(o.Object, "spec"), "spec", &spec)}
	q := &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: berthName(o.GetName())}}
	q.Spec.Parent, q.Spec.Priority, q.Spec.Weight = berthName(spec.ParentQueue), defaultPriority, 1
	if spec.Priority != nil {
		q.Spec.Priority = *spec.Priority
	}
	if w := spec.Resources.GPU.weight(); w >= 1 {
		q.Spec.Weight = int32(math.Round(min(w, maxWeight)))
	}
	// A queue of weight 0 has no share of what is over (proportion/resource_division/resource_division.go of KAI v0.13), nor have parts one here.
	if g := spec.Resources.GPU; g != nil && g.OverQuotaWeight != nil && *g.OverQuotaWeight != float64(q.Spec.Weight) {
		out.Unread = append(out.Unread, fmt.Sprintf("spec.resources.gpu.overQuotaWeight (%d counts: weights are whole numbers from 1 to %d)", q.Spec.Weight, maxWeight))
	}
	for _, r := range []struct {
		field, name string
		has         *queueResource
		amount      func(float64) resource.Quantity
	}{
		{"gpu", GPU, spec.Resources.GPU, func(n float64) resource.Quantity {
			return *resource.NewMilliQuantity(int64(math.Round(n*1000)), resource.DecimalSI)
		}},
		{"cpu", "cpu", spec.Resources.CPU, func(n float64) resource.Quantity { return *resource.NewMilliQuantity(int64(n), resource.DecimalSI) }},
		{"memory", "memory", spec.Resources.Memory, func(n float64) resource.Quantity {
			return *resource.NewQuantity(int64(n)*1e6, resource.DecimalSI)
		}},
	} {
		if r.has == nil {
			continue
		}
		quota, limit := r.has.Quota, r.has.Limit
		if w := r.has.weight(); r.field != "gpu" && w > 0 && int32(math.Round(w)) != q.Spec.Weight && spec.Resources.GPU != nil {
			out.Unread = append(out.Unread, fmt.Sprintf("spec.resources.%s.overQuotaWeight (that of gpu counts)", r.field))
		}
		entry := v1alpha1.QueueResource{Name: r.name}
		if quota < 0 || quota > unlimited {
			quota = unlimited
		}
		if limit >= 0 && limit <= unlimited { // others are none
			if limit == 0 {
				limit = quota // nothing beyond the quota
			}
			quota = min(quota, limit)
			if limit < unlimited {
				l := r.amount(limit)
				entry.Limit = &l
			}
		}
		n := r.amount(quota)
		entry.Quota = &n
		q.Spec.Resources = append(q.Spec.Resources, entry)
	}
	q.Spec.MinRunTime, out.Unread = minRun(&spec, out.Unread)
	out.Queue, out.Value = q, spec
	return out
}

// minRun is the longer of the two times for which KAI lets a workload run undisturbed.
func minRun(spec *queueSpec, unread []string) (*metav1.Duration, []string) {
	var longest time.Duration
	for field, text := range map[string]string{"spec.preemptMinRuntime": spec.PreemptMinRuntime, "spec.reclaimMinRuntime": spec.ReclaimMinRuntime} { //archtest:any-order the longest counts
		if text == "" {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			unread = append(unread, field+" (want a time, such as 5m)")
			continue
		}
		longest = max(longest, d)
	}
	if longest == 0 {
		return nil, unread
	}
	return &metav1.Duration{Duration: longest}, unread
}
