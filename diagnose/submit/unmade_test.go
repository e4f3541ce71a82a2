package submit

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Claims that are made with a pod are looked at before there is the pod: what no volume can be had for is no lack of machines.
func TestClaimsToComeAreLookedAt(t *testing.T) {
	f := clusterOf(2, 0)
	for _, n := range f.Nodes {
		n.Labels[corev1.LabelTopologyZone] = "a"
	}
	f.StorageClasses = []*storagev1.StorageClass{{
		ObjectMeta: metav1.ObjectMeta{Name: "far"}, Provisioner: "ebs.csi.aws.com", VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		AllowedTopologies: []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: []string{"b"}}}}},
	}}
	const claim = "{accessModes: [ReadWriteOnce], storageClassName: CLASS, resources: {requests: {storage: 1Gi}}}"
	set := `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {a: b}}
  volumeClaimTemplates: [{metadata: {name: d}, spec: ` + claim + `}]
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: a, image: x, resources: {limits: {nvidia.com/gpu: 1}}, volumeMounts: [{name: d, mountPath: /d}]}]}
`
	pod := `
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: a, image: x, resources: {limits: {nvidia.com/gpu: 1}}, volumeMounts: [{name: d, mountPath: /d}]}]
  volumes: [{name: d, ephemeral: {volumeClaimTemplate: {spec: ` + claim + `}}}]
`
	for _, c := range []struct{ text, class, says string }{
		{set, "far", "topology.kubernetes.io/zone=b"},
		{set, "none", "storage class none"},
		{pod, "none", "storage class none"},
	} {
		w := Check(World{Facts: f}, "default", items(t, strings.ReplaceAll(c.text, "CLASS", c.class))).Workloads[0]
		if w.Verdict != Never || w.Cause != "volume-unbound" || !strings.Contains(w.Summary, c.says) {
			t.Errorf("%s of class %s: %s %s: %s", w.Target, c.class, w.Verdict, w.Cause, w.Summary)
		}
	}
}

// TestAssumesStorageClasses takes classes that claims name to exist on a fleet, as what else manifests refer to.
func TestAssumesStorageClasses(t *testing.T) {
	const claim = "{storageClassName: gp3, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"
	for name, text := range map[string]string{
		"a claim": "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: d}, spec: " + claim + `}
---
{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: d}}], containers: [{name: c, image: i, volumeMounts: [{name: d, mountPath: /d}]}]}}`,
		"claims of a set": `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {serviceName: s, replicas: 2, selector: {matchLabels: {a: b}}, volumeClaimTemplates: [{metadata: {name: d}, spec: ` + claim + `}],
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i, volumeMounts: [{name: d, mountPath: /d}]}]}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := Check(World{Facts: clusterOf(2, 0), Bare: true}, "default", items(t, text))
			if w := &r.Workloads[0]; w.Verdict != Starts {
				t.Errorf("%s: %s", w.Verdict, w.Summary)
			}
			if want := []string{"storage class gp3 exists, and makes volumes on every node"}; !slices.Equal(r.Assumes, want) {
				t.Errorf("assumed is %q", r.Assumes)
			}
		})
	}
}
