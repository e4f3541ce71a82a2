package scheduler

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/kube/convert"
)

const (
	// mostQueuesWritten and mostQueuesText bound what is written on a namespace; one that may use more has anyQueue.
	mostQueuesWritten, mostQueuesText = 100, 4096
	// anyQueue lets the scheduler decide alone.
	anyQueue = "*"
	// namespacesPause is the least time between two writes of namespaces, and namespacesAgain after how long one that
	// failed is tried again.
	namespacesPause, namespacesAgain = 10 * time.Millisecond, 30 * time.Second
)

// writeNamespaces keeps up to date, until ctx ends, which queues each namespace may use: convert.KeyQueues on it. An
// admission policy reads it, and refuses early what would wait in vain. Nothing is decided by it.
func (s *scheduler) writeNamespaces(ctx context.Context) {
	tick := time.NewTicker(namespacesAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.feed.tenancy.doors:
		case <-tick.C:
		}
		said := ""
		for _, n := range s.feed.misled() {
			if !sleep(ctx, namespacesPause) {
				return
			}
			err := s.writeNamespace(ctx, n)
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && said != err.Error() {
				said = err.Error()
				s.log.Warn("write the queues of a namespace", "namespace", n.name, "err", err)
			}
		}
	}
}

// misled is a namespace that does not say which queues it may use.
type misled struct {
	name   string
	uid    types.UID
	queues string
}

func (s *scheduler) writeNamespace(ctx context.Context, n misled) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": n.uid, "annotations": map[string]any{convert.KeyQueues: n.queues},
	}})
	if err != nil {
		return err
	}
	return attempt(ctx, func(ctx context.Context) error {
		_, err := s.client.CoreV1().Namespaces().Patch(ctx, n.name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// misled are the namespaces that do not say which queues they may use, by name. One that says nothing, and may use all
// that there are, needs to say nothing.
func (f *feed) misled() []misled {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &f.tenancy
	var open []string // to all
	for name, q := range t.queues {
		if q.open == nil {
			open = append(open, name)
		}
	}
	var out []misled
	for _, name := range slices.Sorted(maps.Keys(t.namespaces)) {
		n := t.namespaces[name]
		if n.ending {
			continue
		}
		want := t.mayUse(name, open)
		if n.says && want == n.queues || !n.says && want == anyQueue {
			continue
		}
		out = append(out, misled{name, n.uid, want})
	}
	return out
}

// mayUse lists the queues that the namespace may use, of which open are open to all.
func (t *tenancy) mayUse(namespace string, open []string) string {
	may := slices.Clone(open)
	for name, q := range t.queues {
		if q.open[namespace] {
			may = append(may, name)
		}
	}
	slices.Sort(may)
	text := strings.Join(may, ",")
	if len(may) == len(t.queues) || len(may) > mostQueuesWritten || len(text) > mostQueuesText {
		return anyQueue
	}
	return text
}

// shown has the namespaces looked at.
func (t *tenancy) shown() {
	select {
	case t.doors <- struct{}{}:
	default:
	}
}
