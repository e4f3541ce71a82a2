package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/telemetry"
)

// GPUMetrics says where the scheduler reads how busy the GPUs of pods are, and which GPUs are broken; the first that is given counts, and
// without any nothing is measured. How busy they are is read only while pods run in a queue that has reclaimIdleAfter. It needs no
// rights in the cluster beyond its own.
type GPUMetrics struct {
	Prometheus *url.URL
	// TokenFile has the bearer token that Prometheus is asked with, and CAFile the certificates that vouch for it; "": none, and those
	// of the system. Both are read again when they change.
	TokenFile, CAFile string
	// Exporters are the namespaces whose pods are DCGM exporters if they have a label of one. A user who may make pods there can make
	// pods of the same node seem idle, and GPUs of that node broken.
	Exporters []string
	// Fleet reads the exporters of an embedded cluster, through the API server.
	Fleet bool
}

const (
	// idleLook is how often GPUs are read, unless a window is so short that an eighth of it is less, and idleLookMin how often at most.
	idleLook    = 15 * time.Second
	idleLookMin = time.Second
	// idleAsk is how often it is looked whether a queue wants to know, while none does.
	idleAsk = 3 * time.Second
	// idleMisses is for how many looks a pod may have no reading before what was measured counts for nothing.
	idleMisses = 3
	// idleRest is the part of the window for which a pod is idle before that is said: one that works in bursts is not written about.
	idleRest = 4
	// showFor is how long, at the start, the watch may take to show what was written.
	showFor = 5 * time.Second
)

// The reasons of the condition PodIdle as this scheduler writes it. What others write under other reasons is theirs.
const (
	idleMeasured = "MeasuredIdle"
	idleBusy     = "MeasuredBusy"
	idleUnknown  = "NotMeasured"
)

// meter finds pods whose GPUs do nothing and says so in their condition PodIdle, from which the feed has it.
//
//	         below the threshold                for a quarter of the window
//	unknown ---------------------> a spell begins -------------------------> condition True since its beginning
//	   ^                                | at or above it, or no reading for three looks         |
//	   +--------------------------------+------------------------<------------------------------+ condition False
//
// Spells are not kept: a scheduler that starts measures anew, for it does not know what happened in between.
type meter struct {
	s      *scheduler
	source telemetry.Source
	spells map[types.UID]*spell
	failed string // what was last said of the source; "": it works
}

// spell is a time in which a pod's GPUs were below the threshold whenever they were read.
type spell struct {
	pod         cluster.Pod
	since, last time.Time
	most        int // percent
	said        bool
}

// idleRule is what a queue says of pods whose GPUs do nothing.
type idleRule struct {
	below int
	after time.Duration
}

func (s *scheduler) newMeter() (*meter, error) {
	source, err := s.gpuMetrics()
	return &meter{s: s, source: source, spells: make(map[types.UID]*spell)}, err
}

func (s *scheduler) gpuMetrics() (telemetry.Source, error) {
	o := s.opts.GPUMetrics
	switch {
	case s.opts.telemetry != nil:
		return s.opts.telemetry, nil
	case o.Prometheus != nil:
		client, err := o.client()
		if err != nil {
			return nil, fmt.Errorf("scheduler: metrics of GPUs: %w", err)
		}
		return &telemetry.Prometheus{Client: client, URL: o.Prometheus}, nil
	case len(o.Exporters) > 0:
		return &telemetry.Exporters{Client: &http.Client{}, Pages: s.exporters, On: s.podIsOn}, nil
	case o.Fleet && s.opts.Config != nil:
		client, err := rest.HTTPClientFor(s.opts.Config)
		if err != nil {
			return nil, fmt.Errorf("scheduler: metrics of GPUs: %w", err)
		}
		base, _, err := rest.DefaultServerUrlFor(s.opts.Config)
		if err != nil {
			return nil, fmt.Errorf("scheduler: metrics of GPUs: %w", err)
		}
		pages := func(nodes []string) map[string]string { return fleetPages(base, nodes) }
		return &telemetry.Exporters{Client: client, Pages: pages, On: s.podIsOn}, nil
	}
	return nil, nil
}

