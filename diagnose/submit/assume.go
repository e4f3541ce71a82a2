package submit

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

// assume adds to the facts of a fleet, where there is no cluster to look into, what pods refer to and nobody gave: it is
// taken to exist and to stand in nobody's way. It returns the objects, and a sentence about each.
func (c *checker) assume(f *facts.Facts) (objects []facts.Object, said []string) {
	seen := make(map[string]bool)
	add := func(o facts.Object, text string) {
		if !seen[text] {
			seen[text] = true
			o.SetUID(types.UID("assumed-" + text))
			objects, said = append(objects, o), append(said, text)
		}
	}
	for _, s := range c.subs {
		for i := range s.Parts {
			for _, p := range s.Parts[i].Pods {
				c.assumeFor(f, s, p, add)
			}
		}
	}
	return objects, said
}

func (c *checker) assumeFor(f *facts.Facts, s *submission, p *corev1.Pod, add func(facts.Object, string)) {
	if name := p.Spec.PriorityClassName; name != "" && name != "system-node-critical" && name != "system-cluster-critical" && place.Named(f.PriorityClasses, "", name) == nil {
		class := &schedulingv1.PriorityClass{}
		class.Name = name
		add(class, fmt.Sprintf("priority class %s exists, with value 0", name))
	}
	if name := p.Spec.RuntimeClassName; name != nil && place.Named(f.RuntimeClasses, "", *name) == nil {
		class := &nodev1.RuntimeClass{Handler: *name}
		class.Name = *name
		add(class, fmt.Sprintf("runtime class %s exists", *name))
	}
	if name := p.Spec.ServiceAccountName; name != "" && name != "default" && place.Named(f.ServiceAccounts, p.Namespace, name) == nil {
		account := &corev1.ServiceAccount{}
		account.Namespace, account.Name = p.Namespace, name
		add(account, fmt.Sprintf("service account %s exists in namespace %s", name, p.Namespace))
	}
	made := s.Claims()
	for i := range p.Spec.Volumes {
		v := p.Spec.Volumes[i].PersistentVolumeClaim
		if v == nil || place.Named(f.PersistentVolumeClaims, p.Namespace, v.ClaimName) != nil ||
			slices.ContainsFunc(made, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == v.ClaimName }) {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{}
		claim.Namespace, claim.Name = p.Namespace, v.ClaimName
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		claim.Spec.StorageClassName = new("zonal")
		claim.Status.Phase = corev1.ClaimPending
		add(claim, fmt.Sprintf("claim %s exists in namespace %s, and every node can use it", v.ClaimName, p.Namespace))
	}
	c.assumeQueue(f, s, p, add)
}

func (c *checker) assumeQueue(f *facts.Facts, s *submission, p *corev1.Pod, add func(facts.Object, string)) {
	const kind = v1alpha1.QueueKind + ".berth.dev"
	for _, o := range []facts.Object{p, s.Object} {
		name := o.GetAnnotations()[v1alpha1.KeyQueue]
		if name == "" {
			name = o.GetLabels()[v1alpha1.KeyQueue]
		}
		if name == "" || f.ForeignNamed(kind, "", name) != nil {
			continue
		}
		q := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.QueueKind, "metadata": map[string]any{"name": name}, "spec": map[string]any{}}}
		add(q, fmt.Sprintf("queue %s exists, and namespace %s may use it without limits", name, p.Namespace))
	}
}
