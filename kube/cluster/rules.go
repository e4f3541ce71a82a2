package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster/internal/tenancy"
	"github.com/berth-dev/berth/kube/convert"
)

// rules is what rules between pods depend on beside the pods: which namespaces a selector selects, and which Services a pod
// is behind, from whose other pods it is spread. A namespace that changes costs as much as there are different selectors, and
// then the pods whose selectors select others now; a Service the pods of its namespace that wait and have no constraint of
// their own.
type rules struct {
	tenancy   *tenancy.Tenancy
	owners    *owners
	selectors map[string]*selected          // namespace selectors of pods, by text
	of        map[string][]string           // selectors that pods have, by key
	changed   map[string]bool               // selectors that select others than their pods were given with
	services  map[string]map[string]service // by namespace, then by name
	byLabel   map[string]map[string]bool    // names of Services, by namespace and the first label of their selector
	waiting   map[string]map[string]*member // pods of ours without a node and constraints of their own, by namespace and key
	moved     map[string]bool               // namespaces whose Services changed
}

// service is the selector of one.
type service map[string]string

// selected is a namespace selector of pods. names is never written to: pods that were given share it.
type selected struct {
	selector labels.Selector
	names    []string // sorted
	users    map[string]*member
}

func newRules(t *tenancy.Tenancy, o *owners) *rules {
	return &rules{
		tenancy: t, owners: o, selectors: make(map[string]*selected), of: make(map[string][]string), changed: make(map[string]bool), services: make(map[string]map[string]service),
		byLabel: make(map[string]map[string]bool), waiting: make(map[string]map[string]*member), moved: make(map[string]bool),
	}
}

// around is for readers of pods.
func (r *rules) around() convert.Around {
	return convert.Around{Namespaces: r.namespaces, Peers: r.peers}
}

// namespaces are those that the selector selects.
func (r *rules) namespaces(s labels.Selector) []string {
	if known := r.selectors[s.String()]; known != nil {
		return known.names
	}
	return r.tenancy.Select(s)
}

// join notes what the pod's rules depend on.
func (r *rules) join(m *member) {
	r.leave(m)
	for _, s := range convert.NamespaceSelectors(m.pod) {
		text := s.String()
		if r.selectors[text] == nil {
			r.selectors[text] = &selected{selector: s, names: r.tenancy.Select(s), users: make(map[string]*member)}
		}
		r.selectors[text].users[m.key] = m
		r.of[m.key] = append(r.of[m.key], text)
	}
	if m.ours && m.waiting() && len(m.pod.Spec.TopologySpreadConstraints) == 0 {
		insert(r.waiting, m.pod.Namespace, m.key, m)
	}
}

// leave forgets a pod, in this version or another.
func (r *rules) leave(m *member) {
	for _, text := range r.of[m.key] {
		if s := r.selectors[text]; s != nil {
			if delete(s.users, m.key); len(s.users) == 0 {
				delete(r.selectors, text)
			}
		}
	}
	delete(r.of, m.key)
	cut(r.waiting, m.pod.Namespace, m.key)
}

// namespaceChanged finds the selectors for which the namespace is not what it was: it had the labels was, or was not there,
// and has the labels is, or is gone.
func (r *rules) namespaceChanged(name string, was, is labels.Set, known, exists bool) (any bool) {
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
func (r *rules) peers(p *corev1.Pod) []engine.Requirement {
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
	if by := r.owners.all[controllerOf(p)]; by != nil && by.Namespace == p.Namespace {
		for _, req := range by.Selector {
			if !slices.ContainsFunc(out, func(o engine.Requirement) bool {
				return o.Key == req.Key && o.Op == req.Op && slices.Equal(o.Values, req.Values)
			}) {
				out = append(out, req)
			}
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

func (r *rules) setService(namespace, name string, is service) {
	was, known := r.services[namespace][name]
	if known && maps.Equal(was, is) {
		return
	}
	r.removeService(namespace, name)
	insert(r.services, namespace, name, is)
	if at := is.first(namespace); at != "" {
		insert(r.byLabel, at, name, true)
	}
	r.moved[namespace] = true
}

func (r *rules) removeService(namespace, name string) {
	was, known := r.services[namespace][name]
	if !known {
		return
	}
	cut(r.services, namespace, name)
	cut(r.byLabel, was.first(namespace), name)
	r.moved[namespace] = true
}

// respreads has the next cycle come at once if Services changed where pods wait.
func (f *Feed) respreads() {
	maps.DeleteFunc(f.rules.moved, func(namespace string, _ bool) bool { return len(f.rules.waiting[namespace]) == 0 })
	if len(f.rules.moved) > 0 {
		f.out.wake()
	}
}

// giveRules gives the pods again whose rules mean something else now.
func (f *Feed) giveRules() {
	r := f.rules
	again := make(map[string]*member)
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
	maps.DeleteFunc(again, func(_ string, m *member) bool { return !m.given })
	f.giveAgain(slices.Collect(maps.Values(again)))
}