// client asks Prometheus.
func (o GPUMetrics) client() (*http.Client, error) {
	return rest.HTTPClientFor(&rest.Config{BearerTokenFile: o.TokenFile, TLSClientConfig: rest.TLSClientConfig{CAFile: o.CAFile}})
}

// exporterLabels are of DCGM exporters: of NVIDIA's GPU Operator, of its own chart, and of GKE.
var exporterLabels = map[string][]string{
	"app":                    {"nvidia-dcgm-exporter", "dcgm-exporter"},
	"app.kubernetes.io/name": {"dcgm-exporter", "gke-managed-dcgm-exporter"},
}

// exporterPort is where DCGM exporters listen.
const exporterPort = "9400"

// exporters are the pages of exporters that run on the nodes.
func (s *scheduler) exporters(nodes []string) map[string]string {
	out := make(map[string]string)
	for _, p := range s.feed.PodsIn(s.opts.GPUMetrics.Exporters) {
		if p.Status.PodIP == "" || p.Status.Phase != corev1.PodRunning || !slices.Contains(nodes, p.Spec.NodeName) {
			continue
		}
		for label, values := range exporterLabels { //archtest:any-order it asks whether there is one
			if slices.Contains(values, p.Labels[label]) {
				out[p.Spec.NodeName] = "http://" + net.JoinHostPort(p.Status.PodIP, exporterPort) + "/metrics"
			}
		}
	}
	return out
}

// fleetPages are the pages that the fleet serves in metrics.k8s.io.
func fleetPages(server *url.URL, nodes []string) map[string]string {
	out := make(map[string]string)
	for _, n := range nodes {
		out[n] = server.JoinPath("apis/metrics.k8s.io/v1beta1/nodes", n, "metrics/dcgm").String()
	}
	return out
}

func (s *scheduler) podIsOn(namespace, pod, node string) bool {
	p := s.feed.Pod(namespace + "/" + pod)
	return p != nil && p.Spec.NodeName == node
}

// begin takes back what an earlier scheduler measured, and returns when the watch shows that: the first plan does not count on it. It does so
// also where nothing is measured any more, for then nobody else would.
func (m *meter) begin(ctx context.Context) {
	stale := func() (out []cluster.Pod) {
		for _, p := range m.s.feed.Pods() {
			if c := idleOf(p.Object); c != nil && c.Status == corev1.ConditionTrue && c.Reason == idleMeasured {
				out = append(out, p)
			}
		}
		return out
	}
	for _, p := range stale() {
		m.write(ctx, p.Object, corev1.ConditionFalse, idleUnknown, "the scheduler has started: it is measured anew", time.Now())
	}
	for until := time.Now().Add(showFor); len(stale()) > 0 && time.Now().Before(until) && ctx.Err() == nil; {
		time.Sleep(batch)
	}
}

func idleOf(p *corev1.Pod) *corev1.PodCondition {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == v1alpha1.PodIdle })
	if i < 0 {
		return nil
	}
	return &p.Status.Conditions[i]
}

// run looks until ctx ends.
func (m *meter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(m.look(ctx, time.Now())):
		}
	}
}

// look reads once, and returns how long to wait before it is done again.
func (m *meter) look(ctx context.Context, now time.Time) time.Duration {
	rules, again := m.rules()
	var pods []cluster.Pod
	if len(rules) > 0 {
		pods = slices.DeleteFunc(m.s.feed.Pods(), func(p cluster.Pod) bool {
			_, ruled := rules[p.Queue]
			return !ruled || p.Object.Spec.NodeName == "" || p.Object.Status.Phase != corev1.PodRunning || p.Object.DeletionTimestamp != nil
		})
	}
	measured := make(map[types.UID]bool, len(pods))
	if len(pods) > 0 {
		busy := m.read(ctx, pods)
		for _, p := range pods {
			measured[p.Object.UID] = true
			percent, known := busy[p.Key]
			m.take(ctx, p, rules[p.Queue], percent, known, now, again)
		}
	}
	for uid, p := range m.spells { //archtest:any-order each is by itself
		if !measured[uid] {
			m.end(ctx, p, idleUnknown, "its queue does not give back GPUs that do nothing", now)
		}
	}
	return again
}

