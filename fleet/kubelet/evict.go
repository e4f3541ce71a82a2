package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The kubelet's eviction manager under disk pressure (kubernetes v1.37.1, pkg/kubelet/eviction): while the node is short of disk it ends
// one pod after the other, those first that use more than they requested, then by priority, then those that use most above their
// request. Critical pods stay. Whatever fills the disk of a fault is no pod: the pressure does not end with the pods, and
// all of them go but the critical ones.
const (
	evictionPeriod  = 10 * time.Second // kubelet.go, evictionMonitoringPeriod
	evictionCleanup = 30 * time.Second // podCleanupTimeout
	evictionPoll    = time.Second      // podCleanupPollFreq
	evictionGrace   = time.Second      // immediateEvictionGracePeriodSeconds: the threshold is a hard one
	evictedReason   = "Evicted"
	// systemCritical is the least priority of critical pods, scheduling.SystemCriticalPriority.
	systemCritical = 2_000_000_000
	// emptyLayer is what the writable layer of a container takes in which nothing was written.
	emptyLayer = 24 << 10
	// The threshold nodefs.available<10%, the kubelet's default, and what is left, in percent of the node's disk.
	evictionThreshold, evictionAvailable = 10, 4
)

// relieve ends pods of the host until the pressure is over or ctx ends.
func (h *host) relieve(ctx context.Context) {
	pressed := func() bool {
		m := h.powered()
		return ctx.Err() == nil && m != nil && m.faults().DiskPressure
	}
	for pressed() {
		v := h.victim()
		if v == nil {
			sleep(ctx, evictionPeriod)
			continue
		}
		v.evict(h.evictionMessage(v))
		for until := time.Now().Add(evictionCleanup); !v.isOver() && time.Now().Before(until) && ctx.Err() == nil; {
			sleep(ctx, evictionPoll)
		}
	}
}

// victim is the pod that is evicted next; nil: none can be.
func (h *host) victim() *worker {
	type rank struct {
		w               *worker
		key             string
		priority        int32
		above, exceeded int64 // above its request; 1: it is
	}
	var all []rank
	h.each(func(w *worker) {
		pod := w.current()
		priority := int32(0)
		if pod.Spec.Priority != nil {
			priority = *pod.Spec.Priority
		}
		if priority >= systemCritical || !w.active() {
			return
		}
		r := rank{w: w, key: pod.Namespace + "/" + pod.Name, priority: priority, above: w.disk() - requestedDisk(pod)}
		if r.above > 0 {
			r.exceeded = 1
		}
		all = append(all, r)
	})
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, func(a, b rank) int {
		return cmp.Or(cmp.Compare(b.exceeded, a.exceeded), cmp.Compare(a.priority, b.priority), cmp.Compare(b.above, a.above), strings.Compare(a.key, b.key))
	}).w
}

// active says whether something of the pod runs, and nobody ends it yet.
func (w *worker) active() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.ended || w.gone || w.evicted != "" || w.pod.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(w.containers, func(c *container) bool { return c.running != nil })
}

// isOver says whether the pod has stopped.
func (w *worker) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over || w.ended || w.gone
}

// evict has the pod end as the eviction manager ends it.
func (w *worker) evict(message string) {
	w.mu.Lock()
	w.evicted = message
	w.mu.Unlock()
	w.poke()
}

// disk is what the pod takes of the node's disk: writable layers and logs.
func (w *worker) disk() (sum int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.containers {
		sum += c.disk()
	}
	return sum
}

// disk is that of one container. Called with the worker's lock held.
func (c *container) disk() int64 {
	sum := int64(emptyLayer)
	for _, j := range []*journal{c.log, c.old} {
		if j != nil {
			sum += j.size()
		}
	}
	return sum
}

// size is how many bytes the journal holds.
func (j *journal) size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.held == nil {
		return 0
	}
	return j.held.size
}

func requestedDisk(pod *corev1.Pod) (sum int64) {
	for i := range pod.Spec.Containers {
		sum += pod.Spec.Containers[i].Resources.Requests.StorageEphemeral().Value()
	}
	return sum
}

// evictionMessage is what the kubelet writes of an eviction (evictionMessage, helpers.go).
func (h *host) evictionMessage(w *worker) string {
	var b strings.Builder
	b.WriteString("The node was low on resource: ephemeral-storage. ")
	if m := h.powered(); m != nil && m.Node() != nil {
		if disk := m.Node().Status.Capacity.StorageEphemeral().Value(); disk > 0 {
			fmt.Fprintf(&b, "Threshold quantity: %s, available: %s. ", binary(disk/100*evictionThreshold), binary(disk/1024/100*evictionAvailable*1024))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.containers {
		spec := slices.IndexFunc(w.pod.Spec.Containers, func(s corev1.Container) bool { return s.Name == c.name })
		if spec < 0 {
			continue
		}
		request := w.pod.Spec.Containers[spec].Resources.Requests.StorageEphemeral()
		if used := c.disk(); used > request.Value() {
			fmt.Fprintf(&b, "Container %s was using %s, request is %s, has larger consumption of ephemeral-storage. ", c.name, binary(used), request)
		}
	}
	return b.String()
}

func binary(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }

// evictedCondition says on the pod that it was the kubelet who ended it.
func evictedCondition(pod *corev1.Pod, message string, now metav1.Time) corev1.PodCondition {
	return corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: message,
		ObservedGeneration: pod.Generation, LastTransitionTime: now,
	}
}
