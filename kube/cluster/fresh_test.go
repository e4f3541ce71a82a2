package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// happened is that an object came or changed, or that it is gone; without one, that the engine was asked.
type happened struct {
	metav1.Object
	gone bool
}

func (o happened) String() string {
	switch {
	case o.Object == nil:
		return "settled"
	case o.gone:
		return "gone " + o.GetName()
	}
	text, _ := json.Marshal(o.Object)
	return string(text)
}

// astray is the difference between what the engine knows that was told of all of this, and one that was told of what is left in the end, in
// the order.
func astray(all []happened, less func(a, b string) int) string {
	w, there := newWatched(), make(map[string]metav1.Object)
	for _, o := range all {
		if o.Object == nil {
			w.knows()
			continue
		}
		key := fmt.Sprintf("%T %s", o.Object, o.GetName())
		if o.gone {
			w.Remove(o.Object)
			delete(there, key)
		} else {
			w.Set(o.Object)
			there[key] = o.Object
		}
	}
	fresh := newWatched()
	for _, key := range slices.SortedFunc(maps.Keys(there), less) {
		fresh.set(there[key])
	}
	return cmp.Diff(fresh.knows(), w.knows())
}

// least leaves out of what happened what makes no difference to there being one.
func least(all []happened, less func(a, b string) int) []happened {
	for some := true; some; {
		some = false
		for i := 0; i < len(all); i++ {
			if fewer := slices.Delete(slices.Clone(all), i, i+1); astray(fewer, less) != "" {
				all, some = fewer, true
				i--
			}
		}
	}
	return all
}

// happening draws objects that come and change.
type happening struct {
	*rapid.T
	version int
	there   map[string]metav1.Object // by kind and name
}

func (h *happening) some(label string, most int) int { return rapid.IntRange(0, most).Draw(h.T, label) }

func (h *happening) meta(namespace, kind string, most int) metav1.ObjectMeta {
	name := fmt.Sprint(kind, h.some(kind, most))
	h.version++
	m := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(fmt.Sprint(name, "-", h.version)), ResourceVersion: fmt.Sprint(h.version), CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}
	if was := h.there[kind+"/"+name]; was != nil && h.some("anew", 4) > 0 {
		m.UID = was.GetUID()
	}
	return m
}

// next is a new object, or another version of one that is there, and its kind.
func (h *happening) next() (string, metav1.Object) {
	switch kind := rapid.SampledFrom([]string{"pod", "pod", "pod", "pod", "node", "set", "service", "budget", "space", "volume", "bound", "class", "driver", "cards", "slice", "slice", "claim", "claim"}).Draw(h.T, "kind"); kind {
	case "node":
		m := h.meta("", kind, 2)
		n := node(m.Name, fmt.Sprint("r", h.some("rack", 1)), int64(h.some("gpus", 2)))
		m.Labels = n.Labels
		n.ObjectMeta = m
		n.Spec.Unschedulable = h.some("cordoned", 4) == 0
		return kind, n
	case "set":
		m := h.meta("default", kind, 1)
		return kind, &appsv1.ReplicaSet{ObjectMeta: m, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(h.some("replicas", 2))), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": m.Name}}}}
	case "service":
		return kind, &corev1.Service{ObjectMeta: h.meta("default", kind, 1), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": fmt.Sprint("set", h.some("selects", 1))}}}
	case "budget":
		b := &policyv1.PodDisruptionBudget{ObjectMeta: h.meta("default", kind, 1), Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("set", h.some("selects", 1))}}}}
		b.Status.DisruptionsAllowed = int32(h.some("allowed", 2))
		return kind, b
	case "space":
		m := h.meta("", kind, 1)
		m.Name = []string{"default", "other"}[h.some("namespace", 1)]
		m.Labels = map[string]string{"team": fmt.Sprint("t", h.some("team", 1))}
		return kind, &corev1.Namespace{ObjectMeta: m}
	case "volume":
		c := openClaim("x")
		c.ObjectMeta = h.meta("default", kind, 1)
		if h.some("bound", 1) == 0 {
			c.Spec.VolumeName, c.Status.Phase = strings.Replace(c.Name, "volume", "bound", 1), corev1.ClaimBound
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
		}
		if h.some("one pod", 2) == 0 {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}
		return kind, c
	case "bound":
		v := &corev1.PersistentVolume{ObjectMeta: h.meta("", kind, 1), Spec: corev1.PersistentVolumeSpec{StorageClassName: lateClass().Name}}
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: strings.Replace(v.Name, "bound", "volume", 1)}
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: ebs}
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "rack", Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprint("r", h.some("rack", 1))}},
		}}}}}
		return kind, v
	case "class":
		c := lateClass()
		m := h.meta("", kind, 0)
		m.Name = c.Name
		c.ObjectMeta = m
		return kind, c
	case "driver":
		m := h.meta("", kind, 2)
		c := limitOf(fmt.Sprint("node", h.some("on", 2)), int32(1+h.some("limit", 1)))
		m.Name = c.Name
		c.ObjectMeta = m
		return kind, c
	case "cards":
		c := cardClass()
		m := h.meta("", kind, 0)
		m.Name = c.Name
		c.ObjectMeta = m
		if h.some("extended", 2) == 0 {
			c.Spec.ExtendedResourceName = new("example.com/card")
		}
		return kind, c
	case "slice":
		m := h.meta("", kind, 2)
		s := cardsOn(fmt.Sprint("node", h.some("on", 2)), []string{"a", "b", "c"}[:1+h.some("devices", 2)]...)
		s.ObjectMeta = m
		s.Spec.Pool.Name = m.Name
		if h.some("everywhere", 5) == 0 {
			s.Spec.NodeName, s.Spec.AllNodes = nil, new(true)
		}
		return kind, s
	case "claim":
		c := (&claimed{}).claim("x", "", "")
		c.ObjectMeta = h.meta("default", kind, 2)
		if h.some("allocated", 1) == 0 {
			c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
				{Request: "r", Driver: refereeDriver, Pool: fmt.Sprint("slice", h.some("pool", 2)), Device: []string{"a", "b"}[h.some("device", 1)]},
			}}}
		}
		return kind, c
	}
	m := h.meta("default", "pod", 4)
	was, _ := h.there["pod/"+m.Name].(*corev1.Pod)
	if was == nil || was.UID != m.UID {
		return "pod", h.pod(m)
	}
	p := was.DeepCopy()
	p.ResourceVersion = m.ResourceVersion
	switch h.some("change", 6) {
	case 0, 1:
		if p.Spec.NodeName == "" {
			p.Spec.NodeName = fmt.Sprint("node", h.some("on", 2))
		}
	case 2:
		p.OwnerReferences = h.controlled()
	case 3:
		p.Labels = map[string]string{"app": fmt.Sprint("set", h.some("app", 2))}
	case 4:
		p.DeletionTimestamp = &metav1.Time{Time: noon}
	case 5:
		p.Status.Phase = corev1.PodSucceeded
	case 6:
		p.Status.ResourceClaimStatuses = h.claims(p)
	}
	return "pod", p
}

