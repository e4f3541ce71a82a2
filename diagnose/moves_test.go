package diagnose_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// A pod is not proposed to be moved to where its own rules, or those of pods there, do not let it be. Without the rule the
// same move is proposed.
func TestMovesKeepRules(t *testing.T) {
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "busy"}}
	term := func(key string, s *metav1.LabelSelector) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: s}}
	}
	rules := map[string]func(f *facts.Facts, p *corev1.Pod){
		"none": func(*facts.Facts, *corev1.Pod) {},
		"anti-affinity": func(_ *facts.Facts, p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(corev1.LabelHostname, own)}}
		},
		"affinity": func(f *facts.Facts, p *corev1.Pod) {
			mate := p.DeepCopy()
			mate.Name, mate.UID, mate.Labels = "mate-"+p.Name, "mate-"+p.UID, map[string]string{"mate": p.Name}
			mate.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
			mate.OwnerReferences = nil
			f.Pods = append(f.Pods, mate)
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(corev1.LabelHostname, &metav1.LabelSelector{MatchLabels: map[string]string{"mate": p.Name}})}}
		},
		"spread": func(_ *facts.Facts, p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own}}
		},
		"selector": func(_ *facts.Facts, p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: p.Spec.NodeName}
		},
		"taint": func(f *facts.Facts, p *corev1.Pod) {
			for _, n := range f.Nodes {
				key := "for-" + n.Name
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
				for _, q := range f.Pods {
					if q.Spec.NodeName == n.Name || q.Spec.NodeName == "" {
						q.Spec.Tolerations = append(q.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
					}
				}
			}
		},
		"volume": func(f *facts.Facts, p *corev1.Pod) {
			name := "data-" + p.Name
			f.PersistentVolumeClaims = append(f.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
				Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: name}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
			})
			f.PersistentVolumes = append(f.PersistentVolumes, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{p.Spec.NodeName}}}}}},
			}}})
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
		},
		"port": func(_ *facts.Facts, p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
		},
		"gang": func(_ *facts.Facts, p *corev1.Pod) {
			p.Annotations = map[string]string{"berth.dev/gang": "ring"}
		},
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			for i := range uint64(5) {
				c := loadCase(t, "fragmented/pod.yaml", fixedSeed()+i)
				var small []*corev1.Pod
				for _, p := range c.facts.Pods {
					if p.Spec.NodeName != "" {
						p.Labels = map[string]string{"app": "busy"}
						small = append(small, p)
					}
				}
				for i, p := range small {
					if name != "taint" || i == 0 {
						rule(c.facts, p)
					}
				}
				var edits []string
				for _, f := range c.diagnose(t).Fixes {
					edits = append(edits, f.Edit)
				}
				if moved := strings.Contains(strings.Join(edits, "\n"), "move pod"); moved != (name == "none") {
					t.Fatalf("seed %d: fixes %s", fixedSeed()+i, fmt.Sprintf("%q", edits))
				}
			}
		})
	}
}
