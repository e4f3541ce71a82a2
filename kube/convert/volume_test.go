package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"pgregory.net/rapid"
)

// claim is one with a storage class; edits come in order.
func claim(name, class string, edits ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{}},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
	}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func boundTo(pv string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = pv
		c.Annotations[volume.AnnBindCompleted] = "yes"
	}
}

// world is the storage of one test, by name.
type world struct {
	claims  map[string]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
}

func (w world) allowed(p *corev1.Pod, nodes []*corev1.Node) ([]string, bool, []string) {
	return AllowedNodes(p,
		func(namespace, name string) *corev1.PersistentVolumeClaim { return w.claims[namespace+"/"+name] },
		func(name string) *corev1.PersistentVolume { return w.volumes[name] },
		func(name string) *storagev1.StorageClass { return w.classes[name] },
		nodes)
}

// storage has volumes in zone a, on a node with a disk, labelled for zones a and b, and anywhere.
func storage() world {
	w := world{map[string]*corev1.PersistentVolumeClaim{}, map[string]*corev1.PersistentVolume{}, map[string]*storagev1.StorageClass{
		"late": {VolumeBindingMode: ptr(storagev1.VolumeBindingWaitForFirstConsumer)},
		"soon": {VolumeBindingMode: ptr(storagev1.VolumeBindingImmediate)},
		"mute": {},
	}}
	for name, selector := range map[string]*corev1.NodeSelector{
		"pv-a":    {NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "In", Values: []string{"a"}}}}}},
		"pv-disk": {NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: "Exists"}}}}},
		"pv-none": {},
	} {
		w.volumes[name] = &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: selector}}}
	}
	w.volumes["pv-any"] = &corev1.PersistentVolume{}
	w.volumes["pv-old"] = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		corev1.LabelFailureDomainBetaZone: "a__b", corev1.LabelTopologyRegion: "__",
	}}}
	for _, c := range []*corev1.PersistentVolumeClaim{
		claim("in-a", "late", boundTo("pv-a")), claim("disk", "late", boundTo("pv-disk")), claim("nowhere", "late", boundTo("pv-none")),
		claim("any", "late", boundTo("pv-any")), claim("old", "late", boundTo("pv-old")),
		claim("waits", "late"), claim("soon", "soon"), claim("mute", "mute"), claim("classless", ""), claim("unknown", "gone"),
		claim("chosen", "late", func(c *corev1.PersistentVolumeClaim) { c.Annotations[volume.AnnSelectedNode] = "n2" }),
		claim("prebound", "late", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv-a" }),
		claim("lost", "late", boundTo("pv-a"), func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }),
		claim("leaving", "late", func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }),
		claim("void", "late", boundTo("pv-gone")),
		claim("p-scratch", "late", func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{UID: "u", Controller: ptr(true)}}
		}),
		claim("p-stolen", "late"),
	} {
		w.claims["ns/"+c.Name] = c
	}
	return w
}

func TestAllowedNodes(t *testing.T) {
	nodes := []*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "n3", Labels: map[string]string{"zone": "a", "disk": "", corev1.LabelTopologyZone: "b"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a", corev1.LabelTopologyZone: "c"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "n2", Labels: map[string]string{"zone": "b", "disk": ""}}},
	}
	type result struct {
		Names       []string
		Constrained bool
		Missing     []string
	}
	for _, c := range []struct {
		claims []string // one that begins with "+" is an inline volume of the pod
		want   result
	}{
		{nil, result{}},
		{[]string{"any", "waits", "+scratch"}, result{}},
		{[]string{"in-a"}, result{Names: []string{"n1", "n3"}, Constrained: true}},
		{[]string{"in-a", "disk"}, result{Names: []string{"n3"}, Constrained: true}},
		{[]string{"nowhere"}, result{Names: []string{}, Constrained: true}},
		{[]string{"old"}, result{Names: []string{"n2", "n3"}, Constrained: true}},
		{[]string{"chosen"}, result{Names: []string{"n2"}, Constrained: true}},
		{[]string{"chosen", "in-a"}, result{Names: []string{}, Constrained: true}},
		{[]string{"gone", "in-a", "gone"}, result{Names: []string{"n1", "n3"}, Constrained: true, Missing: []string{"claim gone does not exist"}}},
		{[]string{"lost", "leaving"}, result{Missing: []string{"claim lost is lost", "claim leaving is being deleted"}}},
		{[]string{"soon", "mute", "classless", "unknown", "prebound"}, result{Missing: []string{
			"claim soon is not bound", "claim mute is not bound", "claim classless is not bound", "claim unknown is not bound", "claim prebound is not bound",
		}}},
		{[]string{"void"}, result{Missing: []string{"volume pv-gone of claim void does not exist"}}},
		{[]string{"+stolen", "+later"}, result{Missing: []string{"claim p-stolen was not made for this pod", "claim p-later does not exist"}}},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		for _, name := range c.claims {
			v := corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
			if name[0] == '+' {
				v = corev1.Volume{Name: name[1:], VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}
			}
			p.Spec.Volumes = append(p.Spec.Volumes, v)
		}
		var got result
		got.Names, got.Constrained, got.Missing = storage().allowed(p, nodes)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.claims, diff)
		}
	}
}

// TestAffinityOfVolumesAsUpstream compares with the helper that defines it.
func TestAffinityOfVolumesAsUpstream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: drawNodeSelector(t)},
		}}
		n := drawNode(t)
		w := world{
			claims:  map[string]*corev1.PersistentVolumeClaim{"ns/c": claim("c", "", boundTo("pv"))},
			volumes: map[string]*corev1.PersistentVolume{"pv": pv},
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		names, _, _ := w.allowed(p, []*corev1.Node{n})
		if want := volume.CheckNodeAffinity(pv, n.Labels) == nil; (len(names) == 1) != want {
			t.Fatalf("got %v, upstream %v", names, want)
		}
	})
}
