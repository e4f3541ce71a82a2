package cluster

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/kube/convert"
)

// templates are the ResourceClaimTemplates, of which pods get claims of their own. A controller makes these claims once a pod is there; a
// suspended Job has no pods, so what its pods will claim is read off the templates.
type templates struct {
	all  map[string]*resourcev1.ResourceClaimTemplate // by namespace and name
	jobs map[string]map[types.UID]bool                // by template: Jobs whose expected pods have claims of it, or would
}

func newTemplates() *templates {
	return &templates{all: make(map[string]*resourcev1.ResourceClaimTemplate), jobs: make(map[string]map[types.UID]bool)}
}

// setClaimTemplate takes in a template of resource claims.
func (f *Feed) setClaimTemplate(t *resourcev1.ResourceClaimTemplate) {
	f.templates.all[keyOf(t)] = t
	f.templateMoved(keyOf(t))
}

// removeClaimTemplate takes it away.
func (f *Feed) removeClaimTemplate(t *resourcev1.ResourceClaimTemplate) {
	delete(f.templates.all, keyOf(t))
	f.templateMoved(keyOf(t))
}

// templateMoved has the Jobs whose pods will have claims of the template looked at.
func (f *Feed) templateMoved(key string) {
	for uid := range f.templates.jobs[key] { //archtest:any-order it fills a set
		if f.expected.jobs[uid] == nil {
			cut(f.templates.jobs, key, uid)
			continue
		}
		f.expected.look[uid] = true
	}
	f.out.wake()
}

// claimsToCome gives the pod, which its Job has not made yet, the claims that it will have: those that it names itself, and of each
// template one that stands for the claim that somebody will make. It has the pod's mark in its name, and is in no API.
func (f *Feed) claimsToCome(j *batchv1.Job, p *corev1.Pod) {
	if !f.devices.Decides() || len(p.Spec.ResourceClaims) > convert.MaxResourceClaims {
		p.Spec.ResourceClaims = nil // claims are not decided about here
		return
	}
	p.Spec.ResourceClaims = slices.Clone(p.Spec.ResourceClaims)
	for _, c := range p.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName == nil {
			continue
		}
		key := p.Namespace + "/" + *c.ResourceClaimTemplateName
		insert(f.templates.jobs, key, j.UID, true)
		t, name := f.templates.all[key], p.Name+"-"+c.Name
		if t == nil { // absentTemplates says so
			if at := p.Namespace + "/" + name; f.devices.claims[at] != nil {
				f.devices.setClaim(at, nil)
			}
			continue
		}
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name, UID: p.UID + "-" + types.UID(c.Name)}, Spec: t.Spec.Spec}
		f.devices.setClaim(keyOf(claim), claim)
		p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: c.Name, ResourceClaimName: &name})
	}
}

// dropClaims drops what stood for claims of an expected pod that is gone.
func (d *devices) dropClaims(p *corev1.Pod) {
	claims, _ := convert.ResourceClaims(p)
	for _, c := range claims {
		if ExpectedKey(c.Key) {
			d.setClaim(c.Key, nil)
		}
	}
}

// absentTemplates are the templates that an expected pod would have claims of and that are not there, each as a sentence.
func absentTemplates(p *corev1.Pod) (missing []string) {
	for _, c := range p.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName != nil && !slices.ContainsFunc(p.Status.ResourceClaimStatuses, func(s corev1.PodResourceClaimStatus) bool { return s.Name == c.Name }) {
			missing = append(missing, fmt.Sprintf("resource claim template %s does not exist", *c.ResourceClaimTemplateName))
		}
	}
	return missing
}
