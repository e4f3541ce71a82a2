package cluster

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// Claims that several pods share. Devices are of one node, and a claim has them once: the pods that have it are on one node. While a
// claim has no devices, one pod asks for them on behalf of all: of a gang its first member, and of other pods the oldest, for which
// the rest wait.

// firstOf is the pod that asks for the devices of a claim that has none yet; shared says that it is of the same gang as this one, and
// that the gang has more than one pod with the claim.
func (d *devices) firstOf(m *member, claim string) (first *member, shared bool) {
	first = m
	//archtest:any-order the first is looked for
	for _, o := range d.users[claim] {
		if o == m || !o.waiting() || !sameGang(o, m) {
			continue
		}
		shared = true
		if compareMembers(o, first) < 0 {
			first = o
		}
	}
	if shared {
		return first, true
	}
	//archtest:any-order the first by age and name is looked for
	for _, o := range d.users[claim] {
		if o.waiting() && (o.pod.CreationTimestamp.Before(&first.pod.CreationTimestamp) ||
			o.pod.CreationTimestamp.Equal(&first.pod.CreationTimestamp) && o.key < first.key) {
			first = o
		}
	}
	return first, false
}

// sameGang says whether both pods are of one gang.
func sameGang(a, b *member) bool { return a.inGang() && b.inGang() && a.workload == b.workload }

// compareMembers orders the members of a gang as the engine does: those that it cannot do without come first.
func compareMembers(a, b *member) int {
	return cmp.Or(cmp.Compare(convert.Rank(a.pod), convert.Rank(b.pod)), cmp.Compare(a.key, b.key))
}

// maxLabelKey is how long a label's key is that stands for a claim: enough that no two claims have the same.
const maxLabelKey = 48

// keepTogether has the pod placed on the node of the other members of its gang that have the same claims.
func keepTogether(v *engine.Pod, claims []string) {
	if len(claims) == 0 {
		return
	}
	rules := engine.PodRules{}
	if v.PodRules != nil {
		rules = *v.PodRules
		rules.PodAffinity = slices.Clone(rules.PodAffinity)
	}
	v.Labels = maps.Clone(v.Labels)
	if v.Labels == nil {
		v.Labels = make(map[string]string)
	}
	for _, key := range claims {
		namespace, _, _ := strings.Cut(key, "/")
		label := fmt.Sprintf("%sclaim-%x", v1alpha1.KeyPrefix, sha256.Sum256([]byte(key)))[:maxLabelKey]
		v.Labels[label] = "shared"
		rules.PodAffinity = append(rules.PodAffinity, engine.PodTerm{
			Topology: corev1.LabelHostname, Namespaces: []string{namespace}, Labels: []engine.Requirement{{Key: label, Op: engine.Exists}},
		})
	}
	v.PodRules = &rules
}

// ClaimsInCommon is how many claims two or more pods of the gang wait with, if no rule between pods of their own ties them.
func (f *Feed) ClaimsInCommon(workload string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	users := make(map[string]int)
	//archtest:any-order they are counted
	for _, m := range f.members.gangs[workload] {
		if a := m.pod.Spec.Affinity; len(m.pod.Spec.TopologySpreadConstraints) > 0 || a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
			return 0
		}
		claims, _ := f.devices.claimsOf(m)
		for _, c := range claims {
			if users[c.Key]++; users[c.Key] == 2 {
				n++
			}
		}
	}
	return n
}

// consumers are, by claim, what the pod's claims are reserved for: the pod, or its PodGroup where that has the same claim.
func (f *Feed) consumers(m *member) map[types.UID]resourcev1.ResourceClaimConsumerReference {
	group := f.gangs.groups[convert.PodGroupOf(m.pod)]
	out := make(map[types.UID]resourcev1.ResourceClaimConsumerReference)
	claims, _ := convert.ResourceClaims(m.pod)
	for _, named := range claims {
		c := f.devices.claims[named.Key]
		i := slices.IndexFunc(m.pod.Spec.ResourceClaims, func(r corev1.PodResourceClaim) bool { return r.Name == named.Name })
		if c == nil || i < 0 {
			continue
		}
		if by, err := resourceclaim.BindTo(m.pod, group, &m.pod.Spec.ResourceClaims[i]); err == nil {
			out[c.UID] = by
		}
	}
	return out
}

// reservedForGroup says whether the claim is reserved for the PodGroup that the pod names.
func reservedForGroup(m *member, c *resourcev1.ResourceClaim) bool {
	return resourceclaim.IsReservedForPod(m.pod, c, true) && !resourceclaim.IsReservedForPod(m.pod, c, false)
}

// groupUID is that of the PodGroup of the pod's gang, "" for none.
func (f *Feed) groupUID(m *member) string {
	if g := f.gangs.groups[convert.PodGroupOf(m.pod)]; g != nil {
		return string(g.UID)
	}
	return ""
}

// ClaimInUse says whether a pod on a node has the claim.
func (f *Feed) ClaimInUse(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.devices.inUse(key)
}
