package rules

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// Rules is the namespace selectors of pods, and the Services.
type Rules struct {
	around    Around
	selectors map[string]*selected          // namespace selectors of pods, by text
	of        map[string][]string           // selectors that pods have, by key
	changed   map[string]bool               // selectors that select others than their pods were given with
	services  map[string]map[string]service // by namespace, then by name
	byLabel   map[string]map[string]bool    // names of Services, by namespace and the first label of their selector
	waiting   map[string]map[string]bool    // pods of ours without a node and constraints of their own, by namespace, by key
	moved     map[string]bool               // namespaces whose Services changed
}

// Around is what Rules asks others for.
type Around interface {
	// Select lists the namespaces that the selector selects, by name; never nil.
	Select(labels.Selector) []string
	// Selector is how the pod's controller selects its pods, nil for none.
	Selector(*corev1.Pod) []engine.Requirement
}

// service is the selector of one.
type service map[string]string

// selected is a namespace selector of pods. names is never written to: pods that were given share it.
type selected struct {
	selector labels.Selector
	names    []string        // sorted
	users    map[string]bool // keys of pods
}

// New returns the rules of a cluster without pods and Services.
func New(around Around) *Rules {
	return &Rules{
		around: around, selectors: make(map[string]*selected), of: make(map[string][]string), changed: make(map[string]bool), services: make(map[string]map[string]service),
		byLabel: make(map[string]map[string]bool), waiting: make(map[string]map[string]bool), moved: make(map[string]bool),
	}
}

// Around is for readers of pods.
func (r *Rules) Around() convert.Around {
	return convert.Around{Namespaces: r.namespaces, Peers: r.peers}
}

// namespaces are those that the selector selects.
func (r *Rules) namespaces(s labels.Selector) []string {
	if known := r.selectors[s.String()]; known != nil {
		return known.names
	}
	return r.around.Select(s)
}

// Join notes what the pod's rules depend on; waits says that it is a pod of ours without a node. A pod that is known is entered anew.
func (r *Rules) Join(key string, p *corev1.Pod, waits bool) {
	r.Leave(key, p.Namespace)
	for _, s := range convert.NamespaceSelectors(p) {
		text := s.String()
		if r.selectors[text] == nil {
			r.selectors[text] = &selected{selector: s, names: r.around.Select(s), users: make(map[string]bool)}
		}
		r.selectors[text].users[key] = true
		r.of[key] = append(r.of[key], text)
	}
	if waits && len(p.Spec.TopologySpreadConstraints) == 0 {
		insert(r.waiting, p.Namespace, key, true)
	}
}

// Leave forgets a pod, in this version or another.
func (r *Rules) Leave(key, namespace string) {
	for _, text := range r.of[key] {
		if s := r.selectors[text]; s != nil {
			if delete(s.users, key); len(s.users) == 0 {
				delete(r.selectors, text)
			}
		}
	}
	delete(r.of, key)
	cut(r.waiting, namespace, key)
}

// Namespace finds the selectors for which the namespace is not what it was: it had the labels was, or was not there,
// and has the labels is, or is gone.
func (r *Rules) Namespace(name string, was, is labels.Set, known, exists bool) (any bool) {
	//archtest:any-order each selector by itself
	for text, s := range r.selectors {
		before, after := known && s.selector.Matches(was), exists && s.selector.Matches(is)
		if before == after {
			continue
		}
		s.names = slices.Clone(s.names)
		at, found := slices.BinarySearch(s.names, name)
		switch {
		case after && !found:
			s.names = slices.Insert(s.names, at, name)
		case !after && found:
			s.names = slices.Delete(s.names, at, at+1)
		}
		r.changed[text], any = true, true
	}
	return any
}

// peers selects the pods of the pod's Services and of its controller, as upstream's DefaultSelector does; nil for none.
// ReplicationControllers are not looked at.
func (r *Rules) peers(p *corev1.Pod) []engine.Requirement {
	all := make(map[string]string)
	//archtest:any-order what matches one pod agrees on its labels
	for key, value := range p.Labels {
		//archtest:any-order Services that match one pod agree on its labels
		for name := range r.byLabel[serviceLabel(p.Namespace, key, value)] {
			if s := r.services[p.Namespace][name]; s.matches(p.Labels) {
				maps.Copy(all, s)
			}
		}
	}
	var out []engine.Requirement
	for _, key := range slices.Sorted(maps.Keys(all)) {
		out = append(out, engine.Requirement{Key: key, Op: engine.In, Values: []string{all[key]}})
	}
	for _, req := range r.around.Selector(p) {
		if !slices.ContainsFunc(out, func(o engine.Requirement) bool {
			return o.Key == req.Key && o.Op == req.Op && slices.Equal(o.Values, req.Values)
		}) {
			out = append(out, req)
		}
	}
	return out
}

// matches says whether the Service sends to pods of the labels; one without a selector sends to none.
func (s service) matches(l map[string]string) bool {
	for key, value := range s {
		if got, has := l[key]; !has || got != value {
			return false
		}
	}
	return len(s) > 0
}

func serviceLabel(namespace, key, value string) string {
	return namespace + "/" + key + "=" + value
}

// first is the label by which the Service is found; "": it has no selector.
func (s service) first(namespace string) string {
	if len(s) == 0 {
		return ""
	}
	key := slices.Min(slices.Collect(maps.Keys(s)))
	return serviceLabel(namespace, key, s[key])
}

// SetService takes in the selector of a Service, and says whether pods are to be looked at again for it.
func (r *Rules) SetService(namespace, name string, is map[string]string) bool {
	was, known := r.services[namespace][name]
	if !known || !maps.Equal(was, is) {
		r.remove(namespace, name)
		insert(r.services, namespace, name, service(is))
		if at := service(is).first(namespace); at != "" {
			insert(r.byLabel, at, name, true)
		}
		r.moved[namespace] = true
	}
	return r.respreads()
}

// RemoveService takes a Service away, and says the same.
func (r *Rules) RemoveService(namespace, name string) bool {
	r.remove(namespace, name)
	return r.respreads()
}

func (r *Rules) remove(namespace, name string) {
	was, known := r.services[namespace][name]
	if !known {
		return
	}
	cut(r.services, namespace, name)
	cut(r.byLabel, was.first(namespace), name)
	r.moved[namespace] = true
}

// respreads says whether Services changed where pods wait. Elsewhere nobody has to look at them.
func (r *Rules) respreads() bool {
	maps.DeleteFunc(r.moved, func(namespace string, _ bool) bool { return len(r.waiting[namespace]) == 0 })
	return len(r.moved) > 0
}

// Take returns the pods whose rules mean something else than when it was last called.
func (r *Rules) Take() map[string]bool {
	again := make(map[string]bool)
	//archtest:any-order it fills a set
	for text := range r.changed {
		if s := r.selectors[text]; s != nil {
			maps.Copy(again, s.users)
		}
	}
	//archtest:any-order it fills a set
	for namespace := range r.moved {
		maps.Copy(again, r.waiting[namespace])
	}
	clear(r.changed)
	clear(r.moved)
	return again
}

// insert enters a value under two keys, and cut takes it away.
func insert[V any](m map[string]map[string]V, a, b string, v V) {
	if m[a] == nil {
		m[a] = make(map[string]V)
	}
	m[a][b] = v
}

func cut[V any](m map[string]map[string]V, a, b string) {
	delete(m[a], b)
	if len(m[a]) == 0 {
		delete(m, a)
	}
}
