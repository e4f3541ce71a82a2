package inspect

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-dev/berth/diagnose/facts"
)

const (
	logPods   = 16
	logLines  = 40
	logBytes  = 64 << 10 // of the end: lines may be long
	logBudget = time.Second
	logAtOnce = 16
)

// logWish is one log of one container.
type logWish struct {
	pod       *corev1.Pod
	container string
	previous  bool
}

func (w logWish) key() string {
	key := w.pod.Namespace + "/" + w.pod.Name + "/" + w.container
	if w.previous {
		key += "/previous"
	}
	return key
}

// readLogs adds to the facts the ends of the logs of the first pods, as many as a second is enough for.
func (c *cluster) readLogs(ctx context.Context, f *facts.Facts, pods []*corev1.Pod) {
	ctx, stop := context.WithTimeout(ctx, logBudget)
	defer stop()
	f.Logs = make(map[string]string)
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(logAtOnce)
	all := wishes(pods)
	failed := make([]*facts.Unseen, len(all)) // in the order of what was asked for, whoever answers first
	for i, w := range all {
		g.Go(func() error {
			text, err := c.readLog(ctx, w)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				f.Logs[w.key()] = text
				return nil
			}
			failed[i] = &facts.Unseen{Resource: "pods/log", Namespace: w.pod.Namespace, Reason: reason(err)}
			return nil
		})
	}
	_ = g.Wait() // what could not be read is in the facts
	for _, u := range failed {
		if u != nil && !slices.Contains(f.Unseen, *u) {
			f.Unseen = append(f.Unseen, *u)
		}
	}
}

// wishes are the logs that exist: of containers that run, ended, or were restarted.
func wishes(pods []*corev1.Pod) []logWish {
	var out []logWish
	n := 0
	for _, p := range pods {
		before := len(out)
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			if s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil {
				out = append(out, logWish{p, s.Name, false})
			}
			if s.State.Running != nil && s.LastTerminationState.Terminated != nil {
				out = append(out, logWish{p, s.Name, true})
			}
		}
		if len(out) > before {
			n++
		}
		if n == logPods {
			break
		}
	}
	return out
}

func (c *cluster) readLog(ctx context.Context, w logWish) (string, error) {
	lines := int64(logLines)
	o := &corev1.PodLogOptions{Container: w.container, Previous: w.previous, TailLines: &lines}
	b, err := c.typed[corev1.SchemeGroupVersion].Get().Namespace(w.pod.Namespace).Resource("pods").Name(w.pod.Name).
		SubResource("log").VersionedParams(o, scheme.ParameterCodec).Do(ctx).Raw()
	return string(b[max(0, len(b)-logBytes):]), err
}
