package submit

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/engine"
)

// quotas are what the namespaces of the manifests, and the queues that they are charged to, have left.
func (c *checker) quotas() []Quota {
	asks := make(map[string]corev1.ResourceList) // by namespace
	charged := make(map[string]corev1.ResourceList)
	for _, s := range c.subs {
		if s.result.Verdict == Never {
			continue
		}
		for _, p := range s.pods {
			asks[p.Namespace] = added(asks[p.Namespace], podspec.TotalRequests(p))
			if t := s.result.Terms; t != nil && t.Queue != "" {
				charged[t.Queue] = added(charged[t.Queue], podspec.TotalRequests(p))
			}
		}
		if _, ok := asks[s.Ref.Namespace]; !ok {
			asks[s.Ref.Namespace] = nil
		}
	}
	var out []Quota
	for _, q := range c.now.ResourceQuotas {
		if want, ok := asks[q.Namespace]; ok {
			out = append(out, ofNamespace(q, want)...)
		}
	}
	for name, want := range charged {
		if q, ok := c.full.model.Queue(name); ok {
			out = append(out, ofQueue(&q, want)...)
		}
	}
	slices.SortFunc(out, func(a, b Quota) int {
		return cmp.Or(strings.Compare(a.Of.Namespace, b.Of.Namespace), strings.Compare(a.Of.Name, b.Of.Name), strings.Compare(a.Resource, b.Resource))
	})
	return out
}

func added(sum, more corev1.ResourceList) corev1.ResourceList {
	if sum == nil {
		sum = corev1.ResourceList{}
	}
	podspec.Add(sum, more)
	return sum
}

// ofNamespace is what a ResourceQuota has left of what pods ask for.
func ofNamespace(q *corev1.ResourceQuota, asked corev1.ResourceList) []Quota {
	var out []Quota
	hard := q.Status.Hard
	if len(hard) == 0 {
		hard = q.Spec.Hard
	}
	for _, key := range podspec.Names(hard) {
		name := corev1.ResourceName(strings.TrimPrefix(string(key), "requests."))
		limit, used, want := hard[key], q.Status.Used[key], asked[name]
		if strings.HasPrefix(string(key), "limits.") || strings.HasPrefix(string(key), "count/") {
			want = resource.Quantity{}
		}
		left := limit.DeepCopy()
		left.Sub(used)
		out = append(out, Quota{Of: facts.RefTo(q), Resource: string(key), Hard: limit.String(), Used: used.String(), Asked: want.String(), Left: left.String()})
	}
	return out
}

// ofQueue is what a queue has left of its own quota; it may borrow beyond that.
func ofQueue(q *engine.QueueUse, asked corev1.ResourceList) []Quota {
	var out []Quota
	for _, a := range q.Quota {
		if _, _, ok := engine.FlavorOf(a.Resource); ok { // which one it gets is not known before it starts
			continue
		}
		want := asked[corev1.ResourceName(a.Resource)]
		used := q.Used.Get(a.Resource)
		out = append(out, Quota{
			Of: facts.Ref{Kind: "BerthQueue", Name: q.Name}, Resource: a.Resource, Hard: text(a.Resource, a.Value), Used: text(a.Resource, used),
			Asked: want.String(), Left: text(a.Resource, a.Value-used),
		})
	}
	return out
}

// text is an amount of the engine as people write it.
func text(name string, v int64) string {
	q := podspec.Quantity(name, v)
	return q.String()
}

// overQuota are the pods, of those to come, that the ResourceQuotas of their namespaces do not admit, and why, by key. Quotas with
// scopes are left out: most are about priorities.
func overQuota(f *facts.Facts, pods []*corev1.Pod) map[string]string {
	out := make(map[string]string)
	asked := make(map[*corev1.ResourceQuota]corev1.ResourceList)
	for _, p := range pods {
		requests := podspec.TotalRequests(p)
		for _, q := range f.ResourceQuotas {
			if q.Namespace != p.Namespace || q.Spec.ScopeSelector != nil || len(q.Spec.Scopes) > 0 {
				continue
			}
			next := added(asked[q].DeepCopy(), requests)
			if why := exceeds(q, next); why != "" {
				out[keyOf(p)] = why
				break
			}
			asked[q] = next
		}
	}
	return out
}

// exceeds says what of the quota is too little for what is asked beyond what is used; "": it is enough.
func exceeds(q *corev1.ResourceQuota, asked corev1.ResourceList) string {
	for _, key := range podspec.Names(q.Spec.Hard) {
		name, requests := strings.CutPrefix(string(key), corev1.DefaultResourceRequestsPrefix)
		want, ok := asked[corev1.ResourceName(name)]
		if !ok || !requests && podspec.Extended(key) {
			continue
		}
		limit, used := q.Spec.Hard[key], q.Status.Used[key]
		want.Add(used)
		if want.Cmp(limit) > 0 {
			return "quota " + q.Name + " allows " + limit.String() + " " + string(key) + ", of which " + used.String() + " are used"
		}
	}
	return ""
}
