package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/bill"
	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/submit"
	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/record"
	"github.com/berth-dev/berth/web"
)

// uiQuestions answers the page as the commands answer: with their code, one set of options for each question.
type uiQuestions struct {
	o *uiOptions

	mu      sync.Mutex
	ledger  *capacity.Ledger // of all that was looked at since the page runs
	fitting sync.Mutex       // held while a shape is planned
}

// quiet has no person at its end: the page says itself that it waits.
var quiet = Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}

// reading is one that reads the same cluster. A reading keeps nothing from one question to the next.
func (q *uiQuestions) reading() reading {
	return reading{connection: q.o.connection}
}

// Line is what `berth queue` and `berth jobs -A` show; who may not see the whole cluster is shown the namespace.
func (q *uiQuestions) Line(ctx context.Context) (queues answer.QueueList, workloads answer.WorkloadList, err error) {
	o := &jobsOptions{reading: q.reading(), streams: quiet, all: true}
	a, err := o.asker()
	if err != nil {
		return queues, workloads, err
	}
	workloads, err = o.list(ctx, a)
	if apierrors.IsForbidden(errors.Unwrap(err)) {
		o.all, o.space = false, o.namespace()
		workloads, err = o.list(ctx, a)
	}
	o.all, o.space = false, o.namespace()
	if err != nil {
		queues, _, _ = o.listQueues(ctx, a) // the error is the line's
		return queues, workloads, err
	}
	queues, told, err := o.listQueues(ctx, a)
	if err == nil && !told {
		err = errors.New("the scheduler does not answer: queues are shown as they were written")
	}
	return queues, workloads, err
}

// Why is `berth why KIND/NAME -n NAMESPACE`, or `berth why -A`.
func (q *uiQuestions) Why(ctx context.Context, target facts.Ref) (any, error) {
	o := &whyOptions{reading: q.reading(), streams: quiet, space: target.Namespace, target: facts.Ref{Kind: target.Kind, Name: target.Name}}
	if target.Name != "" && o.space == "" {
		o.space = o.namespace()
	}
	f, err := o.facts(ctx, o.streams, o.asks())
	if err != nil {
		return nil, err
	}
	if target.Name == "" && target.Namespace == "" && o.blind(f) != nil {
		o.space = o.namespace() // what they may see
	}
	a, err := o.asker()
	if err != nil {
		return nil, err
	}
	d := diagnoser(ctx, a, f, o.space, o.asks())
	if target.Name != "" {
		return o.one(d, f)
	}
	return o.everything(ctx, d, f)
}

// whyAnswer is a diagnosis with what the page needs beside it.
type whyAnswer struct {
	diagnose.Diagnosis
	Advice  string    `json:"advice,omitempty"`
	Created time.Time `json:"created,omitzero"`
}

func (o *whyOptions) one(d *diagnose.Diagnoser, f *facts.Facts) (any, error) {
	o.target.Namespace = o.space
	answer, err := d.Why(o.target)
	if err != nil {
		return nil, err
	}
	o.remember(&answer, f)
	address(&answer, o.kubectl())
	return whyAnswer{answer, answer.Advice, answer.Created}, nil
}

// everything is all that waits. A cluster where more waits than can be looked at in time is told in part.
func (o *whyOptions) everything(ctx context.Context, d *diagnose.Diagnoser, f *facts.Facts) (any, error) {
	if err := o.blind(f); err != nil {
		return nil, err
	}
	out := struct {
		Items  []whyAnswer    `json:"items"`
		Left   int            `json:"left,omitempty"` // that were not looked at
		Unseen []facts.Unseen `json:"unseen,omitempty"`
	}{Items: []whyAnswer{}, Unseen: f.Unseen}
	began, waiting := time.Now(), d.Waiting(o.space)
	for i, r := range waiting {
		if ctx.Err() != nil || time.Since(began) > uiPatience {
			out.Left = len(waiting) - i
			break
		}
		answer, err := d.Why(r.Ref)
		if err != nil {
			return nil, err
		}
		if !r.Lists(&answer) {
			continue
		}
		answer.Unseen = nil
		address(&answer, o.kubectl())
		out.Items = append(out.Items, whyAnswer{answer, answer.Advice, answer.Created})
	}
	return out, nil
}

