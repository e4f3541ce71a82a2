package volumes

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

const driver = "disk.example"

// testNodes are nodes by name, each in a zone of its own name.
type testNodes map[string]*corev1.Node

func (n testNodes) Node(name string) *corev1.Node { return n[name] }
func (n testNodes) All() []*corev1.Node           { return slices.Collect(maps.Values(n)) }

var nodeNames, claimNames, podNames = []string{"n0", "n1", "n2"}, []string{"a", "b"}, []string{"p0", "p1", "p2"}

func newNodes() testNodes {
	out := make(testNodes)
	for _, name := range nodeNames {
		out[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": name}}}
	}
	return out
}

// testClaim is one of the class "disk"; without a volume it is open.
func testClaim(name, volume string, one bool) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	c.Spec.StorageClassName, c.Spec.VolumeName = new("disk"), volume
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	if one {
		c.Spec.AccessModes[0] = corev1.ReadWriteOncePod
	}
	c.Status.Phase = corev1.ClaimPending
	if volume != "" {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
		c.Status.Phase = corev1.ClaimBound
	}
	return c
}

// testVolume is one that the node's zone reaches, for the claim or for whoever takes it.
func testVolume(name, node, claim string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.StorageClassName, v.Spec.AccessModes = "disk", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany, corev1.ReadWriteOncePod}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver}
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
	v.Status.Phase = corev1.VolumeAvailable
	if claim != "" {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: claim, UID: types.UID(claim)}
		v.Status.Phase = corev1.VolumeBound
	}
	return v
}

func testClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)}
}

func testPod(name, node string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	for _, c := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: c, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c}}})
	}
	return p
}

func testDriver(node string, limit *int32) *storagev1.CSINode {
	d := storagev1.CSINodeDriver{Name: driver}
	if limit != nil {
		d.Allocatable = &storagev1.VolumeNodeResources{Count: limit}
	}
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{d}}}
}

func empty(nodes testNodes) *Volumes {
	return New(Options{Nodes: nodes, Evictable: func(string) bool { return true }, Wake: func() {}})
}

// answers is what is said of each pod, as text.
func answers(s *Volumes, pods map[string]*corev1.Pod) map[string]string {
	out := make(map[string]string)
	reading := s.Read()
	for key, p := range pods {
		if p.Spec.NodeName != "" {
			out[key] = fmt.Sprint(s.Takes(key, p), s.Held(key, p))
			continue
		}
		a := reading.Allow(key, p)
		out[key] = fmt.Sprintf("%v %t %v %v", a.Nodes, a.Nodes == nil, a.Missing, a.Ports)
	}
	return out
}

