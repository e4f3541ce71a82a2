package scheduler

import (
	"context"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/cluster"
)

const (
	// namespacesPause is the least time between two writes of namespaces, and namespacesAgain after how long one that
	// failed is tried again.
	namespacesPause, namespacesAgain = 10 * time.Millisecond, 30 * time.Second
)

// writeNamespaces keeps up to date, until ctx ends, which queues each namespace may use: v1alpha1.KeyQueues on it. An
// admission policy reads it, and refuses early what would wait in vain. Nothing is decided by it.
func (s *scheduler) writeNamespaces(ctx context.Context) {
	tick := time.NewTicker(namespacesAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.reports.access:
		case <-tick.C:
		}
		said := ""
		for _, n := range s.feed.StaleNamespaces() {
			if !sleep(ctx, namespacesPause) {
				return
			}
			err := s.writeNamespace(ctx, n)
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && said != err.Error() {
				said = err.Error()
				s.log.Warn("write the queues of a namespace", "namespace", n.Name, "err", err)
			}
		}
	}
}

func (s *scheduler) writeNamespace(ctx context.Context, n cluster.NamespaceAccess) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": n.UID, "annotations": map[string]any{v1alpha1.KeyQueues: n.Queues},
	}})
	if err != nil {
		return err
	}
	return attempt(ctx, func(ctx context.Context) error {
		_, err := s.client.CoreV1().Namespaces().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}
