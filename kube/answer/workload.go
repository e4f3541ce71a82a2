package answer

import (
	"errors"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// workloads is the list of a namespace, or of all that the user may see. Parameters: state keeps those in that
// state, of those that a person means by it.
func (a *asking) workloads() (any, error) {
	namespace := a.PathValue("namespace")
	if err := a.noWatch("workloads"); err != nil {
		return nil, err
	}
	denied := a.may("list", "workloads", namespace, "")
	if denied != nil && (namespace != "" || !errors.As(denied, new(said))) {
		return nil, denied
	}
	source, err := a.source()
	if err != nil {
		return nil, err
	}
	items, err := source.Workloads(a.Context(), namespace)
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	if denied != nil { // of all namespaces, some may be open to them
		sees := a.sees(Group, "workloads")
		items = slices.DeleteFunc(items, func(w Workload) bool { return !sees(w.Namespace) })
		if len(items) == 0 {
			return nil, denied
		}
	}
	return a.list(items), nil
}

// list keeps what was asked for, and of each what a line tells.
func (a *asking) list(items []Workload) any {
	state, of := State(a.FormValue("state")), a.FormValue("of")
	items = slices.DeleteFunc(items, func(w Workload) bool { return state != "" && w.State != state || of != "" && !w.Is(of) })
	list := listed(items, a.view())
	if a.wantsTable() {
		return workloadTable(list.Items)
	}
	return list
}

// listed is the list with what a line tells, and what the view lets be told. It writes into the items.
func listed(items []Workload, view view) WorkloadList {
	for i := range items {
		w := &items[i]
		view.hide(w)
		w.TypeMeta = metav1.TypeMeta{APIVersion: GroupVersion, Kind: "Workload"}
		w.Gates, w.Certificates, w.Pods.Names = nil, nil, nil
	}
	return WorkloadList{TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion, Kind: "WorkloadList"}, Items: items}
}

// workload is one, whole.
func (a *asking) workload() (any, error) {
	namespace, name := a.PathValue("namespace"), a.PathValue("name")
	if err := a.may("get", "workloads", namespace, name); err != nil {
		return nil, err
	}
	source, err := a.source()
	if err != nil {
		return nil, err
	}
	w, err := source.Workload(a.Context(), namespace, name)
	if errors.Is(err, ErrNotFound) {
		return nil, notFound("workloads", name)
	}
	if err != nil {
		return nil, err
	}
	a.view().hide(&w)
	w.TypeMeta = metav1.TypeMeta{APIVersion: GroupVersion, Kind: "Workload"}
	if a.wantsTable() {
		return workloadTable([]Workload{w}), nil
	}
	return w, nil
}

// queues is the list of all, or of those that a namespace may use.
func (a *asking) queues() (any, error) {
	items, err := a.listQueues("list", "")
	if err != nil {
		return nil, err
	}
	if a.wantsTable() {
		return queueTable(items), nil
	}
	return QueueList{TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion, Kind: "QueueList"}, Items: items}, nil
}

func (a *asking) queue() (any, error) {
	name := a.PathValue("name")
	items, err := a.listQueues("get", name)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(items, func(q Queue) bool { return q.Name == name })
	if i < 0 {
		return nil, notFound("queues", name)
	}
	if a.wantsTable() {
		return queueTable(items[i : i+1]), nil
	}
	return items[i], nil
}

func (a *asking) listQueues(verb, name string) ([]Queue, error) {
	namespace := a.PathValue("namespace")
	if err := a.noWatch("queues"); err != nil {
		return nil, err
	}
	if err := a.may(verb, "queues", namespace, name); err != nil {
		return nil, err
	}
	source, err := a.source()
	if err != nil {
		return nil, err
	}
	items, err := source.Queues(a.Context())
	if err != nil {
		return nil, err
	}
	return queuesOf(items, namespace), nil
}

// queuesOf are those that the namespace may use; of "", all.
func queuesOf(items []Queue, namespace string) []Queue {
	items = slices.DeleteFunc(slices.Clone(items), func(q Queue) bool {
		return namespace != "" && q.Namespaces != nil && !slices.Contains(q.Namespaces, namespace)
	})
	for i := range items {
		items[i].TypeMeta = metav1.TypeMeta{APIVersion: GroupVersion, Kind: "Queue"}
	}
	return items
}

func notFound(resource, name string) error {
	return say(apierrors.NewNotFound(schema.GroupResource{Group: Group, Resource: resource}, name))
}

// noWatch refuses a list that is to be followed.
func (a *asking) noWatch(resource string) error {
	if w := a.FormValue("watch"); w == "" || w == "false" || w == "0" {
		return nil
	}
	return say(apierrors.NewMethodNotSupported(schema.GroupResource{Group: Group, Resource: resource}, "watch"))
}

// nothing is the answer to all else.
func (a *asking) nothing() (any, error) {
	if a.Method != http.MethodGet {
		return nil, say(apierrors.NewMethodNotSupported(schema.GroupResource{Group: Group, Resource: a.URL.Path}, a.Method))
	}
	return nil, say(apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", a.URL.Path+" is not served here", 0, false))
}
