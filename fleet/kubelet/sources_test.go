package kubelet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod that needs a ConfigMap waits for it and starts once it is there, whether as a variable or as a
// volume.
func TestPodsWaitForTheirConfig(t *testing.T) {
	inEnv := func(p *corev1.Pod) {
		p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}}}
	}
	inVolume := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}}}}
	}
	tests := []struct {
		name, state, event string
		needs              func(*corev1.Pod)
	}{
		{"env", "waiting CreateContainerConfigError", "Failed", inEnv},
		{"volume", "waiting ContainerCreating", "FailedMount", inVolume},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.create(testPod("p", "pause", tt.needs))
				time.Sleep(10 * time.Second)
				s := w.get("p").Status
				if diff := cmp.Diff([]string{"Pending", tt.state}, []string{string(s.Phase), state(&s.ContainerStatuses[0])}); diff != "" {
					t.Error(diff)
				}
				reasons := w.reasons("p")
				if !contains(reasons, tt.event) {
					t.Errorf("events %v lack %s", reasons, tt.event)
				}
				m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "default"}}
				if _, err := w.client.CoreV1().ConfigMaps("default").Create(context.Background(), m, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if phase := w.get("p").Status.Phase; phase != corev1.PodRunning {
					t.Errorf("with its config: %s", phase)
				}
			})
		})
	}
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}
