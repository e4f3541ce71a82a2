package scheduler

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

// Marks stand, in what is said on pods of one namespace, for workloads of another: see why.Marker. Their secret is in the
// cluster, so that a scheduler that is started anew, elsewhere too, knows for whom pods are being evicted. Only the
// scheduler may read it, by name.
const (
	marksName = "berth-marks"
	marksKey  = "secret"
	marksSize = 32
)

// makeMarks makes the secret, once. It is never replaced: marks that were written would not be known again.
func makeMarks(ctx context.Context, admin kubernetes.Interface) error {
	_, err := admin.CoreV1().Secrets(leaseNamespace).Create(ctx, &corev1.Secret{
		ObjectMeta: named(leaseNamespace, marksName), Data: map[string][]byte{marksKey: newSecret()},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func newSecret() []byte {
	secret := make([]byte, marksSize)
	_, _ = rand.Read(secret) // it never fails
	return secret
}

// readSecret reads the secret, with which marks are made and terms sealed. Without one that can be read the marks are of
// this process alone: pods that are being evicted when it ends are evicted all the same, and the place that they leave is
// anybody's. Nothing is sealed then.
func (s *scheduler) readSecret(ctx context.Context) {
	var secret []byte
	ctx, cancel := context.WithTimeout(ctx, awaken)
	defer cancel()
	err := again(ctx, func(ctx context.Context) error {
		o, err := s.client.CoreV1().Secrets(leaseNamespace).Get(ctx, marksName, metav1.GetOptions{})
		if apierrors.IsForbidden(err) {
			return fmt.Errorf("%v", err) // as of a server that has just started and has not read the roles
		}
		if err == nil && len(o.Data) == 0 && s.opts.unfenced != nil {
			o, err = fillMarks(ctx, s.opts.unfenced, o)
		}
		if err == nil {
			secret = o.Data[marksKey]
		}
		return err
	})
	if err == nil && len(secret) < marksSize {
		err = fmt.Errorf("it has %d bytes under %s, want %d", len(secret), marksKey, marksSize)
	}
	if err != nil {
		s.log.Warn("the secret of marks cannot be read: marks do not outlast this process", "secret", leaseNamespace+"/"+marksName, "err", err)
		s.marks = why.NewMarker(newSecret())
		return
	}
	s.marks = why.NewMarker(secret)
	s.feed.SealWith(convert.NewSeal(secret))
}