// uiPatience bounds how long the page waits for a list of causes.
const uiPatience = 20 * time.Second

// Fit is `berth check` of a Job of the shape. It is not admitted in dry run: nothing is sent to the cluster.
func (q *uiQuestions) Fit(ctx context.Context, shape web.Shape) (any, error) {
	a := against{reading: q.reading()}
	world, err := a.world(ctx, quiet)
	if err != nil {
		return nil, err
	}
	if !q.fitting.TryLock() {
		return nil, errors.New("an earlier shape is still being planned: try again in a while")
	}
	began := time.Now()
	world.Late = func() bool { return time.Since(began) > uiPatience || ctx.Err() != nil }
	done := make(chan submit.Report, 1)
	go func() { // a check cannot be interrupted: one at most goes on that nobody waits for
		defer q.fitting.Unlock()
		done <- submit.Check(world, a.defaultNamespace(), []submit.Item{{File: "shape", Line: 1, Object: jobOf(shape)}})
	}()
	select {
	case report := <-done:
		return report, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(uiPatience):
		return nil, fmt.Errorf("the engine has no answer after %s: ask for fewer pods", uiPatience)
	}
}

// jobOf is a Job whose pods start together.
func jobOf(s web.Shape) map[string]any {
	labels := map[string]any{}
	if s.Queue != "" {
		labels[v1alpha1.KeyQueue] = s.Queue
	}
	annotations := map[string]any{v1alpha1.KeyGang: "shape", v1alpha1.KeyMin: fmt.Sprint(s.Pods)}
	if s.Level != "" {
		annotations[v1alpha1.KeyTopologyRequired] = s.Level
	}
	limits := map[string]any{"nvidia.com/gpu": fmt.Sprint(s.GPUs)}
	spec := map[string]any{
		"schedulerName": "berth", "restartPolicy": "Never",
		"containers": []any{map[string]any{"name": "main", "image": "busybox", "resources": map[string]any{"limits": limits}}},
	}
	if s.Model != "" {
		spec["nodeSelector"] = map[string]any{"nvidia.com/gpu.product": s.Model}
	}
	return map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "shape"},
		"spec": map[string]any{
			"completions": s.Pods, "parallelism": s.Pods, "completionMode": "Indexed",
			"template": map[string]any{"metadata": map[string]any{"labels": labels, "annotations": annotations}, "spec": spec},
		},
	}
}

