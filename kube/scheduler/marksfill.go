package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// fillMarks gives the secret of marks, which was installed empty, its bytes: manifests hold no secrets, and may be applied
// again. Of several schedulers that start at once one is first; the others meet a conflict and take what it wrote.
func fillMarks(ctx context.Context, client kubernetes.Interface, empty *corev1.Secret) (*corev1.Secret, error) {
	secrets := client.CoreV1().Secrets(leaseNamespace)
	filled := empty.DeepCopy()
	filled.Data = map[string][]byte{marksKey: newSecret()}
	o, err := secrets.Update(ctx, filled, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return secrets.Get(ctx, marksName, metav1.GetOptions{})
	}
	return o, err
}
