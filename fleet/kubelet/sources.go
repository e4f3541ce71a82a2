package kubelet

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/fleet/shell"
)

// sources reads the objects that a pod's containers are made from. They are read when a container
// starts and not watched: a fleet has too many of them, and a running container does not change.
type sources struct {
	client kubernetes.Interface
	budget *shell.Budget
	shared shared
}

func newSources(client kubernetes.Interface, budget *shell.Budget) *sources {
	return &sources{client: client, budget: budget, shared: shared{volumes: make(map[string]*shell.Volume)}}
}

// configMap gives nil without an error for an optional one that does not exist.
func (s *sources) configMap(ctx context.Context, namespace, name string, optional bool) (*corev1.ConfigMap, error) {
	m, err := s.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		return m, nil
	}
	if apierrors.IsNotFound(err) && optional {
		return nil, nil
	}
	return nil, plain(err)
}

// secret gives nil without an error for an optional one that does not exist.
func (s *sources) secret(ctx context.Context, namespace, name string, optional bool) (*corev1.Secret, error) {
	m, err := s.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		return m, nil
	}
	if apierrors.IsNotFound(err) && optional {
		return nil, nil
	}
	return nil, plain(err)
}

// plain makes the API's not-found error read as the kubelet's cache words it: `configmap "x" not
// found`, with the singular that its listers use.
func plain(err error) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsNotFound(err) || status.ErrStatus.Details == nil {
		return err
	}
	d := status.ErrStatus.Details
	singular := map[string]string{"configmaps": "configmap", "secrets": "secret", "persistentvolumeclaims": "persistentvolumeclaim"}
	if kind, known := singular[d.Kind]; known {
		return errors.New(kind + " \"" + d.Name + "\" not found")
	}
	return err
}
