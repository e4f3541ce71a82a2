package convert

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

func asks(size string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}
}

// free is a volume of a zone that nobody has.
func free(name, class, zone, size string) *corev1.PersistentVolume {
	in := corev1.NodeSelectorRequirement{Key: "zone", Operator: "In", Values: []string{zone}}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{in}}}}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

// world is the storage of one test, by name.
type world struct {
	claims  map[string]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
}

func (w world) storage(nodes []*corev1.Node) Storage {
	return Storage{
		Claim:  func(namespace, name string) *corev1.PersistentVolumeClaim { return w.claims[namespace+"/"+name] },
		Volume: func(name string) *corev1.PersistentVolume { return w.volumes[name] },
		Class:  func(name string) *storagev1.StorageClass { return w.classes[name] },
		Free: func(class string, _ *corev1.Node) []*corev1.PersistentVolume {
			var out []*corev1.PersistentVolume
			for _, name := range slices.Sorted(maps.Keys(w.volumes)) {
				if pv := w.volumes[name]; pv.Spec.StorageClassName == class {
					out = append(out, pv)
				}
			}
			return out
		},
		HasNode: func(name string) bool {
			return slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.Name == name })
		},
	}
}

// storage has volumes in zone a, on a node with a disk, labelled for zones a and b, and anywhere.
func storage() world {
	w := world{map[string]*corev1.PersistentVolumeClaim{}, map[string]*corev1.PersistentVolume{}, map[string]*storagev1.StorageClass{
		"late":  {Provisioner: "maker.example", VolumeBindingMode: ptr(storagev1.VolumeBindingWaitForFirstConsumer)},
		"local": {Provisioner: volume.NotSupportedProvisioner, VolumeBindingMode: ptr(storagev1.VolumeBindingWaitForFirstConsumer)},
		"some": {Provisioner: "maker.example", VolumeBindingMode: ptr(storagev1.VolumeBindingWaitForFirstConsumer), AllowedTopologies: []corev1.TopologySelectorTerm{
			{}, {MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"a", "c"}}, {Key: "disk", Values: []string{""}}}},
		}},
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
	for name, zone := range map[string]string{"local-a": "a", "local-b": "b", "local-b2": "b"} {
		w.volumes[name] = free(name, "local", zone, "10Gi")
	}
	w.volumes["local-b2"].Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "another", UID: "x"}
	for _, c := range []*corev1.PersistentVolumeClaim{
		claim("in-a", "late", boundTo("pv-a")), claim("disk", "late", boundTo("pv-disk")), claim("nowhere", "late", boundTo("pv-none")),
		claim("any", "late", boundTo("pv-any")), claim("old", "late", boundTo("pv-old")),
		claim("waits", "late"), claim("soon", "soon"), claim("mute", "mute"), claim("classless", ""), claim("unknown", "gone"),
		claim("chosen", "late", func(c *corev1.PersistentVolumeClaim) { c.Annotations[volume.AnnSelectedNode] = "n2" }),
		claim("astray", "late", func(c *corev1.PersistentVolumeClaim) { c.Annotations[volume.AnnSelectedNode] = "gone" }),
		claim("disk-1", "local", asks("5Gi")), claim("disk-2", "local", asks("10Gi")), claim("large", "local", asks("11Gi")), claim("some", "some"),
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
		{[]string{"astray"}, result{}},
		{[]string{"disk-1"}, result{Names: []string{"n1", "n2", "n3"}, Constrained: true}},
		{[]string{"disk-1", "in-a"}, result{Names: []string{"n1", "n3"}, Constrained: true}},
		{[]string{"disk-1", "disk-2"}, result{Names: []string{}, Constrained: true}},
		{[]string{"disk-1", "disk-1"}, result{Names: []string{"n1", "n2", "n3"}, Constrained: true}},
		{[]string{"large"}, result{Names: []string{}, Constrained: true}},
		{[]string{"some"}, result{Names: []string{"n3"}, Constrained: true}},
		{[]string{"chosen", "in-a"}, result{Names: []string{}, Constrained: true}},
		{[]string{"gone", "in-a", "gone"}, result{Names: []string{"n1", "n3"}, Constrained: true, Missing: []string{"claim gone does not exist"}}},
		{[]string{"lost", "leaving"}, result{Missing: []string{"claim lost is lost", "claim leaving is being deleted"}}},
		{[]string{"soon", "mute", "classless", "unknown", "prebound"}, result{Missing: []string{
			"claim soon is not bound yet by its storage class soon, which waits for no pod",
			"claim mute is not bound yet by its storage class mute, which waits for no pod",
			"claim classless is not bound yet and names no storage class",
			"storage class gone of claim unknown does not exist",
			"claim prebound is not bound yet to volume pv-a, which it names",
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
		got.Names, got.Constrained, got.Missing = storage().storage(nodes).AllowedNodes(p, nodes)
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
		names, _, _ := w.storage(nil).AllowedNodes(p, []*corev1.Node{n})
		if want := volume.CheckNodeAffinity(pv, n.Labels) == nil; (len(names) == 1) != want {
			t.Fatalf("got %v, upstream %v", names, want)
		}
	})
}

// The smallest claim takes the smallest volume that will do; where nothing is free a volume is made, unless
// the claim is being served elsewhere.
func TestChoose(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}}
	w := world{volumes: map[string]*corev1.PersistentVolume{
		"a-far": free("a-far", "late", "b", "10Gi"), "b-huge": free("b-huge", "late", "a", "90Gi"), "c-big": free("c-big", "late", "a", "20Gi"), "d-small": free("d-small", "late", "a", "10Gi"),
	}, classes: storage().classes}
	pick := func(claims ...*corev1.PersistentVolumeClaim) (out []string) {
		choices, ok := w.storage([]*corev1.Node{n, {ObjectMeta: metav1.ObjectMeta{Name: "n2"}}}).Choose(claims, n)
		if !ok {
			return nil
		}
		for _, c := range choices {
			if c.Volume == nil {
				out = append(out, c.Claim.Name+" new")
				continue
			}
			out = append(out, c.Claim.Name+" "+c.Volume.Name)
		}
		return out
	}
	selected := func(node string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Annotations[volume.AnnSelectedNode] = node }
	}
	want := [][]string{
		{"y d-small", "x c-big", "z new"},
		{"x new"},
		nil,
	}
	got := [][]string{
		pick(claim("x", "late", asks("10Gi")), claim("y", "late", asks("5Gi")), claim("z", "late", asks("100Gi"))),
		pick(claim("x", "late", selected("n1"))),
		pick(claim("x", "late", selected("n2"))),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Near must give every volume that FindMatchingVolume would take on the node, and no other.
func TestNearAsUpstream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: drawNodeSelector(t)}}}
		if rapid.Bool().Draw(t, "none") {
			pv.Spec.NodeAffinity = nil
		}
		n := drawNode(t)
		near := Near([]*corev1.PersistentVolume{pv}, []*corev1.Node{n})[n.Name]
		if want := volume.CheckNodeAffinity(pv, n.Labels) == nil; (len(near) == 1) != want {
			t.Fatalf("got %d, upstream %v", len(near), want)
		}
	})
}

// A pod with a local disk on 5,000 nodes with a disk each.
func BenchmarkLocalDisks(b *testing.B) {
	var nodes []*corev1.Node
	var volumes []*corev1.PersistentVolume
	for i := range 5000 {
		name := fmt.Sprintf("n%d", i)
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": name}}})
		volumes = append(volumes, free(name, "local", name, "10Gi"))
	}
	s := world{claims: map[string]*corev1.PersistentVolumeClaim{"ns/c": claim("c", "local")}, classes: storage().classes}.storage(nodes)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	for b.Loop() {
		near := Near(volumes, nodes)
		s.Free = func(_ string, n *corev1.Node) []*corev1.PersistentVolume { return near[n.Name] }
		if names, _, _ := s.AllowedNodes(p, nodes); len(names) != 5000 {
			b.Fatal(len(names))
		}
	}
}
