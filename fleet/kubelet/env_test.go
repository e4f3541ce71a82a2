package kubelet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/berth-dev/berth/fleet/shell"
)

func TestExpand(t *testing.T) {
	env := map[string]string{"A": "1", "B": "$(A)"}
	tests := map[string]string{
		"$(A)":     "1",
		"x$(A)y":   "x1y",
		"$$(A)":    "$(A)",
		"$(NOPE)":  "$(NOPE)",
		"$(B)":     "$(A)",
		"$(A":      "$(A",
		"$A $ $":   "$A $ $",
		"$$$(A)":   "$1",
		"cost: $5": "cost: $5",
	}
	for in, want := range tests {
		if got := expand(in, env); got != want {
			t.Errorf("expand(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	s := newSources(fake.NewClientset(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "default"}, Data: map[string]string{"k": "v", "L": "from map"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "default"}, Data: map[string][]byte{"k": []byte("hidden")}},
	), shell.NewBudget())
	pod := testPod("p", "busybox", request(corev1.ResourceMemory, "1Gi"), request(corev1.ResourceCPU, "1500m"))
	pod.Labels = map[string]string{"app": "x"}
	pod.Status.PodIP = "10.0.0.9"
	c := &pod.Spec.Containers[0]
	c.EnvFrom = []corev1.EnvFromSource{{Prefix: "P_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}}}
	c.Env = []corev1.EnvVar{
		{Name: "A", Value: "$(P_L)!"},
		{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
		{Name: "APP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}}},
		{Name: "MEM", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}}},
		{Name: "CPU", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu"}}},
		{Name: "S", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k"}}},
		{Name: "OPT", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Key: "k", Optional: new(true)}}},
	}
	got, err := s.environment(t.Context(), pod, c, map[string]string{"HOSTNAME": "p"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"HOSTNAME": "p", "P_k": "v", "P_L": "from map", "A": "from map!", "IP": "10.0.0.9", "APP": "x", "MEM": "1024", "CPU": "2", "S": "hidden"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMissingSourcesInKubeletsWords(t *testing.T) {
	s := newSources(fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "default"}}), shell.NewBudget())
	ref := func(name, key string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}}
	}
	tests := []struct {
		from *corev1.EnvVarSource
		want string
	}{
		{ref("none", "k"), `configmap "none" not found`},
		{ref("m", "k"), `couldn't find key k in ConfigMap default/m`},
		{&corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Key: "k"}}, `secret "none" not found`},
	}
	for _, tt := range tests {
		pod := testPod("p", "busybox")
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: tt.from}}
		_, err := s.environment(t.Context(), pod, &pod.Spec.Containers[0], nil)
		if err == nil || err.Error() != tt.want {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}