// rules are those of the queues that have one, by name, and how often GPUs are to be read for them.
func (m *meter) rules() (map[string]idleRule, time.Duration) {
	out, every := make(map[string]idleRule), idleLook
	for _, q := range m.s.feed.Queues() {
		if d := q.Spec.ReclaimIdleAfter; d != nil && d.Duration > 0 {
			out[q.Name] = idleRule{int(q.Spec.IdleThreshold()), d.Duration}
			every = min(every, max(idleLookMin, d.Duration/8))
		}
	}
	if len(out) == 0 {
		return nil, idleAsk
	}
	return out, every
}

// read is how busy the pods' GPUs are, in percent, as far as that is known.
func (m *meter) read(ctx context.Context, pods []cluster.Pod) map[string]int {
	nodes := make([]string, 0, len(pods))
	for _, p := range pods {
		nodes = append(nodes, p.Object.Spec.NodeName)
	}
	slices.Sort(nodes)
	list, err := m.source.Read(ctx, slices.Compact(nodes))
	text := ""
	if err != nil {
		text = clip(err.Error(), maxNote)
	}
	if text != m.failed && ctx.Err() == nil {
		if m.failed = text; text != "" {
			m.s.log.Warn("metrics of GPUs: pods without them do not count as idle", "err", text)
		}
	}
	out := make(map[string]int, len(list))
	for _, r := range list {
		out[r.Namespace+"/"+r.Pod] = r.Percent
	}
	return out
}

// take takes in what was read of a pod.
func (m *meter) take(ctx context.Context, p cluster.Pod, rule idleRule, percent int, known bool, now time.Time, every time.Duration) {
	at := m.spells[p.Object.UID]
	switch {
	case !known && at != nil && now.Sub(at.last) > idleMisses*every:
		m.end(ctx, at, idleUnknown, "there are no metrics of its GPUs", now)
	case !known:
	case percent >= rule.below:
		if at != nil {
			m.end(ctx, at, idleBusy, fmt.Sprintf("its busiest GPU is at %d %%", percent), now)
		}
	case at == nil:
		m.spells[p.Object.UID] = &spell{pod: p, since: now, last: now, most: percent}
	default:
		at.pod, at.last, at.most = p, now, max(at.most, percent)
		if !at.said && now.Sub(at.since) >= rule.after/idleRest {
			text := fmt.Sprintf("its busiest GPU was never above %d %%, and counts as idle below %d %%", at.most, rule.below)
			at.said = m.write(ctx, p.Object, corev1.ConditionTrue, idleMeasured, text, at.since)
		}
	}
}

// end ends a spell.
func (m *meter) end(ctx context.Context, at *spell, reason, text string, now time.Time) {
	if p := m.s.feed.Pod(at.pod.Key); at.said && p != nil && p.UID == at.pod.Object.UID && !m.write(ctx, p, corev1.ConditionFalse, reason, text, now) {
		return // the next look says it
	}
	delete(m.spells, at.pod.Object.UID)
}

// write says on the pod whether its GPUs do nothing, and since when. It returns whether there is nothing more to say.
func (m *meter) write(ctx context.Context, p *corev1.Pod, is corev1.ConditionStatus, reason, text string, since time.Time) bool {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: v1alpha1.PodIdle, Status: is, Reason: reason, Message: text, LastTransitionTime: metav1.NewTime(since),
		}}},
	})
	if err == nil {
		_, err = m.s.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		m.s.log.Warn("say whether GPUs are idle", "pod", keyOf(p), "err", clip(err.Error(), maxNote))
		return false
	}
	return true
}