func (h *happening) claims(p *corev1.Pod) (out []corev1.PodResourceClaimStatus) {
	for i, c := range p.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName != nil {
			out = append(out, corev1.PodResourceClaimStatus{Name: c.Name, ResourceClaimName: new(fmt.Sprint("claim", i))})
		}
	}
	return out
}

func (h *happening) controlled() []metav1.OwnerReference {
	name := fmt.Sprint("set", h.some("controller", 2))
	set := h.there["set/"+name]
	if set == nil {
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: set.GetUID(), Controller: new(true)}}
}

func (h *happening) pod(m metav1.ObjectMeta) *corev1.Pod {
	p := pod(m.Name, int64(h.some("asks", 1)))
	p.ObjectMeta = m
	p.Labels = map[string]string{"app": fmt.Sprint("set", h.some("app", 2))}
	p.OwnerReferences = h.controlled()
	if h.some("foreign", 3) == 0 {
		p.Spec.SchedulerName = corev1.DefaultSchedulerName
	}
	switch h.some("wants", 5) {
	case 0:
		p.Spec.Volumes = with("x", "", fmt.Sprint("volume", h.some("volume", 1))).Spec.Volumes
	case 1:
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c0", ResourceClaimName: new(fmt.Sprint("claim", h.some("claims", 2)))}}
	case 2:
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c0", ResourceClaimTemplateName: new("t")}}
	case 3:
		asks := corev1.ResourceList{"example.com/card": resource.MustParse("1")}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: asks, Limits: asks}
	case 4:
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "set0"}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: labels.Set{"team": fmt.Sprint("t", h.some("of", 1))}},
		}}}}
	}
	return p
}

// Whatever came before, the engine knows what it would know if the objects that there are now were read for the first time: nothing that
// follows from several objects is left as one of them was. An object that went while the watch was cut is gone as it was last seen. What pods
// that wait are charged is left out: it follows the devices that nodes offer only when the pod is looked at.
func TestChangesComeToWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &happening{T: t, there: make(map[string]metav1.Object)}
		var all []happened
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			keys := sortedNames(h.there)
			if len(keys) > 0 && h.some("gone", 3) == 0 {
				key := rapid.SampledFrom(keys).Draw(t, "which")
				all = append(all, happened{h.there[key], true})
				delete(h.there, key)
			} else {
				kind, o := h.next()
				key := kind + "/" + o.GetName()
				if was := h.there[key]; was != nil && was.GetUID() != o.GetUID() && (kind != "pod" || h.some("seen to go", 1) == 0) {
					all = append(all, happened{was, true})
				}
				h.there[key] = o
				all = append(all, happened{o, false})
			}
			if h.some("settles", 1) == 0 {
				all = append(all, happened{})
			}
		}
		less := strings.Compare
		if h.some("backwards", 1) == 0 {
			less = func(a, b string) int { return strings.Compare(b, a) }
		}
		if astray(all, less) != "" {
			all = least(all, less)
			t.Fatalf("%v\n(-fresh +after changes):\n%s", all, astray(all, less))
		}
	})
}
