package cluster

import (
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// nextClaims is what the pod that comes after one which runs will ask for through claims, nil where that is not known. Work is moved only where
// its next pod has a place, so a pod that has devices stays where it is while this is nil.
//
// Each claim of the pod must be its own: made of a template, or for its extended resources. A claim that has a name, or other pods, keeps its
// devices while it is in use, and the next pod may come before that has ended: it would go where its devices are, and the move be in vain.
func (f *Feed) nextClaims(m *member, v *engine.Pod, claims []convert.PodClaim) *engine.Claims {
	d := f.devices
	if !m.pays() || !m.bound() || Expected(m.pod) || !v.Evictable || v.Owner == "" || len(v.Devices) == 0 {
		return nil // it is not moved
	}
	class := func(name string) *resourcev1.DeviceClass { return d.classes[name] }
	var asked convert.Asked
	counts := v.Part != nil || v.Requests.Get(d.gpu) > 0
	for _, named := range claims {
		c := d.claims[named.Key]
		if c == nil || !metav1.IsControlledBy(c, m.pod) || len(d.users[named.Key]) > 1 {
			return nil
		}
		if named.Name != "" {
			asked.Add(named.Name, c, class)
			continue
		}
		stands, _ := convert.ExtendedClaim(m.pod, f.classOf)
		if stands == nil {
			return nil // its class does not have the resource any more
		}
		asked.Claims.Counted = len(asked.Claims.Requests) == 0
		asked.Add("resources", stands, class)
		counts = counts && (v.Part != nil || f.classOf(d.gpu) == nil)
	}
	asked.Claims.GPUsByCount = counts
	if len(asked.Claims.Requests) == 0 || len(asked.Missing) > 0 {
		return nil
	}
	if d.Undecided(&asked) != "" {
		d.undone[m.key] = true
		return nil
	}
	if !d.MayLearn(&asked) {
		return nil
	}
	d.Learn(&asked)
	return &asked.Claims
}