// What is said of pods follows from the objects that there are, whatever came and went, and each pod of which something else is said than
// before is among those that are to be looked at. Each claim has a volume of its own here, which may be free, be there before the claim knows of
// it, or name another claim.
func TestVolumesFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := newNodes()
		is := empty(nodes)
		claims, pods := make(map[string]*corev1.PersistentVolumeClaim), make(map[string]*corev1.Pod)
		stored, classes, drivers := make(map[string]*corev1.PersistentVolume), make(map[string]*storagev1.StorageClass), make(map[string]*storagev1.CSINode)
		one := map[string]bool{"a": rapid.Bool().Draw(t, "a is for one pod"), "b": false}
		before := make(map[string]string)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			node, claim := rapid.SampledFrom(nodeNames).Draw(t, "node"), rapid.SampledFrom(claimNames).Draw(t, "claim")
			pod, volume := "default/"+rapid.SampledFrom(podNames).Draw(t, "pod"), "v-"+claim
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1:
				c := testClaim(claim, rapid.SampledFrom([]string{volume, ""}).Draw(t, "bound to"), one[claim])
				claims["default/"+claim] = c
				is.SetClaim("default/"+claim, c)
			case 2:
				delete(claims, "default/"+claim)
				is.SetClaim("default/"+claim, nil)
			case 3, 4:
				stored[volume] = testVolume(volume, node, rapid.SampledFrom([]string{claim, claim, "", "a"}).Draw(t, "of"))
				is.SetVolume(stored[volume])
			case 5:
				if v := stored[volume]; v != nil {
					delete(stored, volume)
					is.RemoveVolume(v)
				}
			case 6:
				if classes["disk"] == nil {
					classes["disk"] = testClass()
				} else {
					delete(classes, "disk")
				}
				is.SetClass("disk", classes["disk"])
			case 7:
				switch n := testDriver(node, nil); rapid.IntRange(0, 2).Draw(t, "limit") {
				case 0:
					delete(drivers, node)
				case 1:
					n = testDriver(node, new(int32(5)))
					fallthrough
				default:
					drivers[node] = n
				}
				is.SetCSINode(node, drivers[node])
			default:
				if p := pods[pod]; p != nil && p.Spec.NodeName != "" {
					delete(pods, pod)
					is.Leave(pod, p)
					break
				} else if p != nil {
					pods[pod] = p.DeepCopy()
					pods[pod].Spec.NodeName = node
				} else {
					pods[pod] = testPod(pod[len("default/"):], "", claimNames[:rapid.IntRange(1, 2).Draw(t, "claims")]...)
				}
				delete(before, pod)
				is.Join(pod, pods[pod], pods[pod].Spec.NodeName == "")
			}
			if rapid.Bool().Draw(t, "not yet") {
				continue
			}
			look := is.Waiting()
			if look == nil {
				look = make(map[string]bool)
			}
			for _, pod := range is.Recount() {
				look[pod] = true
			}
			now := answers(is, pods)
			for pod, says := range now {
				if was, known := before[pod]; known && was != says && !look[pod] {
					t.Fatalf("%s: %s\nwas: %s\nnobody looks at it", pod, says, was)
				}
			}
			before = now
		}

		anew := empty(nodes)
		for key, c := range claims {
			anew.SetClaim(key, c)
		}
		for _, v := range stored {
			anew.SetVolume(v)
		}
		for name, c := range classes {
			anew.SetClass(name, c)
		}
		for name, n := range drivers {
			anew.SetCSINode(name, n)
		}
		for key, p := range pods {
			anew.Join(key, p, p.Spec.NodeName == "")
		}
		if diff := cmp.Diff(answers(anew, pods), answers(is, pods)); diff != "" {
			t.Fatalf("says otherwise (-anew +is):\n%s", diff)
		}
		for _, name := range nodeNames {
			if diff := cmp.Diff(anew.OnNode(name), is.OnNode(name)); diff != "" {
				t.Fatalf("limits of %s (-anew +is):\n%s", name, diff)
			}
		}
		for key, p := range pods {
			is.Leave(key, p)
		}
		is.Waiting()
		if left := len(is.users) + len(is.holders) + len(is.again); left > 0 {
			t.Fatalf("%d things remembered of pods that are gone", left)
		}
	})
}

// Two starts want the one volume that there is: the first has it until it is released, and a start that wants the same claim waits for the
// first one's.
func TestVolumesArePromisedOnce(t *testing.T) {
	nodes := newNodes()
	s := empty(nodes)
	s.SetClass("disk", testClass())
	s.SetVolume(testVolume("v0", "n0", ""))
	for _, name := range claimNames {
		s.SetClaim("default/"+name, testClaim(name, "", false))
	}
	reserve := func(pod string, claims ...string) (*Reservation, bool) {
		r := &Reservation{Changed: make(chan struct{}, 1)}
		return r, s.Choose(r, "default/"+pod, testPod(pod, "", claims...), nodes["n0"])
	}
	first, ok := reserve("p0", "a")
	if diff := cmp.Diff([]Want{{Claim: "default/a", UID: "a", Volume: "v0", Node: "n0", Pod: "default/p0"}}, first.Wants); diff != "" || !ok {
		t.Fatalf("%t %s", ok, diff)
	}
	beside, ok := reserve("p1", "a")
	if !ok || len(beside.Wants) != 1 || !beside.Wants[0].Shared {
		t.Errorf("a start beside it: %t %+v", ok, beside.Wants)
	}
	if other, ok := reserve("p2", "b"); ok {
		t.Errorf("the volume was promised twice: %+v", other.Wants)
	}
	s.Release(first)
	select {
	case <-beside.Changed:
	default:
		t.Error("nobody told the start that waited for it")
	}
	if _, moved, _ := s.State(beside.Wants[0]); moved == "" {
		t.Error("it waits for what nobody sees to")
	}
	if _, ok := reserve("p2", "b"); !ok {
		t.Error("the volume is free, and nobody gets it")
	}
}