// Capacity is `berth capacity`. One ledger is kept for as long as the page runs.
func (q *uiQuestions) Capacity(ctx context.Context, by string) (any, []byte, error) {
	if capacityBy[by] == nil {
		return nil, nil, fmt.Errorf("by %q: use %s", by, strings.Join(capacityBys, ", "))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ledger == nil {
		q.ledger = capacity.New()
	}
	var text bytes.Buffer
	o := &capacityOptions{reading: q.reading(), by: by, output: "csv", metrics: q.o.metrics, streams: Streams{In: quiet.In, Out: &text, Err: io.Discard}}
	v, err := o.look(ctx, q.ledger)
	if err != nil {
		return nil, nil, err
	}
	if err := v.csv(o); err != nil {
		return nil, nil, err
	}
	return v, text.Bytes(), nil
}

// Cost is `berth cost --by BY --since FROM --until TO`.
func (q *uiQuestions) Cost(ctx context.Context, by string, from, to time.Time) (any, []byte, error) {
	if at, err := q.o.choose(); err == nil && at.partly {
		return nil, nil, errClosedLog
	}
	var text bytes.Buffer
	o := &costOptions{
		reading: q.reading(), by: by, since: from.UTC().Format(time.RFC3339Nano), until: to.UTC().Format(time.RFC3339Nano), output: "csv",
		streams: Streams{In: quiet.In, Out: &text, Err: io.Discard},
	}
	from, to, err := o.check(time.Now())
	if err != nil {
		return nil, nil, err
	}
	v, err := o.look(ctx, from, to)
	if err != nil {
		return nil, nil, err
	}
	if err := v.csv(o); err != nil {
		return nil, nil, err
	}
	return v, text.Bytes(), nil
}

// errClosedLog is told to viewers who may see a part of the cluster.
var errClosedLog = apierrors.NewForbidden(schema.GroupResource{Resource: "decisions"}, "", errors.New("the log tells of everybody's work: it is for those who may list nodes and the pods of all namespaces"))

// log is the decision log of the cluster. Only a cluster of this machine has one that can be read.
func (q *uiQuestions) log() (*record.Log, error) {
	at, err := q.o.choose()
	if err != nil {
		return nil, err
	}
	if at.partly {
		return nil, errClosedLog
	}
	if at.decisions == "" {
		return nil, errors.New("the decision log of this cluster is not on this machine: the page shows what it has seen itself")
	}
	return record.Open(at.decisions)
}

// Past is a span in parts, from the same log and by the same book as `berth cost`.
func (q *uiQuestions) Past(ctx context.Context, from, to time.Time, parts int) (past bill.Past, since time.Time, err error) {
	log, err := q.log()
	if err != nil {
		return past, since, err
	}
	if since = log.From(); since.After(from) && since.Before(to) {
		from = since
	}
	f, deadline := bill.Follow(from, to, parts), time.Now().Add(uiPatience)
	for step, err := range stepsOf(log, from, to) {
		if err != nil {
			continue // that time is seen by nobody
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return past, since, fmt.Errorf("%w: choose a shorter time", errBudget)
		}
		f.Add(step)
	}
	end := time.Now()
	if to.Before(end) {
		end = to
	}
	return f.Close(end), since, nil
}

// Moments are the cluster at times that are in order, as the scheduler was told.
func (q *uiQuestions) Moments(ctx context.Context, at ...time.Time) ([]bill.Moment, error) {
	log, err := q.log()
	if err != nil {
		return nil, err
	}
	if at[0].Before(log.From()) {
		return nil, &record.OutsideError{From: log.From()}
	}
	b, deadline := bill.New(bill.Options{}), time.Now().Add(uiPatience)
	var out []bill.Moment
	take := func(upTo time.Time) {
		for len(out) < len(at) && at[len(out)].Before(upTo) {
			m := b.Moment()
			m.At = at[len(out)]
			out = append(out, m)
		}
	}
	for step, err := range stepsOf(log, at[0], at[len(at)-1]) {
		if err != nil {
			continue
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return nil, fmt.Errorf("%w: choose a shorter time", errBudget)
		}
		take(step.Now)
		b.Add(step)
	}
	take(at[len(at)-1].Add(1))
	return out, nil
}

// mostHappened bounds what is told of the past.
const mostHappened = 2000

// Happened is `berth replay --from T --to T`, the latest first.
func (q *uiQuestions) Happened(ctx context.Context, from, to time.Time) (any, error) {
	log, err := q.log()
	if err != nil {
		return nil, err
	}
	if to.Before(log.From()) {
		return nil, &record.OutsideError{From: log.From()}
	}
	out := struct {
		From, To time.Time // of the log
		Items    []happening
	}{From: log.From(), To: to, Items: []happening{}}
	t, deadline := &teller{}, time.Now().Add(uiPatience)
	for c, err := range log.Cycles(from, to) {
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return nil, fmt.Errorf("%w: choose a shorter time", errBudget)
		}
		out.Items = append(out.Items, t.tell(c)...)
		out.Items = out.Items[max(0, len(out.Items)-mostHappened):]
	}
	slices.Reverse(out.Items)
	return out, nil
}

// Imagine is `berth whatif --quota QUEUE=N`.
func (q *uiQuestions) Imagine(ctx context.Context, queue string, quota int64) (any, error) {
	a := against{reading: q.reading()}
	world, err := a.world(ctx, quiet)
	if err != nil {
		return nil, err
	}
	return submit.Imagine(world, a.defaultNamespace(), nil, submit.Changes{Quota: []submit.Count{{Of: queue, N: quota}}})
}
