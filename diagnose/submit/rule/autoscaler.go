package rule

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/diagnose/facts"
)

var noTarget = Rule{
	Code: "B117", Name: "autoscaler-without-target",
	Title: "An autoscaler of something that does not exist",
	Why:   "The API server takes an autoscaler whatever it names. It then scales nothing, and says so only in its own conditions.",
	of:    findNoTarget,
}

var beyondRoom = Rule{
	Code: "B118", Name: "autoscaler-beyond-room",
	Title: "An autoscaler that may ask for more pods than fit",
	Why:   "Under load the autoscaler goes up to its maximum. Pods beyond what the cluster has room for wait, and the load with them.",
	of:    findBeyondRoom,
}

// scaler is a HorizontalPodAutoscaler, or a ScaledObject of KEDA, which makes one.
type scaler struct {
	namespace, kind, name string
	group                 string
	most                  int64
	mostAt                string
}

func scalerOf(w *World, object map[string]any) *scaler {
	u := &unstructured.Unstructured{Object: object}
	s := scaler{namespace: cmp.Or(u.GetNamespace(), w.Namespace), mostAt: "/spec/maxReplicas"}
	switch gvk := u.GroupVersionKind(); {
	case gvk.Group == "autoscaling" && gvk.Kind == "HorizontalPodAutoscaler":
	case gvk.Group == "keda.sh" && gvk.Kind == "ScaledObject":
		s.mostAt = "/spec/maxReplicaCount"
	default:
		return nil
	}
	s.kind, _, _ = unstructured.NestedString(object, "spec", "scaleTargetRef", "kind")
	s.name, _, _ = unstructured.NestedString(object, "spec", "scaleTargetRef", "name")
	version, _, _ := unstructured.NestedString(object, "spec", "scaleTargetRef", "apiVersion")
	if s.kind == "" {
		s.kind, version = "Deployment", "apps/v1" // KEDA's default
	}
	gv, err := schema.ParseGroupVersion(version)
	if err != nil || s.name == "" {
		return nil
	}
	s.group = gv.Group
	switch n := written(object, s.mostAt).(type) {
	case int64:
		s.most = n
	case float64:
		s.most = int64(n)
	}
	return &s
}

// target is what is scaled; nil: it does not exist. known is false where that was not read.
func (s *scaler) target(w *World) (target facts.Object, known bool) {
	k := facts.KindOf(s.group, s.kind)
	if k == nil {
		return nil, false
	}
	for _, o := range k.List(&w.Objects) {
		if o.GetNamespace() == s.namespace && o.GetName() == s.name {
			return o, true
		}
	}
	return nil, !w.Bare && w.Sees(k.Name(), s.namespace)
}

func findNoTarget(w *World, object map[string]any) []Finding {
	s := scalerOf(w, object)
	if s == nil {
		return nil
	}
	if target, known := s.target(w); target != nil || !known {
		return nil
	}
	return []Finding{{Path: "/spec/scaleTargetRef/name", Message: fmt.Sprintf("there is no %s %s in namespace %s: the autoscaler scales nothing", s.kind, s.name, s.namespace), Advice: "Name what is to be scaled as it is called, in the same namespace."}}
}

func findBeyondRoom(w *World, object map[string]any) []Finding {
	s := scalerOf(w, object)
	if s == nil || s.most < 1 || w.Fits == nil {
		return nil
	}
	target, _ := s.target(w)
	if target == nil {
		return nil
	}
	fits, ok := w.Fits(target, s.most)
	if !ok || int64(fits) >= s.most {
		return nil
	}
	return []Finding{{Path: s.mostAt, Message: fmt.Sprintf("%d pods of %s are asked for at most, and %d fit at once, even if nothing else ran", s.most, facts.RefTo(target), fits), Advice: fmt.Sprintf("Set it to %d or less, or have nodes added.", fits)}}
}
