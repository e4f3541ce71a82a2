package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
)

func TestImages(t *testing.T) {
	n := &corev1.Node{}
	n.Status.Images = []corev1.ContainerImage{
		{Names: []string{"registry.example/b:1", "registry.example/b@sha256:0", ""}, SizeBytes: 1 << 30},
		{Names: []string{"registry.example/a:1", "registry.example/b:1"}, SizeBytes: 24 << 20},
		{Names: []string{"pause:3"}, SizeBytes: 700 << 10},
		{Names: []string{"broken:1"}, SizeBytes: -5},
		{SizeBytes: 1 << 40},
	}
	want := []engine.Image{{Name: "registry.example/a:1", Bytes: 24 << 20}, {Name: "registry.example/b:1", Bytes: 1 << 30}, {Name: "registry.example/b@sha256:0", Bytes: 1 << 30}}
	if diff := cmp.Diff(want, Node(n, Options{}).Images); diff != "" {
		t.Error(diff)
	}

	p := &corev1.Pod{}
	p.Spec.SchedulerName = "berth"
	p.Spec.Containers = []corev1.Container{{Image: "registry.example:5000/train"}, {Image: "a:1"}}
	p.Spec.InitContainers = []corev1.Container{{Image: "a:1"}}
	p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "model@sha256:1"}}}, {}}
	if diff := cmp.Diff([]string{"a:1", "registry.example:5000/train:latest", "a:1", "model@sha256:1"}, Pod(p, Options{}).Images); diff != "" {
		t.Error(diff)
	}
	p.Spec.NodeName = "n"
	if got := Pod(p, Options{}).Images; got != nil {
		t.Errorf("a pod that has its node names images: %q", got)
	}
}
