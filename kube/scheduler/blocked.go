package scheduler

import (
	"context"
	"regexp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/kube/report"
)

// brokenWebhook is how the API server names a webhook that failed.
var brokenWebhook = regexp.MustCompile(`failed calling webhook "([^"]+)"`)

// webhookIn is the webhook that the error blames, "" for none.
func webhookIn(err error) string {
	if m := brokenWebhook.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return ""
}

// hung keeps the dry runs of bindings that hang few and rare.
type hung struct {
	mu    sync.Mutex
	asked map[string]*question // by namespace
	open  int
}

// question is a dry run, and what came of it.
type question struct {
	at     time.Time
	answer error // that names a webhook; nil: none did, or not yet
}

const (
	// probeFor is longer than the API server waits for any webhook.
	probeFor = 35 * time.Second
	// probeEvery is how often one namespace is asked about, and mostProbes how many at a time.
	probeEvery = time.Minute
	mostProbes = 4
)

// begin says whether the namespace may be asked about now. What was found out the last time stands until then.
func (h *hung) begin(namespace string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, last := time.Now(), h.asked[namespace]
	if h.open >= mostProbes || last != nil && now.Before(last.at.Add(probeEvery)) {
		return false
	}
	if h.asked == nil || len(h.asked) > mostFlows {
		h.asked = make(map[string]*question)
	}
	if last == nil {
		last = &question{}
		h.asked[namespace] = last
	}
	last.at = now
	h.open++
	return true
}

// found notes what a dry run said.
func (h *hung) found(namespace string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if q := h.asked[namespace]; q != nil {
		if q.answer = nil; err != nil && webhookIn(err) != "" {
			q.answer = err
		}
	}
}

// known is what the last dry run in the namespace found, nil for nothing.
func (h *hung) known(namespace string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if q := h.asked[namespace]; q != nil {
		return q.answer
	}
	return nil
}

func (h *hung) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open--
}

// blocked says on the pod what keeps it from being bound, if that is a webhook or lasts, and on those behind it.
func (b *binder) blocked(ctx context.Context, i intent, err error) {
	if unanswered(err) {
		b.ask(ctx, i)
		if known := b.hung.known(namespaceOf(i.Pod)); known != nil {
			err = known
		}
	}
	name := webhookIn(err)
	switch {
	case fenced(err) && *i.waits < lastWait: // the server's policy does not know the new leader yet
	case name != "":
		b.say(i, "webhook "+name, report.BindingFails, err)
		b.queue.each(namespaceOf(i.Pod), func(o intent) { b.behindWebhook(o, err) })
	case unanswered(err):
		b.say(i, "unanswered", report.BindingUnanswered, err)
	case *i.waits >= lastWait:
		b.say(i, "failing", report.BindingFails, err)
	}
}

// behindWebhook says on a pod that its binding has to wait, because a webhook fails at others of its namespace.
func (b *binder) behindWebhook(i intent, err error) {
	if name := webhookIn(err); name != "" {
		b.say(i, "webhook "+name, report.BindingWaits, err)
	}
}

func (b *binder) say(i intent, cause string, state report.BindingState, err error) {
	if p := b.s.feed.Pod(i.Pod); p != nil && string(p.UID) == i.UID {
		b.s.reports.blocked(p, cause, report.Binding{Node: i.Node, State: state, Error: clip(err.Error(), maxError)})
	}
}

// ask finds out which webhook hangs, by a dry run of the binding that the API server has time to answer: a binding itself
// may not take longer than the leadership is sure to last. It does not wait for the answer.
func (b *binder) ask(ctx context.Context, i intent) {
	namespace := namespaceOf(i.Pod)
	if !b.hung.begin(namespace) {
		return
	}
	go func() {
		defer b.hung.end()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeFor)
		defer cancel()
		defer context.AfterFunc(leadershipOf(ctx).context(), cancel)()
		defer context.AfterFunc(b.over, cancel)()
		binding := bindingOf(ctx, i.Placement)
		err := b.client.CoreV1().Pods(namespace).Bind(ctx, binding, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		b.hung.found(namespace, err)
		if err != nil && webhookIn(err) != "" {
			b.blocked(ctx, i, err)
		}
	}()
}

// blocked says on the pod why it is not bound, though it has a place.
func (r *reporter) blocked(p *corev1.Pod, cause string, said report.Binding) {
	if r.turns(p.UID, "blocked: "+cause) {
		r.wait(p, bindingFailed(said))
	}
}
