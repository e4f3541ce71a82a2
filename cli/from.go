package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/kube/inspect"
)

// health is the answer in a bundle that says whether there were answers.
type health struct {
	Answers bool   `json:"answers"`
	Why     string `json:"why,omitempty"` // not
	// Configuration is why the scheduler's configuration is not in the bundle, in the words of that day.
	Configuration string `json:"configuration,omitempty"`
}

// healthPath is where in a bundle it is. Nothing that can be asked has this path.
const healthPath = "health"

// mostWhole bounds the waiting workloads that are asked about one by one for a bundle.
const mostWhole = 200

// answers asks for all that read commands ask for, for a bundle. A scheduler that does not answer is one of the answers.
func (a asker) answers(ctx context.Context, namespace string) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage)
	err := a.keep(ctx, out, namespace, "queues")
	if err == nil {
		err = a.keep(ctx, out, namespace, "workloads")
	}
	said := health{Answers: err == nil}
	if err := a.keep(ctx, out, namespace, "configurations"); err != nil {
		said.Configuration = unreached(err)
	}
	if err != nil {
		said.Why = err.Error()
	}
	out[healthPath], _ = json.Marshal(said)
	for _, w := range waitingIn(out) {
		path := []string{"namespaces", w.Namespace, "workloads", w.Name}
		if body, err := a.ask(ctx, nil, path...); err == nil {
			out[strings.Join(path, "/")] = body
		}
	}
	return out
}

// keep asks for a list of everything, or else for that of the namespace.
func (a asker) keep(ctx context.Context, out map[string]json.RawMessage, namespace, what string) error {
	path := what
	body, err := a.ask(ctx, nil, what)
	if apierrors.IsForbidden(err) {
		path = "namespaces/" + namespace + "/" + what
		body, err = a.ask(ctx, nil, "namespaces", namespace, what)
	}
	if err == nil {
		out[path] = body
	}
	return err
}

// waitingIn are the first workloads in the answers that wait: what is said of them is worth having whole.
func waitingIn(answers map[string]json.RawMessage) []answer.Workload {
	var out []answer.Workload
	for path, body := range answers {
		var list answer.WorkloadList
		if strings.HasSuffix(path, "workloads") && json.Unmarshal(body, &list) == nil {
			out = append(out, list.Items...)
		}
	}
	out = slices.DeleteFunc(out, func(w answer.Workload) bool { return w.State != answer.Waiting })
	return out[:min(len(out), mostWhole)]
}

// answered reads from a bundle what the scheduler would have answered at its time.
func answered(b *inspect.Bundle, value any, params url.Values, path []string) error {
	var h health
	if err := json.Unmarshal(b.Answers[healthPath], &h); err != nil || !h.Answers {
		why := h.Why
		if why == "" {
			why = "nobody asked"
		}
		return silence("the bundle has no answers of a scheduler: when it was taken, " + why)
	}
	if body, ok := b.Answers[strings.Join(path, "/")]; ok && len(params) == 0 {
		return json.Unmarshal(body, value)
	}
	switch value := value.(type) {
	case *answer.WorkloadList:
		return workloadsIn(b, value, params, path)
	case *answer.Workload:
		return itemIn(b, value, path, func(w *answer.Workload) bool { return w.Namespace == path[1] && w.Name == path[3] })
	case *answer.QueueList, *answer.ConfigurationList:
		return listIn(b, value, path)
	case *answer.Queue:
		return itemIn(b, value, path, func(q *answer.Queue) bool { return q.Name == path[len(path)-1] })
	}
	return errors.New("the bundle has no answer to " + strings.Join(path, "/"))
}

// listIn reads the list that was kept: of everything, or of the namespace in the path.
func listIn(b *inspect.Bundle, list any, path []string) error {
	what := path[len(path)-1]
	for _, kept := range []string{what, strings.Join(path, "/")} {
		if body, ok := b.Answers[kept]; ok {
			return json.Unmarshal(body, list)
		}
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: answer.Group, Resource: what}, "", errors.New("when the bundle was taken, this was not read"))
}

// workloadsIn does what the parameters ask for.
func workloadsIn(b *inspect.Bundle, list *answer.WorkloadList, params url.Values, path []string) error {
	if err := listIn(b, list, path); err != nil {
		return err
	}
	state, of := answer.State(params.Get("state")), params.Get("of")
	list.Items = slices.DeleteFunc(list.Items, func(w answer.Workload) bool {
		return len(path) == 3 && w.Namespace != path[1] || state != "" && w.State != state || of != "" && !w.Is(of)
	})
	return nil
}

// itemIn finds one in the list that has it, without what only an answer about it alone would tell.
func itemIn[T any](b *inspect.Bundle, value *T, path []string, is func(*T) bool) error {
	var list struct{ Items []T }
	if err := listIn(b, &list, path[:len(path)-1]); err != nil {
		return err
	}
	for i := range list.Items {
		if is(&list.Items[i]) {
			*value = list.Items[i]
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: answer.Group, Resource: path[len(path)-2]}, path[len(path)-1])
}

// writtenIn is the queues as their own objects in the bundle say.
func writtenIn(b *inspect.Bundle) (out answer.QueueList, err error) {
	if !b.Facts.Sees("berthqueues.berth.dev", "") {
		return out, errors.New("berthqueues.berth.dev could not be read when the bundle was taken")
	}
	for _, u := range b.Facts.Foreign["BerthQueue.berth.dev"] {
		var q v1alpha1.BerthQueue
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &q); err != nil {
			return out, fmt.Errorf("read queue %s: %w", u.GetName(), err)
		}
		out.Items = append(out.Items, writtenQueue(&q))
	}
	return out, nil
}
