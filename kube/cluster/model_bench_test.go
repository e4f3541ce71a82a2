package cluster

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine/why"
)

// large is 5,000 nodes with eight GPUs each and 10,000 pods on them, and one pod that waits for a node of its own.
func large() (objects []metav1.Object, waits *corev1.Pod) {
	for i := range 5000 {
		n := node(fmt.Sprintf("n%04d", i), fmt.Sprintf("r%d", i/16), 8)
		n.Labels["gpu"] = []string{"a", "b"}[i%2]
		objects = append(objects, n)
		for j := range 2 {
			p := pod(fmt.Sprintf("p%04d-%d", i, j), 3)
			p.UID, p.Spec.NodeName = types.UID(p.Name), n.Name
			objects = append(objects, p)
		}
	}
	waits = pod("waits", 8)
	return append(objects, waits), waits
}

func BenchmarkModel(b *testing.B) {
	objects, _ := large()
	for b.Loop() {
		m := racked(objects...)
		if e, _, _ := m.Try("default/waits", noon); e.Cause != why.ClusterFull && e.Cause != why.Fragmented {
			b.Fatal(e.Verdict, e.Cause)
		}
	}
}

// An edit of one pod and one node, tried, and taken back.
func BenchmarkModelTry(b *testing.B) {
	objects, waits := large()
	m := racked(objects...)
	n := objects[0].(*corev1.Node)
	roomy := n.DeepCopy()
	roomy.Status.Allocatable["nvidia.com/gpu"] = node("", "", 14).Status.Allocatable["nvidia.com/gpu"]
	i := 0
	for b.Loop() {
		i++
		m.Set(edited(waits, func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"gpu": "a", "rack": fmt.Sprint("r", i%7)}
			if i%7 == 0 {
				p.Spec.NodeSelector = nil
			}
		}), roomy)
		if e, _, _ := m.Try("default/waits", noon); (e.Verdict == why.Placed) != (i%7 == 0) {
			b.Fatal(i, e.Verdict, e.Cause)
		}
		m.Set(waits, n)
		if e, _, _ := m.Try("default/waits", noon); e.Verdict != why.Impossible {
			b.Fatal(e.Verdict, e.Cause)
		}
	}
}

// Where a pod could be, after an edit of a node and with all nodes but one allowed.
func BenchmarkModelPerNode(b *testing.B) {
	objects, waits := large()
	m := racked(objects...)
	var all []string
	for _, o := range objects {
		if n, ok := o.(*corev1.Node); ok {
			all = append(all, n.Name)
		}
	}
	n := objects[0].(*corev1.Node)
	cordoned := n.DeepCopy()
	cordoned.Spec.Unschedulable = true
	for b.Loop() {
		n, cordoned = cordoned, n
		m.Set(waits, n)
		m.Allow("default/waits", all[1:])
		if cert, ok := m.PerNode("default/waits", noon); !ok || len(cert.Domains) != len(all) {
			b.Fatal(ok, len(cert.Domains))
		}
	}
}
