package podspec

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rollout is how many pods a Deployment may have above its replicas while it replaces them, and how many below. Of a share, whole pods
// only: the default of 25 % is one above, and none below, of up to three. Where neither may be, Kubernetes lets one go.
func Rollout(d *appsv1.Deployment) (up, down int) {
	replicas := 1
	if d.Spec.Replicas != nil {
		replicas = int(*d.Spec.Replicas)
	}
	share, surge := intstr.FromString("25%"), intstr.FromString("25%")
	if u := d.Spec.Strategy.RollingUpdate; u != nil && u.MaxUnavailable != nil {
		share = *u.MaxUnavailable
	}
	if u := d.Spec.Strategy.RollingUpdate; u != nil && u.MaxSurge != nil {
		surge = *u.MaxSurge
	}
	down, err := intstr.GetScaledValueFromIntOrPercent(&share, replicas, false)
	up, errUp := intstr.GetScaledValueFromIntOrPercent(&surge, replicas, true)
	if err != nil || errUp != nil {
		return 1, 0
	}
	if down == 0 && up == 0 {
		return 0, 1
	}
	return up, down
}
